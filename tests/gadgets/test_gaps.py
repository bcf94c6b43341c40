"""Statistics of gaps: numbers a person can check, and the oracle's on random KBs."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.builders import Row, facts_of
from tests.gadgets import oracle

from timeplex.gadgets import GADGETS, Evidence
from timeplex.gadgets.evidence import density, meetings, recurring
from timeplex.gadgets.pair import Pair
from timeplex.gadgets.recurrence import Recurrence
from timeplex.testing.gadgets import OPEN, Case, Sizes
from timeplex.typing import Floats, Ints


def evidence_of(rows: list[Row], entities: int = 3, relations: int = 2) -> Evidence:
    return Evidence.of(facts_of(rows), entities, relations, np.arange(1990, 2021))


def test_density() -> None:
    x, mean, sigma = (torch.tensor(value, dtype=torch.double) for value in (3.0, 1.0, 2.0))
    assert float(density(x, mean, sigma, normalised=False)) == pytest.approx(math.exp(-0.5))
    assert float(density(x, mean, sigma, normalised=True)) == pytest.approx(math.exp(-0.5) / 2 / math.sqrt(2 * math.pi))


def test_recurring_by_hand() -> None:
    """Times 1990, 1994, 2000 have the gaps 4 and 6; 2001, 2003 the gap 2: mean 4, sd √(8/3)."""
    rows = [
        *((0, 0, 1, year, year) for year in (2000, 1990, 1994, 1990)),  # in no order, one twice
        *((1, 0, 2, year, year + 5) for year in (2003, 2001)),
        (0, 0, 2, 1999, 1999),  # once only
        (0, 1, 1, 1992, 1992),
        (0, 1, 1, OPEN[0], 1992),  # the same time
    ]
    pairs, mean, deviation = recurring(evidence_of(rows))
    assert pairs.tolist() == [2, 0]
    assert mean[0] == pytest.approx(4)
    assert deviation[0] == pytest.approx(math.sqrt(8 / 3))
    assert np.isnan(mean[1])
    assert np.isnan(deviation[1])


def between(entity: Ints, evidence: Evidence) -> tuple[Ints, Floats, Floats]:
    """`meetings` as tables: number of gaps, mean and deviation, (relations, relations) each, nan without any gap."""
    found, relations = meetings(entity, evidence), evidence.relations
    count = np.zeros(relations**2, np.int64)
    mean, sigma = np.full((2, relations**2), np.nan)
    count[found.key], mean[found.key], sigma[found.key] = found.count, found.mean, found.sigma
    shape = relations, relations
    return count.reshape(shape), mean.reshape(shape), sigma.reshape(shape)


def test_between_by_hand() -> None:
    """Entity 0 has r at 2000 and 2004, r′ at 1990: gaps 10 and 14; entity 1 has 1 year: mean 25/3."""
    rows = [
        *((0, 0, other, year, year) for other, year in ((1, 2000), (2, 2004), (2, 2000))),  # 2000 counts once
        (0, 1, 0, 1990, 1999),
        (1, 0, 0, 2001, 2001),
        (1, 1, 2, 2000, 2000),
    ]
    count, mean, deviation = between(evidence_of(rows).s, evidence_of(rows))
    assert count.tolist() == [[5, 3], [3, 2]]
    assert mean[0, 1] == pytest.approx(25 / 3)
    assert mean[1, 0] == pytest.approx(-25 / 3)
    assert mean[0, 0] == mean[1, 1] == 0
    variance = (100 + 196 + 1) / 3 - (25 / 3) ** 2
    assert deviation[0, 1] == deviation[1, 0] == pytest.approx(math.sqrt(variance))
    assert deviation[0, 0] == pytest.approx(math.sqrt((4**2 + 4**2) / 5))
    by_object, *_ = between(evidence_of(rows).o, evidence_of(rows))
    # Object 0 has r at 2001 and r′ at 1990; object 2 has r at 2000, 2004 and r′ at 2000; object 1 has r once.
    assert by_object.tolist() == [[1 + 4 + 1, 1 + 2], [1 + 2, 1 + 1]]


def test_far_times_leave_small_gaps_exact() -> None:
    """A day after 1 January 9999, day by day, beside facts of 4000 BC."""
    rows = [(0, 0, 1, 2_932_533, 2_932_533), (0, 1, 1, 2_932_532, 2_932_532)]
    rows += [(1, 0, 2, -2_180_000, -2_180_000), (1, 1, 2, -2_180_004, -2_180_004)] * 50
    _, mean, deviation = between(evidence_of(rows).s, evidence_of(rows))
    assert (mean[0, 1], deviation[0, 1]) == (2.5, 1.5)


def test_many_far_times_of_one_entity_leave_the_spread_exact() -> None:
    """A hundred days in a row, and the same a week earlier: twice the variance of a uniform distribution."""
    days = range(2_900_000, 2_900_100)
    rows: list[Row] = [(0, 0, 1, day, day) for day in days] + [(0, 1, 1, day - 7, day - 7) for day in days]
    _, mean, deviation = between(evidence_of(rows).s, evidence_of(rows))
    assert mean[0, 1] == 7
    assert deviation[0, 1] ** 2 == pytest.approx(2 * (100**2 - 1) / 12, rel=1e-9)


@pytest.mark.parametrize("years", [7_999_999, 7_654_321, 6_999_997])
def test_a_very_long_gap_that_never_varies_has_no_spread(years: int) -> None:
    """Rounding must not make a variance negative."""
    rows: list[Row] = [(entity, r, 0, years * r, years * r) for entity in range(997) for r in (0, 1)]
    evidence = evidence_of(rows, entities=997)
    _, mean, deviation = between(evidence.s, evidence)
    assert mean[1, 0] == pytest.approx(years)
    assert deviation[1, 0] == pytest.approx(0, abs=0.2)


def test_no_facts_have_no_gaps() -> None:
    empty = evidence_of([])
    pairs, mean, deviation = recurring(empty)
    assert pairs.tolist() == [0, 0]
    assert np.isnan([mean, deviation]).all()
    count, means, deviations = between(empty.s, empty)
    assert count.tolist() == [[0, 0], [0, 0]]
    assert np.isnan([means, deviations]).all()


def fits(found: float, expected: float, scale: float) -> bool:
    """Equal up to rounding of numbers as large as `scale`."""
    return abs(found - expected) <= 1e-13 * scale + 1e-9


def agrees_with_the_oracle(examples: int) -> None:
    @settings(max_examples=examples)
    @given(
        facts=st.integers(0, 25),
        relations=st.integers(1, 4),
        minimum=st.integers(1, 3),
        seed=st.integers(0, 2**31),
    )
    def holds(facts: int, relations: int, minimum: int, seed: int) -> None:
        case = Case(GADGETS["pair"], "paper", Sizes(facts=facts, relations=relations), seed)
        note(repr(case))
        known, evidence = oracle.dated(facts_of(case.rows)), case.gadget().evidence
        pairs, mean, deviation = recurring(evidence)
        recurrence = Recurrence(evidence, Recurrence.options_type(minimum=minimum))
        for r in range(relations):
            gaps = oracle.recurring_gaps(known, r)
            assert pairs[r] == oracle.recurring_pairs(known, r)
            assert bool(recurrence.recurs[r]) == (pairs[r] >= minimum)
            if not gaps:
                assert math.isnan(mean[r])
                continue
            expected = oracle.mean_and_sd(gaps)
            assert (mean[r], deviation[r]) == pytest.approx(expected)
            if pairs[r] >= minimum:
                sigma = max(expected[1], oracle.LEAST_SIGMA)
                assert recurrence.mean[r].item() == pytest.approx(expected[0], rel=1e-6)
                assert recurrence.sigma[r].item() == pytest.approx(sigma, rel=1e-5)
        gadget = Pair(evidence, Pair.options_type())
        for side, role in enumerate(oracle.ROLES):
            count, means, deviations = between(getattr(evidence, role), evidence)
            for r in range(relations):
                for other in range(relations):
                    gaps = oracle.pair_gaps(known, role, r, other)
                    assert count[r, other] == int(gadget.cases[side, r, other]) == len(gaps)
                    if not gaps:
                        continue
                    middle, sd = oracle.mean_and_sd(gaps)
                    scale = max(abs(gap) for gap in gaps) ** 2
                    assert fits(means[r, other], middle, scale)
                    assert fits(deviations[r, other] ** 2, sd**2, scale)
                    assert float(gadget.mean[side, r, other]) == pytest.approx(middle, rel=1e-6, abs=1e-6)
                    floor = max(deviations[r, other], oracle.LEAST_SIGMA)
                    assert float(gadget.sigma[side, r, other]) == pytest.approx(floor, rel=1e-6)

    holds()


def test_statistics_are_those_of_the_oracle() -> None:
    agrees_with_the_oracle(30)


@pytest.mark.slow
def test_statistics_are_those_of_the_oracle_on_many_kbs() -> None:
    agrees_with_the_oracle(300)
