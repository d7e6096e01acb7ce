"""All that is logged while a test runs, to show that a secret is not among it."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog


@dataclass(frozen=True, slots=True)
class EverythingLogged:
    """What all libraries log at any level, and structlog with tracebacks and the variables in them."""

    out: io.StringIO = field(default_factory=io.StringIO)

    @property
    def text(self) -> str:
        """All but the headers of replies, the provider's own words: httpcore logs them at a level that is never on."""
        lines = self.out.getvalue().splitlines()
        return "\n".join(line for line in lines if "receive_response_headers.complete" not in line)


@contextmanager
def log_everything() -> Iterator[EverythingLogged]:
    """Collect all that is logged while the context is open."""
    logged = EverythingLogged()
    handler = logging.StreamHandler(logged.out)
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    with_variables = structlog.tracebacks.ExceptionDictTransformer(show_locals=True, locals_max_string=100_000)
    before = structlog.get_config()
    structlog.configure(
        processors=[structlog.processors.ExceptionRenderer(with_variables), structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.PrintLoggerFactory(logged.out),
        cache_logger_on_first_use=False,
    )
    try:
        yield logged
    finally:
        structlog.configure(**before)
        root.removeHandler(handler)
        root.setLevel(level)
