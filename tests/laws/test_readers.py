"""Laws of every reader: nothing is lost, nothing else than our own errors escapes, order has no say."""

import csv
import gzip
import io
import json
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.slow_reader import SlowReader
from tests.strategies import BREAKING, HEADER, PLAIN_NASTY, damaged_files, good_files, kbs, names

from timeplex.errors import InputError, TimeplexError
from timeplex.kb import spans
from timeplex.kb.date_spellings import DateStyle
from timeplex.kb.facts import TemporalKB
from timeplex.kb.problems import Action, Kind
from timeplex.kb.readers import READERS, from_table, read_files, read_folder
from timeplex.kb.readers.packed import sheet_rows
from timeplex.kb.readers.rows import text_of
from timeplex.kb.readers.table import ROLES, Columns, find_layout
from timeplex.kb.readers.text import read_text
from timeplex.kb.store import write_file, write_folder, write_frame

SUFFIXES = [*READERS, *(f"{suffix}.gz" for suffix in READERS)]
SHEETS = (".xlsx", ".ods")
WRITTEN = [suffix for suffix in SUFFIXES if not suffix.startswith(SHEETS)]
TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
QUICK = 17
"""Damaged files of each format in the quick tests."""
SLOW = {
    **{".csv": 1500, ".tsv": 1200, ".txt": 1200, ".jsonl": 1200, ".ndjson": 500, ".parquet": 2000},
    **{".csv.gz": 600, ".tsv.gz": 400, ".txt.gz": 400, ".jsonl.gz": 400, ".ndjson.gz": 200, ".parquet.gz": 600},
    **{".json": 300, ".json.gz": 200, ".xlsx": 60, ".ods": 60, ".xlsx.gz": 30, ".ods.gz": 30},
}
"""… and in the slow ones."""


@contextmanager
def folder() -> Iterator[Path]:
    """A new folder for each example."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def frame_of(kb: TemporalKB) -> pl.DataFrame:
    return kb.to_polars().drop("split")


# Writing and reading


def check_same(read: TemporalKB, written: TemporalKB) -> None:
    assert read == written
    assert read.digest == written.digest
    assert set(read.problems.frame["kind"]) <= {str(Kind.IMPLAUSIBLE)}
    assert read.problems.rows_read == len(written)


STYLE = DateStyle(allow_unread=True, keep_placeholders=True)
"""Random dates may look like placeholders, and damaged ones are many."""


def has_date(kb: TemporalKB) -> bool:
    begin, end = kb.facts.span
    return bool((begin != spans.OPEN_BEGIN).any() or (end != spans.OPEN_END).any())


@pytest.mark.parametrize("suffix", WRITTEN)
@settings(max_examples=16)
@given(st.data())
def test_what_is_written_is_read_back(suffix: str, data: st.DataObject) -> None:
    kb = data.draw(kbs(breaking=not suffix.startswith(".txt"), split=True))
    with folder() as place:
        write_folder(kb, place, suffix)
        assert {path.name for path in place.iterdir()} == {f"{split}{suffix}" for split in kb.splits}
        check_same(read_folder(place, granularity=kb.granularity, style=STYLE), kb)
        if has_date(kb):
            check_same(read_folder(place, style=STYLE), kb)


@pytest.mark.parametrize("suffix", WRITTEN)
@settings(max_examples=10)
@given(st.data())
def test_one_file_holds_a_whole_kb(suffix: str, data: st.DataObject) -> None:
    kb = data.draw(kbs(breaking=not suffix.startswith(".txt")))
    with folder() as place:
        path = place / f"facts{suffix}"
        write_file(kb, path)
        check_same(read_files([path], granularity=kb.granularity, style=STYLE), kb)
        assert list(place.iterdir()) == [path]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".jsonl", ".json", ".parquet"])
def test_each_nasty_name_at_the_beginning_and_the_end_of_a_file(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"facts{suffix}"
    for name in PLAIN_NASTY if suffix == ".txt" else PLAIN_NASTY + BREAKING:
        if name.strip():
            kb = from_table(pl.DataFrame({"s": [name, "last"], "r": ["relation", "r"], "o": ["object", name]}))
            write_file(kb, path)
            check_same(read_files([path]), kb)


@settings(max_examples=25)
@given(kbs())
def test_a_data_frame_holds_a_whole_kb(kb: TemporalKB) -> None:
    frame = frame_of(kb)
    for native in (frame, frame.to_pandas(), frame.to_arrow()):
        check_same(from_table(native, granularity=kb.granularity, style=STYLE), kb)


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz"])
@settings(max_examples=20)
@given(kb=kbs(breaking=False, split=True), bad=st.sampled_from(BREAKING), role=st.sampled_from(ROLES[:3]))
def test_what_plain_text_cannot_hold_is_refused_and_nothing_written(
    suffix: str, kb: TemporalKB, bad: str, role: str
) -> None:
    frame = frame_of(kb).with_columns(pl.lit("x" + bad).alias(role))
    broken = from_table(frame, granularity=kb.granularity)
    # The bad name is in the split that is written last.
    together = replace(broken, splits={"train": broken.train[:0], "test": broken.train})
    with folder() as place:
        with pytest.raises(InputError, match="TAB or a line break"):
            write_file(broken, place / f"facts{suffix}")
        with pytest.raises(InputError, match="TAB or a line break"):
            write_folder(together, place / "new", suffix)
        assert not list(place.rglob("*"))


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    kb = from_table(pl.DataFrame({"s": ["a"], "r": ["b"], "o": ["c"]}))
    (tmp_path / "taken.csv").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_file(kb, tmp_path / "taken.csv")
    with pytest.raises(InputError, match="no suffix"):
        write_file(kb, tmp_path / "facts.xlsx")
    assert [path.name for path in tmp_path.rglob("*")] == ["taken.csv"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_any_table_is_written_as_others_read_it(suffix: str, tmp_path: Path) -> None:
    """A table of problems: with numbers, and with a carriage return where the line ends."""
    frame = pl.DataFrame({"line": [1, 2], "row": ['a,\t"b"', "last\r"]})
    path = tmp_path / f"problems{suffix}"
    write_frame(frame, path)
    with path.open(newline="") as file:
        rows = list(csv.reader(file, delimiter="," if suffix == ".csv" else "\t", strict=True))
    assert rows == [["line", "row"], ["1", 'a,\t"b"'], ["2", "last\r"]]


# The order of rows

DATE_TEXTS = ("1990", "1990-##-##", "1990.0", "2001-05-06", "1985", "9999", "", "####", "19##", "soon", "-405")
JUNK = {
    ".csv": (b"a,b", b"a,b,c,d,e,f", b"\xff,r,o,1990,", b"\xe9"),
    ".tsv": (b"a\tb", b"a\tb\tc\td\te\tf", b"\xff\tr\to\t1990\t"),
    ".txt": (b"a\tb", b"a\tb\tc\td\te\tf", b"\xff\tr\to\t1990\t"),
    ".jsonl": (b"no json", b"[1]", b"7", b'{"subject": "\xff"}', b"{}", b'{"subject": "a", "object": "b"}'),
}


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[str, ...]]:
    """Rows of text with duplicates and with all that may be wrong with names and dates."""
    name = st.sampled_from(["", " ", "a", "b", *draw(st.lists(names(breaking=False), min_size=1, max_size=3))])
    date = st.sampled_from(DATE_TEXTS)
    rows = draw(st.lists(st.tuples(name, name, name, date, date), max_size=12))
    return [("a", "r", "b", "1990", ""), *rows, *rows[:2]]


def as_records(rows: list[tuple[str, ...]], suffix: str) -> list[bytes]:
    """The rows in the format of a file of lines, without header."""
    if suffix == ".jsonl":
        return [json.dumps(dict(zip(HEADER, row, strict=True))).encode() for row in rows]
    separator = "," if suffix == ".csv" else "\t"
    if suffix == ".txt":
        return [separator.join(row).encode() for row in rows]
    written = io.StringIO()
    writer = csv.writer(written, delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\x1e\n")
    writer.writerows(rows)
    return written.getvalue().encode().split(b"\x1e\n")[:-1]


def odd(kb: TemporalKB) -> tuple[Counter[Any], int]:
    """The problems without their places: those of duplicates as a number, for which copy is set aside may change."""
    duplicate = pl.col("kind") == Kind.DUPLICATE
    rest = kb.problems.frame.filter(~duplicate).select("kind", "action", "field", "reason", "row")
    return Counter(rest.rows()), kb.problems.frame.filter(duplicate).height


def check_order(one: TemporalKB, other: TemporalKB) -> None:
    assert one == other
    assert one.digest == other.digest
    assert odd(one) == odd(other)
    assert one.problems.rows_read == other.problems.rows_read


@pytest.mark.parametrize("suffix", JUNK)
@settings(max_examples=30)
@given(st.data())
def test_the_order_of_lines_does_not_matter(suffix: str, data: st.DataObject) -> None:
    records = as_records(data.draw(tables()), suffix)
    records += data.draw(st.lists(st.sampled_from((b"", *JUNK[suffix])), max_size=4))
    separator = b"," if suffix == ".csv" else b"\t"
    header = [] if suffix == ".jsonl" else [separator.join(name.encode() for name in HEADER)]
    with folder() as place:
        read = []
        for number, order in enumerate((records, data.draw(st.permutations(records)))):
            path = place / f"{number}{suffix}"
            path.write_bytes(b"\n".join([*header, *order, b""]))
            read.append(read_files([path], style=STYLE))
    check_order(*read)


@settings(max_examples=30)
@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: list[tuple[str, ...]], random: Any) -> None:
    shuffled = random.sample(rows, len(rows))
    one, other = (pl.DataFrame(order, orient="row", schema=list(HEADER)) for order in (rows, shuffled))
    check_order(from_table(one, style=STYLE), from_table(other, style=STYLE))
    with folder() as place:
        for number, frame in enumerate((one, other)):
            frame.write_parquet(place / f"{number}.parquet")
        check_order(*(read_files([place / f"{number}.parquet"], style=STYLE) for number in range(2)))


# Damaged files


def count_rows(path: Path) -> tuple[int, int]:
    """How many rows a readable file has, counted in another way, and the greatest line number in it."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    suffix = path.suffixes[0]
    if suffix == ".parquet":
        height = pl.read_parquet(io.BytesIO(data), memory_map=False).height
        return height, height
    lines = data.count(b"\n") + 1
    if suffix == ".json":
        elements = count_elements(json.loads(data.decode(json.detect_encoding(data))))
        return elements, elements + 1  # with the header
    if suffix in SHEETS:
        numbers = [number for number, _ in sheet_rows(data, "f", 10**9)]
        return len(numbers) - (numbers[0] == 1), numbers[
            -1
        ]  # the sheets of these tests have a header in row 1, or none
    if suffix not in TEXT_SUFFIXES:
        return sum(bool(line.strip()) for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")), lines
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        data = data.decode("utf-16").encode()
        lines = data.count(b"\n") + 1
    if b"\n" not in data:
        lines = data.count(b"\r") + 1
    rows, bad = SlowReader(data, "," if suffix == ".csv" else "\t", quoting=suffix != ".txt").read()
    return len(rows) + len(bad), lines


def count_elements(value: Any) -> int:
    """The rows of a JSON text: the elements of its array, without a header."""
    if isinstance(value, dict):
        (value,) = [
            part for part in value.values() if isinstance(part, list) and part and isinstance(part[0], list | dict)
        ]
    # A damaged header may still be one (`Subject`), or have become a row (`1990` for begin): which of both, is tested
    # by itself.
    return len(value) - (
        isinstance(value[0], list) and find_layout([text_of(cell) or "" for cell in value[0]], Columns(), "f")[1]
    )


@pytest.mark.parametrize(("change", "facts"), [(("subject", "Subject"), 1), (("begin", "1990"), 2)])
def test_a_json_header_that_is_damaged(change: tuple[str, str], facts: int) -> None:
    """One that was found by chance: the count of these tests knew only `subject`."""
    rows = [[change[1] if name == change[0] else name for name in HEADER], ["Ada", "worksFor", "Acme", "1990", "1999"]]
    with folder() as place:
        (place / "facts.json").write_text(json.dumps(rows))
        kb = read_anything(place / "facts.json")
    assert kb is not None
    assert len(kb) == facts


def check_message(error: TimeplexError) -> None:
    """One line that can be printed."""
    assert error.problem
    message = str(error)
    assert "\n" not in message
    assert "\r" not in message
    assert len(message.encode()) < 2000


def read_anything(path: Path) -> TemporalKB | None:
    """Read what may be damaged: a KB whose numbers add up, or None after an error that a person can read."""
    try:
        kb = read_files([path], style=DateStyle(allow_unread=True))
    except TimeplexError as error:
        check_message(error)
        return None
    except BaseException as error:  # polars can panic, which is no Exception
        raise AssertionError(f"{type(error).__name__} escaped") from error
    problems = kb.problems
    rows, last_line = count_rows(path)
    assert len(kb) >= 1
    assert rows == problems.rows_read == len(kb) + problems.set_aside
    frame = problems.frame
    assert set(frame["file"]) <= {str(path)}
    assert set(frame["kind"]) <= {str(kind) for kind in Kind}
    assert set(frame["action"]) <= {str(action) for action in Action}
    assert set(frame["field"]) <= {"", *ROLES, *(f"{a} and {b}" for a in ROLES for b in ROLES), " and ".join(ROLES[:3])}
    assert problems.told.null_count().sum_horizontal().item() == 0
    for line, reason in frame.select("line", "reason").iter_rows():
        assert 1 <= line <= last_line
        assert reason.strip()
        assert "\n" not in reason
    aside = frame.filter(pl.col("action") == Action.SET_ASIDE)
    assert aside["line"].is_unique().all()
    return kb


def fuzz(suffix: str, cases: int, check: Callable[[Path], TemporalKB | None]) -> Counter[str]:
    """Check damaged files of a format; how many there were, and how many of them became a KB."""
    seen: Counter[str] = Counter()

    with folder() as place:
        path = place / f"facts{suffix}"

        @settings(max_examples=cases)
        @given(damaged_files(suffix))
        def run(data: bytes) -> None:
            path.write_bytes(data)
            kb = check(path)
            seen["cases"] += 1
            seen["kbs"] += kb is not None
            seen["with problems"] += kb is not None and len(kb.problems) > 0

        run()
    return seen


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damaged_files(suffix: str) -> None:
    assert fuzz(suffix, QUICK, read_anything)["cases"] >= QUICK


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_many_damaged_files(suffix: str) -> None:
    seen = fuzz(suffix, SLOW[suffix], read_anything)
    assert seen["cases"] >= SLOW[suffix]
    # The damage is neither so heavy that nothing can be read, nor so light that nothing is wrong.
    # (One JSON array, or a columnar file, seldom survives any; spreadsheets hardly ever, see tests/fuzz.)
    assert seen["kbs"] < seen["cases"]
    if not suffix.startswith(SHEETS):
        whole = suffix.removesuffix(".gz") in (".parquet", ".json")
        assert seen["kbs"] > seen["cases"] / (50 if whole else 20)
        assert seen["with problems"] > seen["cases"] / (100 if whole else 10)


def test_number_of_damaged_files() -> None:
    assert set(SLOW) == set(SUFFIXES)
    assert sum(SLOW.values()) >= 10_000
    assert QUICK * len(SUFFIXES) >= 200


def read_twice(path: Path) -> TemporalKB | None:
    before = path.read_bytes()
    one, other = read_anything(path), read_anything(path)
    assert path.read_bytes() == before
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one == other
        assert list(one.train) == list(other.train)  # in the same order, too
        assert one.problems.frame.equals(other.problems.frame)
    return one


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_reading_twice_is_the_same(suffix: str) -> None:
    fuzz(suffix, 12, read_twice)


# Text, against a reader that is slow and literal


@st.composite
def odd_text(draw: st.DrawFn, suffix: str) -> bytes:
    """A damaged file, or a good beginning with anything after it."""
    if draw(st.booleans()):
        return draw(damaged_files(suffix))
    beginning = draw(st.sampled_from([b"", *(data[: data.index(b"\n") + 1] for data in good_files(suffix))]))
    breaks = ("\n", "\n", "\r\n", "\r", ",", "\t", ",,,,", "\t\t\t\t", '"', '"')
    pieces = (*breaks, "a", "b\u00a0", "x^", "é", "\ufeff", "\ud800", "\0")
    body = "".join(draw(st.lists(st.sampled_from(pieces), max_size=40)))
    filler = b"n" * 4096 + b"\n" if draw(st.booleans()) else b""  # a NUL byte among the first 4096 refuses the file
    return beginning + filler + body.encode(errors="surrogatepass")


@pytest.mark.parametrize("suffix", TEXT_SUFFIXES)
@settings(max_examples=200)
@given(st.data())
def test_text_is_read_as_a_literal_reader_reads_it(suffix: str, data: st.DataObject) -> None:
    content = data.draw(odd_text(suffix).filter(lambda made: made[:2] not in (b"\xff\xfe", b"\xfe\xff")))
    separator, quoting = "," if suffix == ".csv" else "\t", suffix != ".txt"
    try:
        expected = SlowReader(content, separator, quoting).read()
    except InputError:
        with pytest.raises(InputError):
            read_text(content, source="f", split="train", columns=Columns(), separator=separator, quoting=quoting)
        return
    table = read_text(content, source="f", split="train", columns=Columns(), separator=separator, quoting=quoting)
    roles = [role for role in ROLES if role in table.rows.columns]
    rows = table.rows.select("line", *roles).rows()
    bad = sorted(line for frame in table.log.frames for line in frame["line"])
    assert (rows, bad) == expected


def test_gzip_of_the_tests_can_fail() -> None:
    """The damage to packed files really reaches the unpacking."""
    packed = gzip.compress(b"a,b,c\n", mtime=0)
    with pytest.raises((EOFError, OSError, zlib.error)):
        gzip.decompress(packed[:-3])


def test_a_header_that_ends_far_down_in_the_file(tmp_path: Path) -> None:
    """Only the first 64 KiB are looked at for the header, unless it is quoted and goes on."""
    path = tmp_path / "f.csv"
    long = "x" * 70_000
    path.write_text(f'subject,relation,object,"{long}\n{long}"\na,r,b,c\n')
    assert len(read_files([path])) == 1
