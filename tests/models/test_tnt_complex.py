"""TComplEx and TNT-ComplEx by hand: φ = Re⟨s, r ∘ t, ō⟩, and Re⟨s, r ∘ t + r⁰, ō⟩."""

import pytest
from tests.models.tables import by_hand, facts, near

from timeplex.models import Space
from timeplex.models.tnt_complex import TComplEx, TNTComplEx

# e0 = 1 + 2i, e1 = 3 − i; r0 = 2 + i; t0 = i, t1 = 1 + i; r⁰0 = 1 − i
TIMED = {"entity": [[1.0, 2.0], [3.0, -1.0]], "relation": [[2.0, 1.0]], "time": [[0.0, 1.0], [1.0, 1.0]]}
TABLES = {**TIMED, "untimed": [[1.0, -1.0]]}
SPACE = Space.plain(entities=2, relations=1, instants=2)


def test_tcomplex() -> None:
    model = by_hand("tcomplex", SPACE, TIMED, dimension=1)
    s, r, o, t = facts((0, 0, 1, 0), (0, 0, 1, 1))
    # e0 · r0 = (1 + 2i)(2 + i) = 5i.   At t0: 5i · i = −5, times ē1 = 3 + i → −15.
    # At t1: 5i (1 + i) = −5 + 5i, times 3 + i: −15 − 5 + … → −20.
    assert near(model.score_at(s, r, o, t), [-15, -20])
    assert near(model.times(s, r, o), [[-15, -20]] * 2)
    # Objects: ē0 = 1 − 2i. At t0 −5 → −5; at t1 (−5 + 5i)(1 − 2i) = −5 + 10 + … → 5.
    assert near(model.objects_at(s, r, t), [[-5, -15], [5, -20]])
    # Subjects of e1 at t0: r0 · t0 · ē1 = (2 + i) i (3 + i) = (−1 + 2i)(3 + i) = −5 + 5i.
    # e0: (1 + 2i)(−5 + 5i) = −5 − 10 + … → −15;   e1: (3 − i)(−5 + 5i) = −15 + 5 + … → −10.
    # At t1: (2 + i)(1 + i)(3 + i) = (1 + 3i)(3 + i) = 10i.   e0: −20;   e1: (3 − i) 10i = 30i + 10 → 10.
    assert near(model.subjects_at(r, o, t), [[-15, -10], [-20, 10]])


def test_tnt_complex_adds_a_relation_without_time() -> None:
    model = by_hand("tnt-complex", SPACE, TABLES, dimension=1)
    s, r, o, t = facts((0, 0, 1, 0), (0, 0, 1, 1))
    # Besides TComplEx: e0 · r⁰0 = (1 + 2i)(1 − i) = 3 + i, times ē1 = 3 + i: 9 − 1 + … → 8; times ē0: 3 + 2 → 5.
    assert near(model.score_at(s, r, o, t), [-15 + 8, -20 + 8])
    assert near(model.times(s, r, o), [[-7, -12]] * 2)
    assert near(model.objects_at(s, r, t), [[-5 + 5, -15 + 8], [5 + 5, -20 + 8]])
    # Subjects of e1: r⁰0 · ē1 = (1 − i)(3 + i) = 4 − 2i.   e0: 4 + 4 → 8;   e1: (3 − i)(4 − 2i) = 12 − 2 → 10.
    assert near(model.subjects_at(r, o, t), [[-15 + 8, -10 + 10], [-20 + 8, 10 + 10]])


@pytest.mark.parametrize(("name", "sums"), [("tcomplex", [-35, -15]), ("tnt-complex", [-19, -7])])
def test_a_span_is_a_sum(name: str, sums: list[float]) -> None:
    model = by_hand(name, SPACE, TIMED if name == "tcomplex" else TABLES, dimension=1)
    s, r, o, first, last = facts((0, 0, 1, 0, 1), (0, 0, 1, 0, 0))
    assert near(model.score(s, r, o, (first, last)), sums)


def test_parameters() -> None:
    # The paper: 2d (|E| + |T| + 4 |R|) for TNT-ComplEx. It has two vectors a relation, and |R| counts base relations,
    # of which training with inverse facts makes twice as many: the space has 2 |R| of them.
    space, options = Space.plain(entities=11, relations=2 * 3, instants=7), TNTComplEx.options_type(dimension=5)
    assert TNTComplEx(space, options).parameter_count == 2 * 5 * (11 + 7 + 4 * 3)
    assert TComplEx(space, options).parameter_count == 2 * 5 * (11 + 7 + 2 * 3)
