"""`skillbus skills`. Installing and making skills have their own modules."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from skillbus.cli import tables
from skillbus.cli.client.http_api import SKILLS
from skillbus.cli.completion import complete_skill
from skillbus.cli.errors import EXIT_FAILED
from skillbus.cli.options import NameArgument, check_skill_name
from skillbus.cli.output import clean_line
from skillbus.cli.session import Session, YesOption, remote_command
from skillbus.cli.skills.packages import open_package
from skillbus.cli.skills.view import render_check, render_history, render_network, render_skills
from skillbus.client.call import join_path
from skillbus.contracts.indexer.skill_record import Skill
from skillbus.contracts.indexer.skills import SkillChecked, SkillHistory, SkillsListed
from skillbus.contracts.network import normalize_place

if TYPE_CHECKING:
    from skillbus.cli.client.connection import ApiConnection

Package = Annotated[Path, typer.Argument(metavar="PATH", exists=True, help="A skill: a .zip file or a folder.")]
Names = Annotated[
    list[str], typer.Argument(metavar="NAME...", help="Names of the skills to remove.", autocompletion=complete_skill)
]
Tag = Annotated[str | None, typer.Option("--tag", help="Only skills with this tag.")]
TextIn = Annotated[str | None, typer.Option("--text", help="Only skills with this text in name or description.")]
Enabled = Annotated[bool | None, typer.Option("--enabled/--disabled", help="Only enabled or only disabled skills.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 1 on warnings too.")]
Digest = Annotated[
    str | None,
    typer.Option(
        "--to", metavar="DIGEST", help="Content digest from the history, or its beginning. Default: the one before."
    ),
]
Approve = Annotated[
    list[str] | None,
    typer.Option("--approve", metavar="HOST:PORT", help="Place that its runs may reach from now on. Repeatable."),
]
Withdraw = Annotated[
    list[str] | None,
    typer.Option("--withdraw", metavar="HOST:PORT", help="Place that its runs may not reach any more. Repeatable."),
]

_PAGE_SIZE: Final = 200


@remote_command("skillbus skills list --tag git")
async def list_skills(session: Session, tag: Tag = None, text: TextIn = None, enabled: Enabled = None) -> None:
    """List the installed skills."""
    filters = {"tag": tag, "text": text, "enabled": None if enabled is None else str(enabled).lower()}
    given = {name: value for name, value in filters.items() if value is not None}
    found = await request_skills(session.connection, given)
    document = {"skills": [skill.model_dump(mode="json") for skill in found], "total": len(found)}
    session.output.show_result(document, lambda: render_skills(found))


@remote_command("skillbus skills show git-commit")
async def show_skill(session: Session, name: NameArgument) -> None:
    """Show an installed skill with its actions, limits and warnings."""
    path, params = join_path(SKILLS, check_skill_name(name)), session.connection.scope
    skill = await session.connection.request(Skill, "GET", path, params=params)
    document = skill.model_dump(mode="json", exclude={"scan": True, "entry_points": {"__all__": {"input_schema"}}})
    session.output.show_result(skill, lambda: tables.build_document(_drop_empty(document)))


async def request_skills(connection: "ApiConnection", filters: Mapping[str, str]) -> list[Skill]:
    """Request all installed skills that match the filters, page after page."""
    found, _ = await connection.list_rows(
        SkillsListed, SKILLS, filters, lambda page: (page.skills, page.next), page_size=_PAGE_SIZE
    )
    return found


@remote_command("skillbus skills remove git-commit --yes")
async def remove_skills(session: Session, names: Names, yes: YesOption = False) -> None:
    """Remove skills with their files, vectors and history."""
    wanted = list(dict.fromkeys(map(check_skill_name, names)))
    if not yes:
        session.confirm_removal(wanted)

    async def remove_skill(name: str) -> None:
        await session.connection.send("DELETE", join_path(SKILLS, name), params=session.connection.scope)

    await session.apply_each(wanted, remove_skill, "name")


@remote_command("skillbus skills check examples/skills/git-commit --strict")
async def check_skill(session: Session, path: Package, strict: Strict = False) -> None:
    """Validate a skill without installing it.

    Exits with 1 if it cannot be installed.
    """
    with open_package(path) as files:
        scope = session.connection.scope
        checked = await session.connection.request(SkillChecked, "POST", f"{SKILLS}/check", files=files, data=scope)
    session.output.show_result(checked, lambda: render_check(checked))
    if not (checked.valid if strict else checked.installable):
        raise typer.Exit(EXIT_FAILED)


@remote_command("skillbus skills history git-commit")
async def list_packages(session: Session, name: NameArgument) -> None:
    """List the packages installed under a name, the current one first."""
    found = await _get_history(session, check_skill_name(name))
    session.output.show_result(found, lambda: render_history(found))


@remote_command("skillbus skills rollback git-commit --to 3f2a")
async def roll_back_skill(session: Session, name: NameArgument, digest: Digest = None) -> None:
    """Return to an earlier package of a skill."""
    name = check_skill_name(name)
    if digest is not None:
        versions = (await _get_history(session, name)).versions
        matching = {it.content_digest for it in versions if it.content_digest.startswith(digest)}
        if len(matching) > 1:
            raise typer.BadParameter("several packages begin with this digest: give more of it", param_hint="--to")
        digest = matching.pop() if matching else digest
    path, params = join_path(SKILLS, name, "rollback"), session.connection.scope
    body = {} if digest is None else {"content_digest": digest}
    skill = await session.connection.request(Skill, "POST", path, params=params, json=body)
    session.output.show_result(skill, lambda: f"{_format_skill(skill)}, content {skill.content_digest[:12]}")


@remote_command("skillbus skills pin git-commit")
async def pin_skill(session: Session, name: NameArgument) -> None:
    """Keep a skill at its current package: updates are refused."""
    await _change_state(session, name, "pin")


@remote_command("skillbus skills unpin git-commit")
async def unpin_skill(session: Session, name: NameArgument) -> None:
    """Allow updates of a pinned skill again."""
    await _change_state(session, name, "unpin")


@remote_command("skillbus skills enable git-commit")
async def enable_skill(session: Session, name: NameArgument) -> None:
    """Enable a disabled skill."""
    await _change_state(session, name, "enable")


@remote_command("skillbus skills disable git-commit")
async def disable_skill(session: Session, name: NameArgument) -> None:
    """Disable a skill: it is neither found nor run."""
    await _change_state(session, name, "disable")


@remote_command("skillbus skills network web-fetch --approve example.com:443")
async def manage_network(
    session: Session, name: NameArgument, approve: Approve = None, withdraw: Withdraw = None
) -> None:
    """Show the network places that a skill requests, and approve or withdraw them."""
    added, removed = _parse_places(approve, "--approve"), _parse_places(withdraw, "--withdraw")
    path, params = join_path(SKILLS, check_skill_name(name)), session.connection.scope
    skill = await session.connection.request(Skill, "GET", path, params=params)
    if added or removed:
        approved = [place for place in (*skill.network_approved, *added) if place not in removed]
        body = {"approved": list(dict.fromkeys(approved))}
        skill = await session.connection.request(Skill, "PUT", f"{path}/network", params=params, json=body)
    session.output.show_result(skill, lambda: render_network(skill))


async def _get_history(session: Session, name: str) -> SkillHistory:
    path, params = join_path(SKILLS, name, "history"), session.connection.scope
    return await session.connection.request(SkillHistory, "GET", path, params=params)


async def _change_state(session: Session, name: str, step: str) -> None:
    path, params = join_path(SKILLS, check_skill_name(name), step), session.connection.scope
    skill = await session.connection.request(Skill, "POST", path, params=params)
    session.output.show_result(skill, lambda: _format_skill(skill))


def _parse_places(words: list[str] | None, option: str) -> tuple[str, ...]:
    try:
        return tuple(map(normalize_place, words or ()))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _drop_empty(document: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in document.items() if value not in (None, "", [], {})}


def _format_skill(skill: Skill) -> str:
    state = "enabled" if skill.enabled else "disabled"
    pinned = ", pinned" if skill.pinned else ""
    return clean_line(f"{skill.name} {skill.version or '(no version)'}: {state}{pinned}")
