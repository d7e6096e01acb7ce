"""Work of `skillbus models calibrate`: vectors come from the server, the map is fitted here."""

import math
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.calibration.bm25 import build_search_encoder
from skillbus.calibration.effect import COSINES, Effect, measure_effect
from skillbus.calibration.errors import CalibrationError, TooLittleError
from skillbus.calibration.fit import check_enough, fit_calibration
from skillbus.calibration.judged import Judged, load_judged
from skillbus.calibration.pairs import build_survey
from skillbus.calibration.vectors import JudgedVectors, Rows, build_vectors, list_query_texts
from skillbus.cli.client.http_api import EMBEDDINGS, MODELS, build_strange_reply, parse_reply
from skillbus.cli.errors import CannotCalibrateError, LocalFileError, StrangeReplyError
from skillbus.cli.output import clean_line, format_number
from skillbus.cli.session import Session
from skillbus.cli.tables import build_table
from skillbus.client.call import join_path
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import Calibration, ModelRecord
from skillbus.contracts.http import OpenAiEmbeddings
from skillbus.relevance.score import find_calibration

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

BATCH_TEXTS: Final = 64
"""Texts of a request: the slowest local model takes some seconds for them."""
_EMBEDDING_S: Final = 300.0
"""Seconds to wait for vectors: the provider may be slow, and other requests may be queued before this one."""
_FORMS: Final = (
    'A line of --tools is like {"id": "1", "name": "git-commit", "description": "..."}, and may have tags and '
    'parameters; one of --queries is like {"query": "commit my work", "relevant": ["1"]}.'
)


@dataclass(frozen=True, slots=True)
class CalibrationResult:
    """The fitted map, and the effect of it and of the current map on the judged pairs."""

    model: ModelRecord
    judged: Judged
    fitted: Calibration
    current: Calibration | None
    """None is the neutral map."""
    before: Effect
    after: Effect

    def document(self, *, saved: bool) -> dict[str, object]:
        """Return the result for programs."""
        return {
            "model": _get_full_name(self.model),
            "calibration": self.fitted.model_dump(),
            "saved": saved,
            "tools": len(self.judged.tools),
            "queries": len(self.judged.queries),
            "cosines": list(COSINES),
            "before": {"calibration": self.current.model_dump() if self.current else None, **asdict(self.before)},
            "after": asdict(self.after),
        }

    def render(self, *, saved: bool) -> RenderableType:
        """Render the result for people."""
        both = (self.before, self.after)
        scores = [
            (f"score at cosine {cosine:g}", *(f"{effect.scores[at]:.2f}" for effect in both))
            for at, cosine in enumerate(COSINES)
        ]
        shares = [
            ("relevant tools with 0.5 or more", *(f"{effect.right_above_half:.0%}" for effect in both)),
            ("other tools with 0.5 or more", *(f"{effect.random_above_half:.1%}" for effect in both)),
            ("a relevant tool is above another one", *(f"{effect.auc:.1%}" for effect in both)),
        ]
        name, fitted_map = clean_line(_get_full_name(self.model)), self.fitted
        numbers = (
            f"slope {fitted_map.slope:.3f}, lexical {fitted_map.lexical:.3f}, offset {fitted_map.offset:.3f}; "
            f"fitted on {format_number(len(self.judged.queries), 'query')} and "
            f"{format_number(len(self.judged.tools), 'tool')}"
        )
        done = f"Saved: searches with {name} use it from now on." if saved else "Not saved: --dry-run."
        table = build_table(("", "current", "fitted"), (*scores, *shares), numbers=("current", "fitted"))
        return Group(table, Text(numbers, "dim"), Text(done, "bold"))


async def fit_model_scores(session: Session, model: str, tools: Path, queries: Path, *, dry_run: bool) -> None:
    """Fit the map from a model's cosines to scores, save it unless `dry_run`, and show its effect.

    Raises:
        LocalFileError: A file of judged data does not parse.
        CannotCalibrateError: The judged data or the vectors are not enough for a fit.
    """
    try:
        judged = load_judged(tools, queries)
        check_enough(judged)
    except TooLittleError as error:
        raise CannotCalibrateError(str(error)) from error
    except CalibrationError as error:
        raise LocalFileError(str(error), _FORMS) from error
    record = await session.connection.request(ModelRecord, "GET", join_path(MODELS, *model.split("/")))
    vectors = await _embed_judged(session, record, judged)
    try:
        pairs = build_survey(judged, vectors, build_search_encoder())
        fitted_map, current = fit_calibration(judged, pairs), record.calibration or find_calibration(record.name)
    except CalibrationError as error:
        raise CannotCalibrateError(str(error)) from error
    before, after = (measure_effect(calibration, judged, pairs) for calibration in (current, fitted_map))
    result = CalibrationResult(record, judged, fitted_map, current, before, after)
    if not dry_run:
        path, body = join_path(MODELS, *record.id.split("/")), {"calibration": fitted_map.model_dump(mode="json")}
        await session.connection.request(ModelRecord, "PATCH", path, json=body)
    session.output.show_result(result.document(saved=not dry_run), lambda: result.render(saved=not dry_run))


async def _embed_judged(session: Session, model: ModelRecord, judged: Judged) -> JudgedVectors:
    """Embed all tools and queries with this model and no other.

    Raises:
        CannotCalibrateError: The vectors cannot be used.
    """
    tools = [tool.dense_text for tool in judged.tools]
    queries = list_query_texts(judged).texts
    total = math.ceil(len(tools) / BATCH_TEXTS) + math.ceil(len(queries) / BATCH_TEXTS)

    async def embed_texts(texts: Sequence[str], role: TextRole) -> Rows:
        vectors: list[bytes] = []
        for begin in range(0, len(texts), BATCH_TEXTS):
            begin_batch("tools" if role is TextRole.DOCUMENT else "queries")
            batch = texts[begin : begin + BATCH_TEXTS]
            vectors += await _request_vectors(session.connection, _get_full_name(model), batch, role)
        widths = {len(vector) for vector in vectors}
        if len(widths) != 1 or not (width := widths.pop()) or width % 4:
            raise StrangeReplyError("the vectors differ in length", "Try again, unless the model was changed.")
        return np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1).astype(np.float32)

    with session.output.show_progress("Embedding", total) as begin_batch:
        rows = await embed_texts(tools, TextRole.DOCUMENT), await embed_texts(queries, TextRole.QUERY)
    try:
        return build_vectors(judged, *rows)
    except CalibrationError as error:
        raise CannotCalibrateError(str(error)) from error


async def _request_vectors(
    connection: "ApiConnection", model: str, texts: Sequence[str], role: TextRole
) -> list[bytes]:
    """Return one vector for each text as little-endian float32 numbers. No other model is tried."""
    body = {"model": model, "input": list(texts), "input_type": role.value, "encoding_format": "base64"}
    response = await connection.send("POST", EMBEDDINGS, json=body, wait_s=_EMBEDDING_S)
    vectors = parse_reply(OpenAiEmbeddings, response.content, response).data
    if [vector.index for vector in vectors] != list(range(len(texts))):
        problem = f"it sent {len(vectors)} vectors for {len(texts)} texts, or in another order"
        raise build_strange_reply(response, problem)
    try:
        return [b64decode(str(vector.embedding), validate=True) for vector in vectors]
    except ValueError as error:
        raise build_strange_reply(response, "its vectors are not in base64") from error


def _get_full_name(model: ModelRecord) -> str:
    return f"{model.provider}/{model.name}"
