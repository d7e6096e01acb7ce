"""`skillbus skills`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skillbus.cli.errors import EXIT_FAILED
from skillbus.cli.session import Session
from skillbus.cli.skills.names import checked_name
from skillbus.cli.text import plain_line
from skillbus.cli.tools import view as tool_tables

if TYPE_CHECKING:
    from skillbus.contracts.indexer.skill_record import Skill

Name = Annotated[str, typer.Argument(help="The skill.")]
Package = Annotated[Path, typer.Argument(metavar="PATH", exists=True, help="A skill: a .zip file or a folder.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 1 on warnings too.")]
Digest = Annotated[
    str | None,
    typer.Option("--to", metavar="DIGEST", help="Content of its history, or how it begins; the one before if absent."),
]


Approve = Annotated[
    list[str] | None,
    typer.Option("--approve", metavar="HOST:PORT", help="A place that its runs may reach from now on; repeatable."),
]
Withdraw = Annotated[
    list[str] | None,
    typer.Option("--withdraw", metavar="HOST:PORT", help="A place that they may reach no longer; repeatable."),
]


async def check(session: Session, path: Package, strict: Strict = False) -> None:
    """Show what the validation says of a skill, without installing it. Exits with 1 when it could not be installed."""
    from skillbus.cli.skills.packages import open_package  # noqa: PLC0415 (slow)

    with open_package(path) as package:
        content = package.content if isinstance(package.content, bytes) else package.content.read()
        checked = await session.tools.check_skill(package.filename, content)
    session.output.show(checked, lambda: tool_tables.checked(checked))
    if not (checked.valid if strict else checked.installable):
        raise typer.Exit(EXIT_FAILED)


async def history(session: Session, name: Name) -> None:
    """List the packages that were installed under the name of a skill, the current one first."""
    found = await session.tools.skill_history(checked_name(name))
    session.output.show(found, lambda: tool_tables.history(found))


async def rollback(session: Session, name: Name, digest: Digest = None) -> None:
    """Go back to an earlier package of a skill."""
    wanted = None if digest is None else await _whole(session, checked_name(name), digest)
    skill = await session.tools.roll_back_skill(checked_name(name), wanted)
    session.output.show(skill, lambda: f"{_line(skill)}, content {skill.content_digest[:12]}")


async def pin(session: Session, name: Name) -> None:
    """Hold a skill at the package that is installed now."""
    await _change(session, name, "pin")


async def unpin(session: Session, name: Name) -> None:
    """Have any package of a skill accepted again."""
    await _change(session, name, "unpin")


async def enable(session: Session, name: Name) -> None:
    """Have a disabled skill found and run again."""
    await _change(session, name, "enable")


async def disable(session: Session, name: Name) -> None:
    """Have a skill neither found nor run."""
    await _change(session, name, "disable")


async def network(session: Session, name: Name, approve: Approve = None, withdraw: Withdraw = None) -> None:
    """Show what of the network a skill wants to reach when it runs, and approve places of it or withdraw them."""
    added, removed = _places(approve, "--approve"), _places(withdraw, "--withdraw")
    skill = await session.tools.skill(checked_name(name))
    if added or removed:
        kept = [place for place in (*skill.network_approved, *added) if place not in removed]
        skill = await session.tools.approve_network(skill.name, tuple(dict.fromkeys(kept)))
    session.output.show(skill, lambda: tool_tables.network(skill))


async def _whole(session: Session, name: str, beginning: str) -> str:
    """The content digest that begins so; what is there else is left to the server to refuse."""
    versions = (await session.tools.skill_history(name)).versions
    found = {it.content_digest for it in versions if it.content_digest.startswith(beginning)}
    if len(found) > 1:
        raise typer.BadParameter("more than one of its packages begins so: give more of it", param_hint="--to")
    return found.pop() if found else beginning


async def _change(session: Session, name: str, step: str) -> None:
    skill = await session.tools.change_skill(checked_name(name), step)
    session.output.show(skill, lambda: _line(skill))


def _places(words: list[str] | None, option: str) -> tuple[str, ...]:
    from skillbus.contracts.network import normalize_place  # noqa: PLC0415 (slow)

    try:
        return tuple(map(normalize_place, words or ()))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _line(skill: "Skill") -> str:
    state = "enabled" if skill.enabled else "disabled"
    pinned = ", pinned" if skill.pinned else ""
    return plain_line(f"{skill.name} {skill.version or '(no version)'}: {state}{pinned}")
