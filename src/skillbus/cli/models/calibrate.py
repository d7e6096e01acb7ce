"""`skillbus models calibrate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skillbus.cli.errors import CannotCalibrateError, LocalFileError
from skillbus.cli.models.commands import ModelName
from skillbus.cli.session import Session

if TYPE_CHECKING:
    from skillbus.calibration.judged import Judged

Tools = Annotated[
    Path, typer.Option("--tools", exists=True, dir_okay=False, help="JSON lines with id, name, description of tools.")
]
Queries = Annotated[
    Path, typer.Option("--queries", exists=True, dir_okay=False, help="JSON lines with query and relevant, tools' ids.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the numbers, and save nothing.")]

_FORMS = (
    'A line of --tools is like {"id": "1", "name": "git-commit", "description": "..."}, and may have tags and '
    'parameters; one of --queries is like {"query": "commit my work", "relevant": ["1"]}.'
)


async def calibrate(
    session: Session, model: ModelName, tools: Tools, queries: Queries, dry_run: DryRun = False
) -> None:
    """Fit how a model's cosines become scores, on tools and requests of which it is known what fits.

    Ten requests for one tool are the least; some hundreds, of the kind that is asked, give numbers that last. A score
    of 0.5 then says as much as with any other model. Vectors stay as they are, and searches use the map at once.
    """
    from skillbus.calibration.errors import CalibrationError  # noqa: PLC0415 (slow)
    from skillbus.cli.models import calibration as calibrating  # noqa: PLC0415 (slow)

    judged = _read(tools, queries)
    record = await session.models.model(model)
    vectors = await calibrating.embedded(session, record, judged)
    try:
        outcome = calibrating.outcome_of(record, judged, vectors)
    except CalibrationError as error:
        raise CannotCalibrateError(str(error)) from error
    if not dry_run:
        await session.models.update_model(outcome.as_update())
    session.output.show(outcome.document(saved=not dry_run), lambda: outcome.table(saved=not dry_run))


def _read(tools: Path, queries: Path) -> "Judged":
    """Before the server is asked anything."""
    from skillbus.calibration.errors import CalibrationError, TooLittleError  # noqa: PLC0415 (slow)
    from skillbus.calibration.fit import check_enough  # noqa: PLC0415 (slow)
    from skillbus.calibration.judged import read_judged  # noqa: PLC0415 (slow)

    try:
        judged = read_judged(tools, queries)
        check_enough(judged)
    except TooLittleError as error:
        raise CannotCalibrateError(str(error)) from error
    except CalibrationError as error:
        raise LocalFileError(str(error), _FORMS) from error
    return judged
