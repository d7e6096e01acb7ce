"""Logging: structlog for all, console on a terminal and JSON lines elsewhere."""

import logging
import sys
from typing import Final, TextIO

import structlog
from structlog.typing import Processor

from skillbus.common.bus import headers

_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)
"""Without local variables: they may hold secrets."""


def configure_logging(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Set up logging of the process; called once, by whoever starts it."""
    out = stream or sys.stderr
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_trace,
    ]
    if out.isatty():
        final: list[Processor] = [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    else:
        final = [_TRACEBACKS, structlog.processors.JSONRenderer(ensure_ascii=False)]
    numeric = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, *final],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=True,
    )
    _capture_standard_logging(shared, final, numeric, out)


def _capture_standard_logging(shared: list[Processor], final: list[Processor], level: int, out: TextIO) -> None:
    """Give the records of libraries the same form; below warning they are the libraries' own business."""
    handler = logging.StreamHandler(out)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final]
    )
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))


def _add_trace(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if trace := headers.traceparent.get():
        event["traceparent"] = trace
    return event
