"""A calibration as the command makes it: vectors from a server, the fit here, and both maps side by side."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.calibration.bm25 import encoder_of_search
from skillbus.calibration.effect import COSINES, Effect, effect_of
from skillbus.calibration.errors import CalibrationError
from skillbus.calibration.fit import fitted
from skillbus.calibration.judged import Judged
from skillbus.calibration.pairs import survey
from skillbus.calibration.vectors import Rows, Vectors, asked_of, vectors_of
from skillbus.cli.errors import CannotCalibrateError, StrangeReplyError
from skillbus.cli.session import Session
from skillbus.cli.tables import rows
from skillbus.cli.text import plain_line
from skillbus.contracts.embedder.embedding import TextRole
from skillbus.contracts.embedder.registry import Calibration, ModelRecord, UpdateModel
from skillbus.relevance.calibrations import find_calibration

BATCH_TEXTS: Final = 64  # of a request: the slowest local model takes some seconds for them


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was fitted, and what it and the map until now do to the judged pairs."""

    model: ModelRecord
    judged: Judged
    fitted: Calibration
    until_now: Calibration | None
    """None is the neutral map."""
    before: Effect
    after: Effect

    def as_update(self) -> UpdateModel:
        """The change of the model's record."""
        return UpdateModel(id=self.model.id, calibration=self.fitted)

    def document(self, *, saved: bool) -> dict[str, object]:
        """For programs."""
        return {
            "model": _name(self.model),
            "calibration": self.fitted.model_dump(),
            "saved": saved,
            "tools": len(self.judged.tools),
            "queries": len(self.judged.queries),
            "cosines": list(COSINES),
            "before": {"calibration": self.until_now.model_dump() if self.until_now else None, **asdict(self.before)},
            "after": asdict(self.after),
        }

    def table(self, *, saved: bool) -> RenderableType:
        """For people."""
        name, found = plain_line(_name(self.model)), self.fitted
        numbers = f"slope {found.slope:.3f}, lexical {found.lexical:.3f}, offset {found.offset:.3f}"
        fitted_on = f"fitted on {len(self.judged.queries)} requests and {len(self.judged.tools)} tools"
        done = f"Saved: searches with {name} use it from now on." if saved else "Not saved: --dry-run."
        return Group(
            rows(("", "until now", "fitted"), self._lines(), numbers=("until now", "fitted")),
            Text(f"{numbers}; {fitted_on}", "dim"),
            Text(done, "bold"),
        )

    def _lines(self) -> Sequence[tuple[str, str, str]]:
        both = (self.before, self.after)
        scores = [
            (f"score at cosine {cosine:g}", *(f"{effect.scores[at]:.2f}" for effect in both))
            for at, cosine in enumerate(COSINES)
        ]
        shares = [
            ("tools that fit with 0.5 or more", *(f"{effect.right_above_half:.0%}" for effect in both)),
            ("other tools with 0.5 or more", *(f"{effect.random_above_half:.1%}" for effect in both)),
            ("a tool that fits is above one that does not", *(f"{effect.auc:.1%}" for effect in both)),
        ]
        return [(what, before, after) for what, before, after in (*scores, *shares)]


async def embedded(session: Session, model: ModelRecord, judged: Judged) -> Vectors:
    """All texts, embedded by this model and no other.

    Raises:
        CannotCalibrateError: the vectors are of no use.
        CliError: what came from the server is not what was asked for, or nothing came.
    """
    tools = [tool.dense_text for tool in judged.tools]
    asked = asked_of(judged).texts
    total = math.ceil(len(tools) / BATCH_TEXTS) + math.ceil(len(asked) / BATCH_TEXTS)

    async def rows_of(texts: Sequence[str], role: TextRole) -> Rows:
        parts = []
        for begin in range(0, len(texts), BATCH_TEXTS):
            next_batch("tools" if role is TextRole.DOCUMENT else "requests")
            batch = texts[begin : begin + BATCH_TEXTS]
            parts += await session.models.embed(_name(model), batch, role)
        return _matrix(parts)

    with session.output.progress("Embedding", total) as next_batch:
        found = await rows_of(tools, TextRole.DOCUMENT), await rows_of(asked, TextRole.QUERY)
    try:
        return vectors_of(judged, *found)
    except CalibrationError as error:
        raise CannotCalibrateError(str(error)) from error


def outcome_of(model: ModelRecord, judged: Judged, vectors: Vectors) -> Outcome:
    """The fit.

    Raises:
        CalibrationError: nothing can be fitted.
    """
    pairs = survey(judged, vectors, encoder_of_search())
    found, until_now = fitted(judged, pairs), model.calibration or find_calibration(model.name)
    before, after = (effect_of(calibration, judged, pairs) for calibration in (until_now, found))
    return Outcome(model, judged, found, until_now, before, after)


def _matrix(vectors: Sequence[bytes]) -> Rows:
    """Little-endian float32 vectors as rows."""
    widths = {len(vector) for vector in vectors}
    if len(widths) != 1 or not (width := widths.pop()) or width % 4:
        raise StrangeReplyError("vectors of several lengths came", "Was the model changed meanwhile? Try again.")
    return np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1).astype(np.float32)


def _name(model: ModelRecord) -> str:
    return f"{model.provider}/{model.name}"
