"""What reasons say, word for word."""

import pytest
import torch
from tests.builders import Row, kb_of

from timeplex.gadgets import GADGETS, Reason
from timeplex.gadgets.base import verdict
from timeplex.kb.dates import Granularity
from timeplex.testing.gadgets import OPEN, build
from timeplex.text import Describer

PEOPLE = ["Ada", "Bo", "Cy", "Di", "Rome"]
RELATIONS = ["bornIn", "hosts", "marriedTo"]
BORN, HOSTS, MARRIED = range(3)
ADA, BO, CY, DI, ROME = range(5)

ROWS: list[Row] = [
    (ADA, BORN, ROME, 1960, 1960),
    (ADA, MARRIED, BO, 1990, 2000),
    (BO, BORN, ROME, 1958, 1958),
    (BO, MARRIED, ADA, 1984, OPEN[1]),
    (ROME, HOSTS, DI, 1998, 1998),
    (ROME, HOSTS, DI, 2002, 2002),
    (CY, MARRIED, DI, 1995, 1999),
    (DI, BORN, ROME, OPEN[0], 1971),
]
YEARS = list(range(1940, 2010))


def describer(rows: list[Row], unit: Granularity = Granularity.YEAR) -> Describer:
    kb = kb_of(rows, PEOPLE, RELATIONS, unit)
    return Describer(kb, kb.train)


def words(unit: Granularity = Granularity.YEAR) -> Describer:
    return describer(ROWS, unit)


def said(name: str, question: tuple[int, int, int, int], rows: list[Row] = ROWS, **options: str) -> list[str]:
    """The sentences of a gadget for (s, r, o, year), by the row of their fact."""
    gadget = build(GADGETS[name], rows, len(PEOPLE), len(RELATIONS), YEARS, **options)
    s, r, o, year = question
    found = sorted(gadget.reasons(s, r, o, YEARS.index(year)), key=lambda reason: (reason.fact, reason.side))
    return [gadget.sentence(reason, r, describer(rows)) for reason in found]


def test_a_fact_tells_the_date_that_is_counted_from() -> None:
    told = [words().dated(row) for row in range(len(ROWS))]
    assert told[0] == "Ada bornIn Rome in 1960"
    assert told[1] == "Ada marriedTo Bo began 1990"
    assert told[3] == "Bo marriedTo Ada began 1984"
    assert told[7] == "Di bornIn Rome ended 1971"
    assert describer([(ADA, BORN, ROME, *OPEN)]).dated(0) == "Ada bornIn Rome"


def test_a_fact_tells_its_span() -> None:
    assert [words().fact(row) for row in (0, 1, 3, 7)] == [
        "Ada bornIn Rome (1960)",
        "Ada marriedTo Bo (1990–2000)",
        "Bo marriedTo Ada (1984–)",
        "Di bornIn Rome (–1971)",
    ]


def test_months_and_days_are_written_as_such() -> None:
    rows: list[Row] = [(ADA, MARRIED, BO, 1990 * 12 + 4, 2000 * 12)]
    assert describer(rows, Granularity.MONTH).dated(0) == "Ada marriedTo Bo began 1990-05"
    assert words(Granularity.MONTH).apart(1) == "1 month after"
    assert words(Granularity.DAY).apart(-1200) == "3.3 years before"
    assert words(Granularity.DAY).spread(-2.5, 0.04, 3) == "2.5 ± 0 days"


@pytest.mark.parametrize(
    ("gap", "text"),
    [
        (0, "at the same time"),
        (1, "1 year after"),
        (-1, "1 year before"),
        (26, "26 years after"),
        (-2, "2 years before"),
    ],
)
def test_singular_plural_and_direction(gap: int, text: str) -> None:
    assert words().apart(gap) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1 year"), (1.04, "1 year"), (0, "0 years"), (0.5, "0.5 years"), (9.96, "10 years"), (28.4, "28 years")],
)
def test_lengths(number: float, text: str) -> None:
    assert words().length(number) == text


def test_one_case_has_no_deviation() -> None:
    assert words().spread(-28, 0.1, 1) == "28 years"
    assert words().spread(28.3, 7.6, 2) == "28 ± 7.6 years"


@pytest.mark.parametrize(
    ("gap", "text"), [(-28, "fits"), (-20, "fits"), (-36, "fits"), (-37, "nearly fits"), (-12, "nearly fits")]
)
def test_one_deviation_fits_and_two_nearly(gap: int, text: str) -> None:
    assert verdict(gap, -28, 8) == text
    assert verdict(-11, -28, 8) == "does not fit"


def test_pair_tells_mean_deviation_and_cases() -> None:
    # Ada was born 30, Bo 26 years before: mean 28, deviation 2, two cases.
    assert said("pair", (CY, BORN, BO, 1967)) == [
        "Ada marriedTo Bo began 1990; no object in the training facts has both bornIn and marriedTo",
        "Cy marriedTo Di began 1995; bornIn comes 28 ± 2 years before marriedTo (2 cases), here 28 years before: fits",
    ]
    assert said("pair", (CY, BORN, CY, 1998)) == [
        "Cy marriedTo Di began 1995; bornIn comes 28 ± 2 years before marriedTo (2 cases), "
        "here 3 years after: does not fit"
    ]
    assert said("pair", (DI, MARRIED, CY, 1999)) == [
        "Di bornIn Rome ended 1971; marriedTo comes 28 ± 2 years after bornIn (2 cases), here 28 years after: fits"
    ]


def test_pair_of_relations_at_the_same_time() -> None:
    rows: list[Row] = [(ADA, BORN, ROME, 1960, 1960), (ADA, MARRIED, BO, 1960, 1961)]
    assert said("pair", (ADA, BORN, BO, 1961), rows)[1] == (
        "Ada marriedTo Bo began 1960; bornIn comes at the same time as marriedTo, ± 0.1 years (1 case), "
        "here 1 year after: does not fit"
    )


def test_pair_with_the_relation_itself() -> None:
    told = said("pair", (ADA, BORN, ROME, 1958), form="published-code")
    assert (
        "Bo bornIn Rome in 1958; bornIn facts of one object spread by ± 8.1 years, here at the same time: fits" in told
    )


def test_recurrence_tells_after_how_long() -> None:
    assert said("recurrence", (ROME, HOSTS, DI, 2006)) == [
        "Rome hosts Di in 2002; hosts recurs after 4 years (1 case), here 4 years after: fits"
    ]
    assert said("recurrence", (ROME, HOSTS, DI, 1997)) == [
        "Rome hosts Di in 1998; hosts recurs after 4 years (1 case), here 1 year before: does not fit"
    ]
    assert said("recurrence", (ROME, HOSTS, DI, 1994)) == [
        "Rome hosts Di in 1998; hosts recurs after 4 years (1 case), here 4 years before: fits"
    ]
    assert said("recurrence", (ADA, BORN, ROME, 1961)) == [
        "Ada bornIn Rome in 1960, which is another time; bornIn does not recur: does not fit"
    ]


def test_recurrence_after_a_negative_learned_mean() -> None:
    gadget = build(GADGETS["recurrence"], ROWS, len(PEOPLE), len(RELATIONS), YEARS)
    with torch.no_grad():
        gadget.get_parameter("mean")[HOSTS] = -3.0
    reason = Reason(5, "both", 4, 1.0)
    assert "hosts recurs after 0 years (1 case), here 4 years after: does not fit" in gadget.sentence(
        reason, HOSTS, words()
    )


def test_a_gadget_that_says_nothing_of_its_own() -> None:
    class Quiet(GADGETS["recurrence"]):  # type: ignore[misc]
        sentence = GADGETS["pair"].__mro__[1].sentence

    quiet = build(Quiet, ROWS, len(PEOPLE), len(RELATIONS), YEARS)
    assert quiet.sentence(Reason(1, "subject", -3, 0.5), BORN, words()) == (
        "Ada marriedTo Bo began 1990; the question lies 3 years before"
    )
