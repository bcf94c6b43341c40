"""DistMult by hand: φ = Σ s · r · o."""

from tests.models.tables import by_hand, facts, near

from timeplex.models import Space
from timeplex.models.static import DistMult

TABLES = {"entity": [[1.0, 2.0], [3.0, -1.0], [0.0, 4.0]], "relation": [[2.0, 5.0], [1.0, -1.0]]}
SPACE = Space.plain(entities=3, relations=2, instants=3)


def test_scores() -> None:
    model = by_hand("distmult", SPACE, TABLES, dimension=2)
    s, r, o, t = facts((0, 0, 1, 0), (1, 1, 2, 2))
    # 1·2·3 + 2·5·(−1) = −4;   3·1·0 + (−1)·(−1)·4 = 4
    assert near(model.score_at(s, r, o, t), [-4, 4])
    # s ∘ r = (2, 10): e0 → 2 + 20, e1 → 6 − 10, e2 → 40;   (3, 1): e0 → 3 + 2, e1 → 9 − 1, e2 → 4
    assert near(model.objects_at(s, r, t), [[22, -4, 40], [5, 8, 4]])
    # r ∘ o = (6, −5): e0 → 6 − 10, e1 → 18 + 5, e2 → −20;   (0, −4): e0 → −8, e1 → 4, e2 → −16
    assert near(model.subjects_at(r, o, t), [[-4, 23, -20], [-8, 4, -16]])


def test_it_cannot_tell_subject_from_object() -> None:
    model = by_hand("distmult", SPACE, TABLES, dimension=2)
    s, r, o, t = facts((0, 0, 1, 0), (1, 1, 2, 2))
    assert near(model.score_at(s, r, o, t), model.score_at(o, r, s, t).tolist())


def test_time_says_nothing_but_a_span_counts_its_instants() -> None:
    model = by_hand("distmult", SPACE, TABLES, dimension=2)
    s, r, o, first, last = facts((0, 0, 1, 0, 2))
    assert near(model.times(s, r, o), [[-4, -4, -4]])
    assert near(model.objects(s, r, (first, last)), [[66, -12, 120]])


def test_parameters() -> None:
    # d (|E| + |R|)
    assert DistMult(SPACE, DistMult.options_type(dimension=7)).parameter_count == 7 * (3 + 2)
