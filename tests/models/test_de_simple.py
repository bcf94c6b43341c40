"""DE-SimplE by hand: SimplE with features a · sin(f · clock + b) at phases whose sine is −1, 0 or 1."""

from dataclasses import replace
from math import pi

import pytest
import torch
from tests.models.tables import by_hand, facts, near

from timeplex.models import Space
from timeplex.models.de_simple import DESimplE, Options, clock

# Two years, so the clock says −1 and 1. Dimension 2, half of it diachronic: a row is [still | moving].
SPACE = Space.plain(entities=2, relations=1, instants=2)
TABLES = {
    "entity": [[1.0, 2.0], [5.0, 6.0]],  # still head, still tail
    "amplitude": [[3.0, 4.0], [7.0, 8.0]],  # moving head, moving tail
    "frequency": [[pi / 2, 0.0], [0.0, pi / 4]],
    "phase": [[0.0, pi / 2], [pi / 2, pi / 4]],
    "relation": [[1.0, 10.0, 2.0, 1.0]],  # r = (1, 10), r⁻¹ = (2, 1)
}
# e0: the head moves as 3 sin(±π/2) = ±3, the tail stays at 4 sin(π/2) = 4.
#     head (1, −3) and then (1, 3), tail (2, 4)
# e1: the head stays at 7 sin(π/2) = 7, the tail is 8 sin(−π/4 + π/4) = 0 and then 8 sin(π/4 + π/4) = 8.
#     head (5, 7), tail (6, 0) and then (6, 8)


def test_scores() -> None:
    model = by_hand("de-simple", SPACE, TABLES, dimension=2, diachronic=0.5)
    s, r, o, t = facts((0, 0, 1, 1), (0, 0, 1, 0))
    # t0: ½ (1·1·6 + (−3)·10·0 + 5·2·2 + 7·1·4) = ½ (6 + 0 + 20 + 28) = 27
    # t1: ½ (1·1·6 + 3·10·8 + 5·2·2 + 7·1·4) = ½ (6 + 240 + 48) = 147
    assert near(model.score_at(s, r, o, t), [147, 27])
    assert near(model.times(s, r, o), [[27, 147]] * 2)
    assert near(model.score(s[:1], r[:1], o[:1], (t[1:], t[:1])), [174])
    # e0 as the object of e0: ½ (1·1·2 ∓ 3·10·4 + 1·2·2 ∓ 3·1·4) = ½ (6 ∓ 132) = −63 and 69
    assert near(model.objects_at(s, r, t), [[69, 147], [-63, 27]])
    # e1 as the subject of e1: ½ (5·1·6 + 7·10·0 + 5·2·6 + 7·1·0) = 45, then ½ (30 + 560 + 60 + 56) = 353
    assert near(model.subjects_at(r, o, t), [[147, 353], [27, 45]])


def test_parts_of_a_date_are_added() -> None:
    dates = torch.tensor([[1900, 1, 0], [1900, 3, 0], [1901, 1, 0], [1901, 3, 0]])
    space = replace(Space.plain(2, 2, 4), dates=dates)
    # With f = π/2 and b = 0 a sine is the clock itself: year y and month m, each −1 or 1.
    quarter = [[pi / 2] * 4] * 2
    tables = {
        "entity": [[], []],  # dimension 1 is all diachronic
        "amplitude": [[1.0, 2.0, 10.0, 20.0], [1.0, 1.0, 0.0, 0.0]],  # head, tail of the year; head, tail of the month
        "frequency": quarter,
        "phase": [[0.0] * 4] * 2,
        "relation": [[1.0, 0.0], [0.0, 1.0]],
    }
    model = by_hand("de-simple", space, tables, dimension=1, diachronic=0.9)
    s, r, o = facts((0, 0, 1), (0, 1, 1))
    # head_0 = y + 10 m, tail_0 = 2y + 20m, head_1 = tail_1 = y.
    # r0: ½ (y + 10m) y = ½ · 11, ½ · (−9), ½ · (−9), ½ · 11.   r1: ½ y (2y + 20m) is twice that.
    assert near(model.times(s, r, o), [[5.5, -4.5, -4.5, 5.5], [11, -9, -9, 11]])


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        # mean 1901, deviation √(2/3): −1 / √(2/3) = −√1.5
        ([(1900, 0, 0), (1901, 0, 0), (1902, 0, 0)], [[-(1.5**0.5)], [0], [1.5**0.5]]),
        # Gaps count: mean 3, deviation 3.
        ([(0, 0, 0), (6, 0, 0)], [[-1], [1]]),
        # Parts that do not vary say nothing, as the year in ICEWS14.
        ([(2014, 5, 13), (2014, 5, 15)], [[-1], [1]]),
        ([(2014, 4, 30), (2014, 6, 10)], [[-1, 1], [1, -1]]),
        # With a single instant there is nothing to tell apart.
        ([(1952, 0, 0)], [[0]]),
    ],
)
def test_clock(dates: list[tuple[int, int, int]], expected: list[list[float]]) -> None:
    assert near(clock(torch.tensor(dates)), expected)


def test_dropout_is_for_training() -> None:
    model = by_hand("de-simple", SPACE, TABLES, dimension=2, diachronic=0.5, dropout=0.5)
    s, r, o, t = facts(*[(0, 0, 1, 0)] * 200)
    assert near(model.score_at(s, r, o, t), [27] * 200)
    torch.manual_seed(0)
    # What is left is doubled. The products are 10 of the still and 14 of the moving head, 3 and 0 of the tail.
    dropped = set(model.train().score_at(s, r, o, t).round().tolist())
    assert dropped == {0, 20, 28, 6, 48, 26, 34, 54}


def test_parameters() -> None:
    # The paper: 2d ((3δ + (1 − δ)) |E| + |R|) for dates of one part. SimplE has the two vectors r and r⁻¹ a relation,
    # which is the 2d |R|, and needs no inverse facts: the space has |R| relations. (With inverse facts it has 2 |R|.)
    space = Space.plain(entities=11, relations=3, instants=7)
    expected = 2 * 10 * ((3 * 0.6 + 0.4) * 11 + 3)
    assert DESimplE(space, Options(dimension=10, diachronic=0.6)).parameter_count == round(expected)
