"""How counts, spans and near names are said."""

import pytest

import timeplex
from timeplex.text import Describer, counted, did_you_mean, length, span


def test_one_thing_is_not_several() -> None:
    assert [counted(number, "fact") for number in (0, 1, 2000)] == ["0 facts", "1 fact", "2,000 facts"]
    assert [counted(number, "entity", "entities") for number in (1, 2)] == ["1 entity", "2 entities"]


def test_a_span_has_one_typography() -> None:
    some = [("1990", "2001"), ("1990", "1990"), ("1990", None), (None, "2001"), (None, None)]
    assert [span(*ends) for ends in some] == ["1990–2001", "1990", "1990–", "–2001", "no dates"]


def test_lengths_have_a_unit() -> None:
    assert [length(number, "year") for number in (1, 1.04, 3.5, 28.4, 1200, -3)] == [
        "1 year",
        "1 year",
        "3.5 years",
        "28 years",
        "1,200 years",
        "-3 years",
    ]


def test_near_names_are_suggested() -> None:
    assert did_you_mean("bornin", ["bornIn", "diedIn"]) == "Did you mean 'bornIn'?"
    assert did_you_mean("borIn", ["bornIn", "bornOn"], most=2) == "Did you mean 'bornIn' or 'bornOn'?"
    assert did_you_mean("xyz", ["bornIn"]) == ""


@pytest.mark.parametrize(("unit", "said"), [("year", "Ada in 1815"), ("day", "Ada on 1815-12-10")])
def test_a_day_is_on_and_a_year_is_in(unit: str, said: str) -> None:
    date = said.split()[-1]
    kb = timeplex.read([{"subject": "Ada", "relation": "bornIn", "object": "London", "begin": date, "end": date}])
    assert kb.granularity.value == unit
    assert Describer(kb, kb.facts).dated(0) == said.replace("Ada", "Ada bornIn London")
