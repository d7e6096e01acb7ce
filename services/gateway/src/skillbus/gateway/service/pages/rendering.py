"""Templates, what every page shows, and the headers of pages."""

import asyncio
import hashlib
import re
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.responses import HTMLResponse

from skillbus.contracts.gateway.api_keys import Role
from skillbus.contracts.message import DEFAULT_PROJECT
from skillbus.gateway.domain.access.principal import CALLER, Principal
from skillbus.gateway.domain.access.session import LANGUAGE_COOKIE
from skillbus.gateway.service.pages.languages import (
    LANGUAGES,
    choose_language,
    load_finding_texts,
    translate_count,
    translate_text,
)

ASSETS: Final = Path(__file__).parent / "assets"
ASSETS_PATH: Final = "/assets"
_TEMPLATES: Final = Path(__file__).parent / "templates"
_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Policy of every page: nothing comes from another host, and no script or style is inline."""
SECTIONS: Final[Mapping[str, str]] = {
    "/knowledge": "Knowledge",
    "/review": "Review",
    "/tools": "Tools",
    "/search": "Search",
    "/context": "Context",
    "/learning": "Learning",
    "/runs": "Runs",
    "/statistics": "Statistics",
    "/system": "System",
    "/chat": "Chat",
}
"""Pages of the navigation, by path."""
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_SCHEMES: Final = frozenset({"http", "https", "mailto"})


class _LinkCheckingMarkdown(MarkdownIt):
    """Markdown whose links lead to pages and mail only: other schemes start programs of the reader's machine."""

    def validateLink(self, url: str) -> bool:  # noqa: N802 (the name of markdown-it)
        scheme = _SCHEME.match(url)
        return super().validateLink(url) and (scheme is None or scheme[1].lower() in _SCHEMES)


_MARKDOWN: Final = (
    _LinkCheckingMarkdown("commonmark", {"html": False, "linkify": False}).enable("table").disable("image")
)
"""Markdown without HTML and without images, which a page of a stranger could use to call home."""


@cache
def _open_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["markdown"] = render_markdown
    environment.filters["bytes"] = format_bytes
    environment.filters["seconds"] = format_seconds
    environment.globals["asset"] = make_asset_path
    return environment


def render_markdown(text: str) -> Markup:
    """Return Markdown as HTML. Raw HTML is shown as text; links to anything but pages and mail are none."""
    return Markup(_MARKDOWN.render(text))  # noqa: S704 (markdown-it escapes HTML and checks the scheme of links)


def format_bytes(size: int) -> str:
    """Return a size in the largest unit of which it has one."""
    amount, units = float(size), ["B", "KiB", "MiB", "GiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    return f"{amount:.1f} {units[0]}" if units[0] != "B" else f"{size} B"


def format_seconds(milliseconds: float) -> str:
    """Return a time in milliseconds below a second, else in seconds."""
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


@cache
def make_asset_path(name: str) -> str:
    """Return the path of an asset. It names the content, so that browsers keep the asset for ever."""
    digest = hashlib.sha256((ASSETS / name).read_bytes()).hexdigest()[:12]
    return f"{ASSETS_PATH}/{name}?v={digest}"


def read_language(request: Request) -> str:
    """Return the language of a request's pages: that of `?lang=`, else of the cookie, else of the browser."""
    chosen = request.query_params.get("lang") or request.cookies.get(LANGUAGE_COOKIE)
    return choose_language(chosen, request.headers.get("Accept-Language", ""))


def is_partial(request: Request) -> bool:
    """Return True if the browser replaces a part of the page that it shows."""
    return request.headers.get("HX-Request") == "true" and request.headers.get("HX-History-Restore-Request") != "true"


def render_page(
    request: Request, template: str, context: Mapping[str, object], *, project: str = DEFAULT_PROJECT, status: int = 200
) -> HTMLResponse:
    """Return a page, with the headers that pages need."""
    language = read_language(request)
    caller: Principal | None = request.scope.get(CALLER)
    session = None if caller is None else caller.session
    shared: dict[str, object] = {
        "_": partial(translate_text, language),
        "_n": partial(translate_count, language),
        "language": language,
        "finding_texts": load_finding_texts(language),
        "languages": LANGUAGES,
        "caller": caller,
        "csrf_token": "" if session is None else session.csrf_token,
        "can_edit": caller is not None and caller.role.includes(Role.EDITOR),
        "project": project,
        "sections": SECTIONS,
        "path": request.url.path,
        "link": partial(make_link, project),
        "is_partial": is_partial(request),
    }
    text = _open_environment().get_template(template).render({**shared, **context})
    headers = {
        "Content-Security-Policy": _SECURITY_POLICY,
        "Cache-Control": "no-store",
        "Vary": "HX-Request, Accept-Language, Cookie",
    }
    return HTMLResponse(text, status, headers)


async def render_markdown_page(
    request: Request, template: str, context: Mapping[str, object], *, project: str = DEFAULT_PROJECT
) -> HTMLResponse:
    """Return a page with Markdown, rendered in a thread: a table of thousands of cells takes a second."""
    return await asyncio.to_thread(render_page, request, template, context, project=project)


def make_link(project: str, path: str, **query: object) -> str:
    """Return a link within the project. Parameters that are None, empty or False are left out."""
    given: list[tuple[str, object]] = [] if project == DEFAULT_PROJECT else [("project", project)]
    for name, value in query.items():
        values = value if isinstance(value, (list, tuple)) else (value,)
        given += [(name, one) for one in values if one not in (None, "", False)]
    return f"{path}?{urlencode(given)}" if given else path
