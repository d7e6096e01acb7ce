"""`skillbus keys`."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from skillbus.cli import tables
from skillbus.cli.client.http_api import KEYS
from skillbus.cli.completion import complete_key
from skillbus.cli.options import build_request
from skillbus.cli.session import Session, YesOption, remote_command
from skillbus.client.call import join_path
from skillbus.contracts.gateway.api_keys import ApiKey, ApiKeyCreated, ApiKeyRevoked, ApiKeysListed, CreateApiKey, Role
from skillbus.contracts.message import DEFAULT_PROJECT

LabelOption = Annotated[str, typer.Option("--label", help="Name of the person or program that uses the key.")]
RoleOption = Annotated[
    Role,
    typer.Option(
        "--role",
        help="reader: search and read; runner: also run skills and call tools; editor: also install, import and write; "
        "admin: also keys, providers and MCP servers.",
    ),
]
ProjectsOption = Annotated[
    list[str] | None,
    typer.Option("--project", help="Project that the key may use; repeat it for several, '*' for all. [default]"),
]
ExpiresOption = Annotated[
    str | None, typer.Option("--expires", metavar="TIME", help="Lifetime, such as 12h, 30d or 1y. Default: no end.")
]
KeyIds = Annotated[
    list[str],
    typer.Argument(
        metavar="ID...", help="Ids of keys, or their beginnings: see `keys list`.", autocompletion=complete_key
    ),
]

_TIME: Final = re.compile(r"([1-9][0-9]{0,5})([hdwy])")
_UNITS_S: Final = {"h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600, "y": 365 * 24 * 3600}


@remote_command(
    "skillbus keys create --label 'build server' --role runner --project default --expires 30d", has_project=False
)
async def create_key(
    session: Session,
    label: LabelOption,
    role: RoleOption = Role.READER,
    projects: ProjectsOption = None,
    expires: ExpiresOption = None,
) -> None:
    """Make an API key and show its text, which is never shown again.

    Nobody makes a key with a role or a project that their own key lacks, and it ends with their own key at the latest.
    """
    fields = {
        "label": label,
        "role": role,
        "projects": projects or [DEFAULT_PROJECT],
        "expires_in_s": None if expires is None else parse_lifetime(expires),
    }
    body = build_request(CreateApiKey, fields).model_dump(mode="json", exclude_unset=True)
    created = await session.connection.request(ApiKeyCreated, "POST", KEYS, json=body)
    session.output.show_result(created, lambda: _render_created(created))


@remote_command("skillbus keys list", has_project=False)
async def list_keys(session: Session) -> None:
    """List the keys that you may revoke, newest first. The last use is exact to the minute."""
    listed = await session.connection.request(ApiKeysListed, "GET", KEYS)
    session.output.show_result(listed, lambda: _render_keys(listed.keys))


@remote_command("skillbus keys revoke 7k2m9qx4vt --yes", has_project=False)
async def revoke_keys(session: Session, ids: KeyIds, yes: YesOption = False) -> None:
    """Revoke keys, and so the keys that they made. They are refused at once and stay in the list for 30 days."""
    if not yes:
        session.confirm(f"Revoke {', '.join(ids)}?")

    async def revoke_one(key_id: str) -> None:
        revoked = await session.connection.request(ApiKeyRevoked, "DELETE", join_path(KEYS, key_id))
        if revoked.made_keys:
            made = ", ".join(revoked.made_keys)
            session.output.print_note(f"{revoked.id} made other keys, which have ended with it: {made}")

    await session.apply_each(ids, revoke_one, "id", "revoked")


def parse_lifetime(text: str) -> int:
    """Return the seconds of a time such as `30d`.

    Raises:
        typer.BadParameter: It is something else.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise typer.BadParameter("give a number and h, d, w or y, such as 30d", param_hint="--expires")
    return int(match[1]) * _UNITS_S[match[2]]


def _render_created(created: ApiKeyCreated) -> RenderableType:
    facts = created.model_dump(mode="json", include={"id", "label", "role", "projects", "expires_at"})
    note = "Keep it now: it is never shown again. Send it as `Authorization: Bearer KEY`, or set SKILLBUS_API_KEY."
    return Group(tables.build_document(facts), Text(), Text(created.key, "bold"), Text(note, "dim"))


def _render_keys(keys: Sequence[ApiKey]) -> RenderableType:
    if not keys:
        return Text("There are no API keys. `skillbus keys create` makes one; the owner's key is not listed.")
    rows = [
        (
            key.id,
            key.label,
            key.role.value,
            ", ".join(key.projects),
            _format_state(key),
            _format_time(key.last_used_at, "never"),
            key.created_by,
        )
        for key in keys
    ]
    headings = ("id", "label", "role", "projects", "state", "last used", "made by")
    return tables.build_table(headings, rows, whole=("id",))


def _format_state(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {_format_time(key.revoked_at, '')}"
    if key.expires_at is None:
        return "valid"
    word = "expired" if key.expires_at <= datetime.now(UTC) else "valid until"
    return f"{word} {_format_time(key.expires_at, '')}"


def _format_time(time: datetime | None, absent: str) -> str:
    return absent if time is None else f"{time:%Y-%m-%d %H:%M}"
