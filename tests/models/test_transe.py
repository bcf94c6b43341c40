"""TransE by hand: φ = −‖s + r − o‖ₚ."""

from tests.models.tables import by_hand, facts, near

from timeplex.models import Space
from timeplex.models.static import TransE

TABLES = {"entity": [[1.0, 2.0], [4.0, 0.0], [0.0, 5.0]], "relation": [[3.0, 1.0]]}
SPACE = Space.plain(entities=3, relations=1, instants=2)


def test_one_norm() -> None:
    model = by_hand("transe", SPACE, TABLES, dimension=2, norm=1)
    s, r, o, t = facts((0, 0, 1, 0), (0, 0, 2, 1))
    # e0 + r = (4, 3). To e1 = (4, 0): |0| + |3| = 3. To e2 = (0, 5): |4| + |-2| = 6.
    assert near(model.score_at(s, r, o, t), [-3, -6])
    # To e0 = (1, 2): |3| + |1| = 4.
    assert near(model.objects_at(s, r, t), [[-4, -3, -6]] * 2)
    # From e1 + r = (7, 1) to e1 = (4, 0): 3 + 1 = 4. From e2 + r = (3, 6): 1 + 6 = 7.
    # To e2 = (0, 5): from e0 6, from e1 (7, 1): 7 + 4 = 11, from e2 (3, 6): 3 + 1 = 4.
    assert near(model.subjects_at(r, o, t), [[-3, -4, -7], [-6, -11, -4]])


def test_two_norm() -> None:
    model = by_hand("transe", SPACE, TABLES, dimension=2, norm=2)
    s, r, o, t = facts((0, 0, 1, 0), (0, 0, 2, 1))
    # (4, 3) − (4, 0) = (0, 3): 3. (4, 3) − (0, 5) = (4, −2): √20. (4, 3) − (1, 2) = (3, 1): √10.
    assert near(model.score_at(s, r, o, t), [-3, -(20**0.5)])
    assert near(model.objects_at(s, r, t), [[-(10**0.5), -3, -(20**0.5)]] * 2)


def test_time_says_nothing_but_a_span_counts_its_instants() -> None:
    model = by_hand("transe", SPACE, TABLES, dimension=2)
    s, r, o, first, last = facts((0, 0, 1, 0, 1), (0, 0, 2, 1, 1))
    assert near(model.times(s, r, o), [[-3, -3], [-6, -6]])
    assert near(model.score(s, r, o, (first, last)), [-6, -6])


def test_parameters() -> None:
    # d (|E| + |R|)
    assert TransE(SPACE, TransE.options_type(dimension=5)).parameter_count == 5 * (3 + 1)
