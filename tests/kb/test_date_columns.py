"""Columns of dates on their way into a KB: ranges, what is told of them, placeholders, and too many unreadable ones."""

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import timeplex
from timeplex.errors import UnreadableDatesError
from timeplex.kb import date_spellings, dates
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import TemporalKB
from timeplex.kb.problems import Action, Kind


def kb_of(begins: list[str], ends: list[str] | None = None, **options: Any) -> TemporalKB:
    columns = {"s": [f"s{row}" for row in range(len(begins))], "r": ["r"] * len(begins), "o": ["o"] * len(begins)}
    columns["begin"] = begins
    return timeplex.read(pl.DataFrame(columns if ends is None else {**columns, "end": ends}), **options)


def spans_of(kb: TemporalKB) -> list[tuple[str | None, str | None]]:
    return kb.to_polars().select("begin", "end").rows()


def kinds(kb: TemporalKB) -> list[tuple[int, str, str, str]]:
    return kb.problems.frame.select("line", "kind", "action", "field").rows()


# Ranges


@pytest.mark.parametrize(
    ("begin", "end", "expected", "found"),
    [
        ("1850s", "1860", ("1850", "1860"), [("begin", Kind.UNCERTAIN_DATE)]),
        ("1840", "1850s", ("1840", "1859"), [("end", Kind.UNCERTAIN_DATE)]),
        ("before 1850", "1860", (None, "1860"), [("begin", Kind.UNCERTAIN_DATE)]),
        ("1850", "after 1860", ("1850", None), [("end", Kind.UNCERTAIN_DATE)]),
        ("1850", "before 1860", ("1850", "1859"), [("end", Kind.UNCERTAIN_DATE)]),
        ("c. 1850", "1860?", ("1850", "1860"), [("begin", Kind.APPROXIMATE_DATE), ("end", Kind.APPROXIMATE_DATE)]),
        ("c. 1850s", "", ("1850", None), [("begin", Kind.APPROXIMATE_DATE), ("begin", Kind.UNCERTAIN_DATE)]),
        ("Q3 1850", "spring 1860", ("1850", "1860"), []),
        ("1850", "present", ("1850", None), []),
        ("unknown", "1850", (None, "1850"), []),
    ],
)
def test_a_begin_is_the_first_and_an_end_the_last_of_what_is_covered(
    begin: str, end: str, expected: tuple[str | None, str | None], found: list[tuple[str, Kind]]
) -> None:
    kb = kb_of([begin], [end], granularity="year")
    assert spans_of(kb) == [expected]
    assert [(field, kind) for _, kind, _, field in kinds(kb)] == found


def test_an_event_spans_all_that_its_date_covers() -> None:
    kb = kb_of(["1850s", "1860", "before 1840", "after 1870", "19th century"])
    assert spans_of(kb) == [("1850", "1859"), ("1860", "1860"), (None, "1839"), ("1871", None), ("1801", "1900")]
    assert {field for *_, field in kinds(kb)} == {"begin and end"}
    assert kb.problems.frame["reason"][0] == (
        "the date '1850s' may be any time from 1850 to 1859; the fact spans all of it"
    )


def test_days_of_ranges() -> None:
    kb = kb_of(["3 March 1821", "Q1 1822", "1823"], ["March 1822", "1823-W02", ""], granularity="day")
    assert spans_of(kb) == [("1821-03-03", "1822-03-31"), ("1822-01-01", "1823-01-12"), ("1823-01-01", None)]


def test_a_fact_that_ends_before_it_begins_is_told_in_digits() -> None:
    """So that the audit can read them, whatever the columns decided."""
    kb = kb_of(["1/2/1999", "31/12/1999", "1850s", "after 1900"], ["31/1/1999", "", "1840s", "1850"], granularity="day")
    assert kb.problems.of(Kind.BEGIN_AFTER_END)["reason"].to_list() == [
        "it begins 1999-02-01 and ends 1999-01-31; the end was set to the begin",
        "it begins 1850/1859 and ends 1840/1849; the end was set to the begin",
        "it begins 1901/.. and ends 1850; the end was set to the begin",
    ]
    found = kb.problems.of(Kind.BEGIN_AFTER_END).select("s", "r", "o", "begin", "end").rows()
    assert [fact[:4] for fact in found] == [list(kb.train)[row][:4] for row in (0, 2, 3)]
    assert dates.write([fact[4] for fact in found], kb.granularity) == ["1999-01-31", "1849-12-31", "1850-12-31"]


# What is told


def test_what_the_columns_showed_is_noted() -> None:
    assert kb_of(["1/2/1999"], ["31/12/1999"]).problems.notes == (
        "Dates such as 1/2/1999 were read with the day first, as 31/12/1999 shows.",
    )
    assert (
        kb_of(["1/2/1999"], ["12/31/1999"]).problems.notes[0].startswith("Dates such as 1/2/1999 were read with the m")
    )
    assert kb_of(["36525"]).problems.notes == (
        "Numbers such as 36525 were read as the days of a spreadsheet: 1999-12-31.",
    )
    assert kb_of(["31/12/1999", "1999"]).problems.notes == ()


def test_an_order_that_was_assumed_is_noted_and_reported() -> None:
    kb = kb_of(["1/2/1999", "3/3/1999", "4/5/1999"])
    assert spans_of(kb)[0] == ("1999-02-01", "1999-02-01")
    (note,) = kb.problems.notes
    assert note.startswith("Nothing shows whether 1/2/1999 has the day or the month first: the day was taken")
    assert kinds(kb) == [(line, Kind.AMBIGUOUS_DATE, Action.KEPT, "begin and end") for line in (1, 3)]
    for dayfirst, expected in ((True, "1999-02-01"), (False, "1999-01-02")):
        decided = kb_of(["1/2/1999", "3/3/1999", "4/5/1999"], dayfirst=dayfirst)
        assert (spans_of(decided)[0][0], decided.problems.notes, len(decided.problems)) == (expected, (), 0)


def test_dates_that_contradict_each_other() -> None:
    dates_ = ["31/12/1999", "12/31/1999", "1/2/1999", *["1999-01-01"] * 9]
    kb = kb_of(dates_)
    assert spans_of(kb)[2] == (None, None)
    assert kb.problems.notes[0].startswith(
        "Some dates have the day first and others the month, so 1/2/1999 was not read"
    )
    (reason,) = kb.problems.of(Kind.UNREADABLE_DATE)["reason"]
    assert "--dayfirst or --monthfirst" in reason


# Too many that cannot be read


def test_more_than_one_in_ten_are_refused() -> None:
    good = ["1999"] * 18
    assert len(kb_of([*good, "soon", "later"])) == 20
    with pytest.raises(UnreadableDatesError, match="3 of 21 dates cannot be read") as refused:
        kb_of([*good, "soon", "later", "soon"])
    assert refused.value.exit_code == 3
    kb = kb_of([*good, "soon", "later", "soon"], allow_unread_dates=True)
    assert len(kb) == 21
    assert kb.problems.notes[0].startswith("3 of 21 dates cannot be read: 'soon' and the like 3 times.")


def test_what_is_open_is_not_stated_and_an_event_counts_once() -> None:
    with pytest.raises(UnreadableDatesError, match="1 of 9 dates"):
        kb_of([*["1999"] * 8, "soon"])
    with pytest.raises(UnreadableDatesError, match="1 of 9 dates"):
        kb_of([*["1999"] * 8, "soon"], [*["present"] * 8, ""])
    assert len(kb_of(["1999"] * 9 + ["soon"])) == 10
    assert len(kb_of(["", ""])) == 2  # nothing is stated at all


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("31/12/99", "--date-format %d/%m/%y"),
        ("12/31/99", "--date-format %m/%d/%y"),
        ("1.2.99", "--date-format %d.%m.%y"),
        ("3-Mar-21", "--date-format %d-%b-%y"),
        ("Mar-03", "--date-format %b-%y"),
        ("199912", "--date-format %Y%m"),
        ("36525", "--date-format excel"),
        ("946684799", "--date-format unix"),
        ("946684799000", "--date-format unix-ms"),
        ("1/2/1999", "--dayfirst or --monthfirst"),
        ("3. März 1821", "--date-language de"),
        ("3 août 1821", "--date-language fr"),
        ("soon", ""),
        ("1999-13", ""),
    ],
)
def test_suggestions(text: str, option: str) -> None:
    assert date_spellings.suggest(text) == option


@pytest.mark.parametrize("text", ["31/12/99", "12/31/99", "1.2.99", "3-Mar-21", "3 Mar 21", "199912", "3. März 1821"])
def test_what_is_suggested_reads_it(text: str) -> None:
    """Also as the error says it in Python, where an option would not help."""
    with pytest.raises(UnreadableDatesError) as refused:
        kb_of([text])
    option, argument = date_spellings.suggest(text), date_spellings.in_python(date_spellings.suggest(text))
    assert (argument in refused.value.hint, "--" in refused.value.hint) == (True, False)
    assert f"Try {option} for {text!r}" in refused.value.for_command_line()
    name, _, value = argument.partition("=")
    assert spans_of(kb_of([text], **{name: value.strip('"')}))[0] != (None, None)


def test_shapes_are_grouped_and_one_shows_the_order_of_all() -> None:
    found = date_spellings.shapes({"1/2/99": 5, "12/31/99": 1, "soon": 3, "later": 1})
    assert found == [
        date_spellings.Shape("1/2/99", 6, "--date-format %m/%d/%y"),
        date_spellings.Shape("soon", 4, ""),
    ]


@given(st.dictionaries(st.text(max_size=90), st.integers(1, 99), min_size=1, max_size=20))
def test_the_refusal_is_one_short_line(texts: dict[str, int]) -> None:
    message = str(date_spellings.refusal(999, date_spellings.shapes(texts)))
    assert "\n" not in message
    assert len(message) < 1000


# Placeholders


def with_ends(odd: str, number: int, others: int = 200) -> TemporalKB:
    real = [f"{2000 + row % 20}-{row % 12 + 1:02}-{row % 28 + 1:02}" for row in range(others)]
    begins = [f"19{80 + row % 20}-05-{row % 28 + 1:02}" for row in range(others + number)]
    return kb_of(begins, [*real, *[odd] * number])


@pytest.mark.parametrize("odd", ["9999-12-31", "9999", "31/12/9999", "2099-12-31", "2999-01-01", "3000-01-01"])
def test_far_dates_that_stand_far_too_often_are_set_open(odd: str) -> None:
    kb = with_ends(odd, 5)
    assert [end for _, end in spans_of(kb)[-5:]] == [None] * 5
    assert kinds(kb) == [(line, Kind.PLACEHOLDER, Action.REPAIRED, "end") for line in range(201, 206)]
    assert kb.problems.notes == (
        f"5 ends of 205 are {odd}, which stands for no date: they were set open (--keep-placeholders keeps them).",
    )
    assert kb.granularity is Granularity.DAY


@pytest.mark.parametrize(
    ("odd", "number"), [("2099-12-31", 4), ("2150-12-31", 50), ("1970-01-01", 9), ("2005-01-01", 90)]
)
def test_rare_ones_and_other_dates_are_kept(odd: str, number: int) -> None:
    assert not any(kind == Kind.PLACEHOLDER for _, kind, *_ in kinds(with_ends(odd, number)))


def test_nobody_means_9999() -> None:
    assert kinds(with_ends("9999-12-31", 1)) == [(201, Kind.PLACEHOLDER, Action.REPAIRED, "end")]
    # Unless a KB goes that far.
    assert not any(kind == Kind.PLACEHOLDER for _, kind, *_ in kinds(kb_of(["9999", "9990", "1990"])))


@pytest.mark.parametrize("odd", ["1900-01-01", "1970-01-01", "1753-01-01", "0001-01-01"])
def test_usual_days_must_stand_out(odd: str) -> None:
    real = [f"{1995 + row % 20}-{row % 12 + 1:02}-{row % 28 + 1:02}" for row in range(200)]
    kb = kb_of([*real, *[odd] * 10])
    assert spans_of(kb)[-1] == (None, None)
    assert {field for *_, field in kinds(kb)} == {"begin and end"}
    # Where only the year is known, people write the first of January in every year.
    year = int(odd[:4])
    neighbours = [f"{year + 1 + row % 5:04}-01-01" for row in range(15)]
    kept = kb_of([*real, *[odd] * 10, *neighbours])
    assert spans_of(kept)[200] == (dates.write(kept.facts.begin[200:201], Granularity.DAY)[0],) * 2
    assert len(kept.problems.of(Kind.PLACEHOLDER)) == 0


def test_a_kb_of_the_year_9999_alone_is_kept() -> None:
    assert spans_of(kb_of(["9999"] * 20))[0] == ("9999", "9999")


def test_placeholders_are_kept_if_told_so() -> None:
    begins = [f"19{80 + row % 20}" for row in range(40)]
    kb = kb_of(begins, ["9999"] * 40, keep_placeholders=True)
    assert (spans_of(kb)[0], kb.problems.notes) == (("1980", "9999"), ())
    assert spans_of(kb_of(begins, ["9999"] * 40))[0] == ("1980", None)
