"""The recurrence gadget on examples that a person can check, and on the games of the synthetic KB."""

import math

import numpy as np
import pytest
import torch
from tests.builders import Row, facts_of
from tests.gadgets.made_up import synthetic_evidence

from timeplex.datasets.synthetic import SyntheticSpec, Years
from timeplex.gadgets import Evidence, Reason
from timeplex.gadgets.recurrence import Recurrence

GAMES, ATHENS, PARIS, ADA = range(4)
HELD_IN, BORN_IN, NEVER = range(3)
FIRST = 1990
OLYMPICS: list[Row] = [
    *((GAMES, HELD_IN, ATHENS, year, year) for year in (1996, 2000, 2008, 2004)),
    (ADA, BORN_IN, PARIS, 1995, 1995),
]
PEAK = 1 / (0.1 * math.sqrt(2 * math.pi))
"""Of a Gaussian with σ = 0.1: 3.989."""


def gadget_of(rows: list[Row] = OLYMPICS, **options: object) -> Recurrence:
    evidence = Evidence.of(facts_of(rows), 4, 3, np.arange(FIRST, 2021))
    return Recurrence(evidence, Recurrence.options_type(**options))  # type: ignore[arg-type]


def score(gadget: Recurrence, s: int, r: int, o: int, year: int, own: int | None = None) -> float:
    ask = [torch.tensor([number]) for number in (s, r, o, year - FIRST)]
    return gadget.score_at(*ask, None if own is None else torch.tensor([own])).item()


def test_games_are_held_each_four_years() -> None:
    gadget = gadget_of()
    assert gadget.recurs.tolist() == [True, False, False]
    assert gadget.mean[HELD_IN].item() == 4
    assert gadget.sigma.tolist() == pytest.approx([0.1, 1, 1])  # the floor: the games are never late
    assert score(gadget, GAMES, HELD_IN, ATHENS, 2012) == pytest.approx(PEAK - 0.1)
    assert score(gadget, GAMES, HELD_IN, ATHENS, 1992) == pytest.approx(PEAK - 0.1)
    assert score(gadget, GAMES, HELD_IN, ATHENS, 2009) == pytest.approx(-0.1)
    assert score(gadget, GAMES, HELD_IN, ATHENS, 2004) == pytest.approx(PEAK - 0.1)  # beside 2000 and 2008
    assert score(gadget, GAMES, HELD_IN, PARIS, 2012) == 0
    assert score(gadget, ATHENS, HELD_IN, GAMES, 2012) == 0


def test_the_published_code_has_a_gaussian_of_height_one() -> None:
    gadget = gadget_of(form="published-code")
    assert score(gadget, GAMES, HELD_IN, ATHENS, 2012) == pytest.approx(0.9)
    assert score(gadget, GAMES, HELD_IN, ATHENS, 2009) == pytest.approx(-0.1)


def test_a_birth_does_not_recur_so_only_the_bias_speaks() -> None:
    gadget = gadget_of()
    with torch.no_grad():
        gadget.bias[BORN_IN] = -2
    assert score(gadget, ADA, BORN_IN, PARIS, 2000) == -2
    assert score(gadget, ADA, BORN_IN, PARIS, 1995) == 0  # its own fact is no evidence
    assert score(gadget, ADA, BORN_IN, ATHENS, 2000) == 0


def test_so_many_pairs_must_recur() -> None:
    more: list[Row] = [*OLYMPICS, *((GAMES, HELD_IN, PARIS, year, year) for year in (2010, 2014))]
    assert gadget_of(more, minimum=2).recurs.tolist() == [True, False, False]
    assert score(gadget_of(more, minimum=2), GAMES, HELD_IN, PARIS, 2018) > 1
    assert gadget_of(more, minimum=3).recurs.tolist() == [False, False, False]
    assert score(gadget_of(more, minimum=3), GAMES, HELD_IN, PARIS, 2018) == pytest.approx(-0.1)


def test_weight_mean_and_sigma_are_used() -> None:
    gadget = gadget_of()
    with torch.no_grad():
        gadget.weight[HELD_IN], gadget.bias[HELD_IN] = 3, 0.5
        gadget.mean[HELD_IN], gadget.log_sigma[HELD_IN] = 2, math.log(2)
    expected = 3 * math.exp(-0.5) / (2 * math.sqrt(2 * math.pi)) + 0.5
    assert score(gadget, GAMES, HELD_IN, ATHENS, 2012) == pytest.approx(expected)


def test_with_own_the_fact_does_not_count_at_any_time() -> None:
    gadget = gadget_of()
    place = 2  # 2008
    assert score(gadget, GAMES, HELD_IN, ATHENS, 2008, own=place) == pytest.approx(PEAK - 0.1)
    assert score(gadget, GAMES, HELD_IN, ATHENS, 2009, own=place) == pytest.approx(-0.1)
    assert score(gadget, GAMES, HELD_IN, ATHENS, 2012, own=place) == pytest.approx(-0.1)  # 8 years after 2004
    assert score(gadget, ADA, BORN_IN, PARIS, 2000, own=4) == 0  # nothing else is known


def test_the_reason_is_the_nearest_fact_and_of_two_the_earlier() -> None:
    gadget = gadget_of()
    [reason] = gadget.reasons(GAMES, HELD_IN, ATHENS, 2012 - FIRST)
    assert reason == Reason(2, "both", 4, pytest.approx(PEAK - 0.1))
    [reason] = gadget.reasons(GAMES, HELD_IN, ATHENS, 1998 - FIRST)
    assert reason == Reason(0, "both", 2, pytest.approx(-0.1))
    [reason] = gadget.reasons(GAMES, HELD_IN, ATHENS, 1993 - FIRST)
    assert (reason.fact, reason.gap) == (0, -3)
    assert gadget.reasons(GAMES, HELD_IN, PARIS, 0) == []
    assert gadget.reasons(ADA, BORN_IN, PARIS, 1995 - FIRST) == []


def test_of_two_equally_near_facts_the_earlier_is_the_reason_whatever_their_order() -> None:
    gadget = gadget_of([(GAMES, HELD_IN, ATHENS, 2004, 2004), (GAMES, HELD_IN, ATHENS, 2000, 2000)])
    [reason] = gadget.reasons(GAMES, HELD_IN, ATHENS, 2002 - FIRST)
    assert (reason.fact, reason.gap) == (1, 2)


def test_everything_that_the_formula_names_learns_even_where_the_rhythm_is_exact() -> None:
    """σ begins at its floor there, and must be free to leave it."""
    gadget = gadget_of()
    s, r, o = torch.tensor([GAMES, ADA]), torch.tensor([HELD_IN, BORN_IN]), torch.tensor([ATHENS, PARIS])
    with torch.no_grad():
        gadget.mean += 0.05
    gadget.score_at(s, r, o, torch.tensor([2012, 2000]) - FIRST).sum().backward()
    for name, parameter in gadget.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad[HELD_IN] != 0, name
        assert parameter.grad[NEVER] == 0, name
        assert (parameter.grad[BORN_IN] != 0) == (name == "bias"), name


def test_the_published_code_learns_weight_and_bias_alone() -> None:
    gadget = gadget_of(form="published-code")
    learned = {name for name, parameter in gadget.named_parameters() if parameter.requires_grad}
    assert learned == {"weight", "bias"}
    assert gadget.penalty() == 0


# The synthetic KB


def stated_rhythm(world: SyntheticSpec, relation: str) -> tuple[float, float]:
    """Mean and sd of the gaps between consecutive times of a triple, over all series that a world can have.

    A series has one of the periods, and begins in one of `period` years, all alike; its number of editions n follows.
    heldIn: a city is the host of each `hosts`-th edition: n − hosts gaps of hosts · period years. wins: each edition is
    won by team k with chance p, whatever happened before; a gap of g editions (won, lost g − 1 times, won) can begin at
    n − g editions, so that (n − g) p² (1 − p)^(g − 1) of them are expected. Long gaps are rarer than the geometric
    distribution says, as the series ends in `last_year`.
    """
    weight: dict[int, float] = {}
    for period in world.periods:
        for phase in range(period):
            share = 1 / len(world.periods) / period
            editions = (world.last_year - world.first_games - phase) // period + 1
            if relation == "heldIn":
                years = world.hosts * period
                weight[years] = weight.get(years, 0) + share * (editions - world.hosts)
                continue
            for chance in Years.popularity(world.teams).chances:
                for gap in range(1, editions):
                    expected = (editions - gap) * chance**2 * (1 - chance) ** (gap - 1)
                    weight[gap * period] = weight.get(gap * period, 0) + share * expected
    total = math.fsum(weight.values())
    mean = math.fsum(gap * part for gap, part in weight.items()) / total
    return mean, math.sqrt(math.fsum((gap - mean) ** 2 * part for gap, part in weight.items()) / total)


def assert_rhythm(facts: int) -> None:
    """heldIn and wins in the usual world; worksFor in one where a person has at most two jobs.

    There two jobs at one employer are always one after the other, with the stated gap. With three jobs the first and
    the third may be at the same employer, and how often is a matter of popularity: that mixture is not stated.
    The other relations happen once in a life, and do not recur.
    """
    evidence, relations = synthetic_evidence(facts, SyntheticSpec())
    gadget = Recurrence(evidence, Recurrence.options_type())
    recurrent = {name for name, number in relations.items() if gadget.recurs[number]}
    assert recurrent == {"heldIn", "wins", "worksFor"}
    for relation in ("heldIn", "wins"):
        number = relations[relation]
        found = gadget.mean[number].item(), gadget.sigma[number].item()
        assert found == pytest.approx(stated_rhythm(SyntheticSpec(), relation), rel=0.05), relation
    two_jobs = SyntheticSpec(jobs=Years(2, (1.0,)))
    evidence, relations = synthetic_evidence(facts, two_jobs)
    gadget, number = Recurrence(evidence, Recurrence.options_type()), relations["worksFor"]
    stated = two_jobs.gap("worksFor", "worksFor")
    assert gadget.mean[number].item() == pytest.approx(stated.mean, rel=0.05)
    assert gadget.sigma[number].item() == pytest.approx(stated.sd, rel=0.05)


def test_the_rhythm_of_the_synthetic_kb_is_found() -> None:
    assert_rhythm(100_000)


@pytest.mark.slow
def test_the_rhythm_of_a_large_synthetic_kb_is_found() -> None:
    assert_rhythm(400_000)
