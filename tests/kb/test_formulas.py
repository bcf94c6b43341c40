"""Formulas in tables: none is left alive in what people open, and a KB comes back to the letter."""

import csv
import io
import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import timeplex
from timeplex.kb.store import harmless, without_formulas, write_file, write_folder, write_frame

HOSTILE = (
    '=HYPERLINK("http://x","y")',
    "=1+1",
    "+1+1",
    "-1+1",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "  =1+1",
    "\u00a0=1+1",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "\tx",
    "＝1+1",
    "＋1+x",
    "－1+x",
    "＠SUM(1)",
    "\ufeff=1+1",
    '"=1+1"',
    "x;=1+1",
    "x\t=1+1",
    "x\n=1+1",
    'x,"=1+1',
    "x|@SUM(1)",
    "-5;=1+1",
)
HARMLESS = ("", "x", "-405", "-0.5", "+3", "-1e-5", "-0044", "-0044-03-15", "-", "−405", "a-b", "a = b", "'=1", "x; -3")

BLANK = '[ \xa0"\ufeff]*'
SIGN = re.compile(rf"{BLANK}[-=+@＝＋－＠]")
NUMBER = rf"{BLANK}([+-]?\d[\d.,]*(e[+-]?\d+)?%?|-\d{{4,}}-\d\d(-\d\d)?|-){BLANK}"
ALONE = re.compile(NUMBER, re.IGNORECASE)
BEFORE_OTHERS = re.compile(rf"{NUMBER}[,;\t|].*", re.IGNORECASE | re.DOTALL)


def rows(text: str, separator: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))


def live_cells(text: str, separator: str) -> list[str]:
    """The cells of a CSV that would be formulas, also for a spreadsheet that expects another separator.

    Such a one may see a number and what follows it as one cell, which is no formula that could be calculated.
    """
    right = [cell for row in rows(text, separator) for cell in row]
    wrong = [cell for line in re.split("[\r\n]", text) for cell in re.split("[,;\t|]", line)]
    wrong += [cell for other in ",;\t|" for row in rows(text, other) for cell in row if other != separator]
    return [cell for cell in right if cell[:1] in set("\t\r\n") or (SIGN.match(cell) and not ALONE.fullmatch(cell))] + [
        cell for cell in wrong if SIGN.match(cell) and not ALONE.fullmatch(cell) and not BEFORE_OTHERS.fullmatch(cell)
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_formulas_get_an_apostrophe(text: str) -> None:
    assert live_cells(text, ",")
    assert harmless(text) != text
    assert harmless(text).replace("'", "") == text.replace("'", "")


@pytest.mark.parametrize("text", HARMLESS)
def test_numbers_dates_and_names_stay(text: str) -> None:
    assert harmless(text) == text


TEXTS = st.text(st.sampled_from("-=+@＝,;|\t\r\n \"'a1.e"), max_size=8) | st.text(max_size=20)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5), st.sampled_from(",;\t"))
@example([("a", "b\n=c"), ('x";=y', "z")], ",")
def test_nothing_written_is_alive(cells: list[tuple[str, str]], separator: str) -> None:
    frame = pl.DataFrame(cells, schema={"a": pl.String, "=b": pl.String}, orient="row").with_columns(number=-1.5)
    text = without_formulas(frame).write_csv(separator=separator)
    assert live_cells(text, separator) == []
    head, *body = rows(text, separator)
    assert head == ["a", "'=b", "number"]
    assert body == [[harmless(a), harmless(b), "-1.5"] for a, b in cells]


@given(TEXTS)
def test_once_is_enough(text: str) -> None:
    assert harmless(harmless(text)) == harmless(text)


def test_every_kind_of_text_and_no_other_column_is_changed() -> None:
    frame = pl.DataFrame({"=a": ["=1"], "'=a": ["x"], "n": [-1], "none": [None]}).with_columns(
        kind=pl.Series(["=1"], dtype=pl.Categorical), enum=pl.Series(["=1"], dtype=pl.Enum(["=1"]))
    )
    found = without_formulas(frame)
    assert found.rows() == [("'=1", "x", -1, None, "'=1", "'=1")]
    assert found.columns == ["'=a", "''=a", "n", "none", "kind", "enum"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz"])
def test_a_kb_comes_back_to_the_letter_unless_it_is_for_a_spreadsheet(tmp_path: Path, suffix: str) -> None:
    names = [name for name in HOSTILE if name == name.strip() and not re.search(r"[\t\r\n\ufeff]", name)]
    kb = timeplex.read(
        pl.DataFrame({"subject": names, "relation": "=r", "object": "-1+1", "begin": "2000", "end": "2001"})
    )
    path = tmp_path / f"facts{suffix}"
    write_file(kb, path)
    assert timeplex.read(path).to_polars().equals(kb.to_polars())
    write_file(kb, path, formulas=False)
    assert set(timeplex.read(path).entities) == {harmless(name) for name in kb.entities}
    write_folder(kb, tmp_path / "folder", ".csv", formulas=False)
    assert live_cells((tmp_path / "folder" / "train.csv").read_text(), ",") == []


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_other_formats_keep_every_text(tmp_path: Path, suffix: str) -> None:
    frame = pl.DataFrame({"=a": list(HOSTILE)})
    path = tmp_path / f"table{suffix}"
    write_frame(frame, path)
    assert (pl.read_parquet(path) if suffix == ".parquet" else pl.read_ndjson(path)).equals(frame)
