"""Texts that a spreadsheet would take for a formula, made harmless: an apostrophe before them.

A name such as `=HYPERLINK("http://…")` in a CSV is run by whoever opens it in a spreadsheet. A text is a formula if it
begins with one of = + - @ (or their full-width forms), after spaces or not; a TAB or line break at its begin counts,
too. A spreadsheet that expects another separator splits a text at it: what follows `;`, `,`, `|`, TAB or a line break
is looked at as well. Numbers and dates (-405, -0.5, -0044-03-15) and a mere `-` are no formulas.

    harmless(harmless(text)) = harmless(text)
"""

import re

import polars as pl

SIGNS = "-=+@＝＋－＠"
SEPARATORS = ",;|\t\r\n"
BLANK = r"[^\S\t\r\n]|[\"\ufeff\u200b]"
"""What a spreadsheet may pass over at the begin of a cell."""

NUMBER = r"[+-]?\d[\d.,]*(?:[eE][+-]?\d+)?%?|-\d{4,}-\d\d(?:-\d\d)?|-"

CANDIDATE = rf"[{SIGNS}\t\r\n]"
FORMULA = re.compile(
    rf"""^(?=[\t\r\n])
    | ^ ((?:{BLANK})*) (?=[{SIGNS}]) (?! (?:{NUMBER}) (?:{BLANK})* \Z)
    | ([{SEPARATORS}]) ((?:{BLANK})*) (?=[{SIGNS}]) (?! (?:{NUMBER}) (?:{BLANK})* (?: \Z | [{SEPARATORS}] ))""",
    re.VERBOSE,
)


def harmless(text: str) -> str:
    """The text with an apostrophe before each formula."""
    return FORMULA.sub(lambda found: f"{found[2] or ''}'{found[1] or found[3] or ''}", text)


def without_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """A table whose texts, column names included, are harmless; numbers stay numbers."""
    changed = frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    changed = changed.with_columns(_harmless(column) for column in changed if column.dtype == pl.String)
    names: list[str] = []
    for name in map(harmless, frame.columns):
        names.append(f"'{name}" if name in names else name)
    return changed.rename(dict(zip(frame.columns, names, strict=True)))


def _harmless(column: pl.Series) -> pl.Series:
    """Only what may hold a formula is looked at text by text."""
    odd = column.filter(column.str.contains(CANDIDATE)).unique()
    return column.replace(odd, pl.Series([harmless(text) for text in odd], dtype=pl.String))
