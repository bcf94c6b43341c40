"""HyTE by hand: scorer(P s, P r, P o), where P x = x − (x·w) w."""

from typing import Any

import pytest
import torch
from tests.models.tables import by_hand, facts, near

from timeplex.models import Model, Space
from timeplex.models.hyte import HyTE, Options, bins

# Three instants with one mention each, two in a bin: instants 0 and 1 are bin 0, instant 2 is bin 1.
SPACE = Space.plain(entities=3, relations=1, instants=3)
TABLES = {
    "entity": [[1.0, 2.0], [4.0, 0.0], [0.0, 5.0]],
    "relation": [[3.0, 1.0]],
    "normal": [[1.0, 0.0], [0.6, 0.8]],  # w0 takes away the first number; w1 has length 1, too
}


def made(**options: Any) -> Model:
    return by_hand("hyte", SPACE, TABLES, bin_size=2, **options)


# e0 + r − o is (0, 3) for e1, (4, −2) for e2 and (3, 1) for e0.
# P0 leaves the second number: 3, −2, 1.
# P1 (0, 3):  ·w1 = 2.4, (0, 3) − 2.4 (0.6, 0.8) = (−1.44, 1.08):  1-norm 2.52, 2-norm 1.8
# P1 (4, −2): ·w1 = 0.8, (4, −2) − 0.8 (0.6, 0.8) = (3.52, −2.64): 1-norm 6.16, 2-norm 4.4
# P1 (3, 1):  ·w1 = 2.6, (3, 1) − 2.6 (0.6, 0.8) = (1.44, −1.08):  1-norm 2.52, 2-norm 1.8
@pytest.mark.parametrize(
    ("norm", "early", "late"), [(1, [-1, -3, -2], [-2.52, -2.52, -6.16]), (2, [-1, -3, -2], [-1.8, -1.8, -4.4])]
)
def test_transe(norm: int, early: list[float], late: list[float]) -> None:
    model = made(scorer="transe", norm=norm, dimension=2)
    s, r, o, t = facts((0, 0, 1, 0), (0, 0, 2, 1), (0, 0, 1, 2))
    assert near(model.score_at(s, r, o, t), [early[1], early[2], late[1]])
    assert near(model.objects_at(s, r, t), [early, early, late])
    assert near(model.times(s, r, o)[0], [early[1], early[1], late[1]])
    assert near(model.score(s[:1], r[:1], o[:1], (t[:1], t[2:])), [2 * early[1] + late[1]])
    # Subjects of e1 on the first hyperplane: the second number of s + r − e1 is 2 + 1, 0 + 1, 5 + 1.
    assert near(model.subjects_at(r, o, t)[0], [-3, -1, -6])


def test_distmult() -> None:
    model = made(scorer="distmult", dimension=2)
    s, r, o, t = facts((0, 0, 1, 0), (0, 0, 1, 2))
    # On the first only the second numbers are left: 2 · 1 · o[1] for objects, s[1] · 1 · 0 for subjects of e1.
    # On the second P e0 = (1, 2) − 2.2 w = (−0.32, 0.24), P r = (3, 1) − 2.6 w = (1.44, −1.08) and
    # P e1 = (4, 0) − 2.4 w = (2.56, −1.92):  −0.32 · 1.44 · 2.56 + 0.24 · 1.08 · 1.92 = −0.681984.
    assert near(model.score_at(s, r, o, t), [0, -0.681984])
    assert near(model.objects_at(s, r, t)[0], [4, 0, 10])
    assert near(model.subjects_at(r, o, t)[:, 0], [0, -0.681984])
    assert near(model.times(s, r, o)[0], [0, 0, -0.681984])


def test_complex() -> None:
    model = made(scorer="complex", dimension=1)
    s, r, o, t = facts((0, 0, 1, 2))
    # The same projections, read as complex numbers: (−0.32 + 0.24i)(1.44 − 1.08i) = −0.2016 + 0.6912i,
    # times 2.56 + 1.92i: −0.2016 · 2.56 − 0.6912 · 1.92 = −1.8432.
    assert near(model.score_at(s, r, o, t), [-1.8432])
    assert near(model.objects_at(s, r, t)[0, 1], -1.8432)
    assert near(model.subjects_at(r, o, t)[0, 0], -1.8432)


def test_normals_are_kept_at_length_1() -> None:
    tables = {**TABLES, "normal": [[3.0, 4.0], [0.0, -2.0]]}
    model = by_hand("hyte", SPACE, tables, bin_size=2, dimension=2)
    model.after_step()
    assert near(model.get_parameter("normal"), [[0.6, 0.8], [0, -1]])
    assert near(HyTE(SPACE, Options(dimension=4, bin_size=1)).normal.norm(dim=1), [1, 1, 1])


@pytest.mark.parametrize(
    ("mentions", "size", "expected"),
    [
        ([1, 1, 1], 1, [0, 1, 2]),
        ([1, 1, 1], 2, [0, 0, 1]),
        ([1, 1, 1], 9, [0, 0, 0]),
        # 2 + 3 ≥ 4 closes the first; 1 + 0 + 4 ≥ 4 the second; the last has a bin to itself.
        ([2, 3, 1, 0, 4, 5], 4, [0, 0, 1, 1, 1, 2]),
        # An instant without a mention does not fill a bin.
        ([0, 0, 7, 0], 1, [0, 0, 0, 1]),
        ([0], 300, [0]),
    ],
)
def test_bins(mentions: list[int], size: int, expected: list[int]) -> None:
    assert bins(torch.tensor(mentions), size).tolist() == expected


def test_bins_are_the_instants_it_cannot_tell_apart() -> None:
    groups = made(dimension=2).instant_groups()
    assert groups is not None
    assert groups.tolist() == [0, 0, 1]


def test_parameters() -> None:
    # The paper: d (|E| + |T| + |R|), with a bin an instant.
    space = Space.plain(entities=11, relations=3, instants=7)
    assert HyTE(space, Options(dimension=5, bin_size=1)).parameter_count == 5 * (11 + 7 + 3)
    # Seven instants, two in a bin: four normals. Complex numbers count twice.
    assert HyTE(space, Options(dimension=5, bin_size=2)).parameter_count == 5 * (11 + 4 + 3)
    complex_ = Options(dimension=5, bin_size=1, scorer="complex")
    assert HyTE(space, complex_).parameter_count == 2 * 5 * (11 + 7 + 3)
