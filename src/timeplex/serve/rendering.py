"""How pages go out: templates, which escape every text, tables without formulas, files of our own, addresses."""

import io
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import polars as pl
from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from timeplex import drawing
from timeplex.errors import InputError, UnknownNameError
from timeplex.files import to_json
from timeplex.kb.store import without_formulas
from timeplex.text import counted, span, visible

HERE = Path(__file__).parent
STATIC = {
    "explorer.css": "text/css",
    "explorer.js": "text/javascript",
    "suggest.js": "text/javascript",
    "curve.js": "text/javascript",
    "review.js": "text/javascript",
    "favicon.svg": "image/svg+xml",
}
"""All that is served from static/, and nothing else."""
KIND_NAMES = {"finding": "Findings", "hole": "Missing dates", "proposal": "Missing facts"}

Row = dict[str, Any]


def problem_page(request: Request, status: int, problem: str, hint: str) -> Response:
    """An error as a page."""
    shown = {"problem": problem, "hint": hint, "status": status, "here": "", "title": "That did not work", "alt": ""}
    home = {"kb_name": "timeplex", "learning": False, "again": _same(request) if status == 503 else ""}
    return HTMLResponse(environment().get_template("problem.html").render(**home, **shown), status)


def _same(request: Request) -> str:
    """The address that was asked for, without its host."""
    return "/" + link(request.url.path.lstrip("/"), **request.query_params)


def csv_of(rows: Sequence[Row]) -> str:
    """A table that no spreadsheet takes for formulas; lists and tables in it are left out."""
    flat = [{name: _cell(value) for name, value in row.items()} for row in rows]
    if not flat:
        return ""
    frame = pl.DataFrame(flat, infer_schema_length=None, strict=False)
    buffer = io.BytesIO()
    without_formulas(frame).write_csv(buffer)
    return buffer.getvalue().decode()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    return value if isinstance(value, int | float | None) else visible(to_json(value, ensure_ascii=False))


async def static(name: str) -> Response:
    """A file that a page loads, by its name: one of ours, and no other."""
    kept = {"cache-control": "max-age=300"}
    if name == "drawing.css":
        return Response(drawing.STYLE, media_type="text/css", headers=kept)
    if name not in STATIC:
        raise UnknownNameError("There is no such file.", "")
    return Response(_file(name), media_type=STATIC[name], headers=kept)


@cache
def _file(name: str) -> bytes:
    return (HERE / "static" / name).read_bytes()


async def favicon() -> Response:
    """The mark of the pages, where browsers look for it."""
    return Response(_file("favicon.svg"), media_type="image/svg+xml")


def link(path: str, /, **query: object) -> str:
    """An address with its state: what is None or empty is left out."""
    given = {name.rstrip("_"): str(value) for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, quote_via=quote)}" if given else path


@cache
def environment() -> Environment:
    """The templates; what they write is escaped, and made visible where it would act on a screen."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if not isinstance(value, str) or isinstance(value, Markup) else visible(value),
    )
    made.globals.update(link=link, counted=counted, span=span, kind_names=KIND_NAMES)
    made.filters["percent"] = _percent
    return made


def _percent(share: float | None) -> str:
    if share is None:
        return ""
    return "< 1 %" if 0 < share < 0.01 else "> 99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


def number_of(asked: Mapping[str, str], name: str, otherwise: int, most: int = 10**9) -> int:
    """A whole number of an address, from 0 on."""
    text = asked.get(name, "")
    if not text:
        return otherwise
    if not text.isascii() or not text.isdecimal() or len(text) > 10 or int(text) > most:
        raise InputError(f"{name} is no number from 0 to {most:,}.", "Use the links of the page.")
    return int(text)


def drawn(picture: str) -> Markup:
    """A picture, whose texts were escaped as it was drawn."""
    return Markup(picture)  # noqa: S704
