"""SimplE by hand: φ = ½ (⟨head_s, r, tail_o⟩ + ⟨head_o, r⁻¹, tail_s⟩)."""

from tests.models.tables import by_hand, facts, near

from timeplex.models import Space
from timeplex.models.static import SimplE

# [head | tail] of an entity, [r | r⁻¹] of a relation
TABLES = {"entity": [[1.0, 2.0], [3.0, 5.0], [-1.0, 4.0]], "relation": [[2.0, 10.0]]}
SPACE = Space.plain(entities=3, relations=1, instants=2)


def test_scores() -> None:
    model = by_hand("simple", SPACE, TABLES, dimension=1)
    s, r, o, t = facts((0, 0, 1, 0), (1, 0, 0, 0))
    # (e0, r, e1): ½ (1·2·5 + 3·10·2) = ½ (10 + 60) = 35.   (e1, r, e0): ½ (3·2·2 + 1·10·5) = ½ (12 + 50) = 31.
    assert near(model.score_at(s, r, o, t), [35, 31])
    # Objects of e0: e0 ½ (1·2·2 + 1·10·2) = 12;   e2 ½ (1·2·4 + (−1)·10·2) = −6.
    # Objects of e1: e1 ½ (3·2·5 + 3·10·5) = 90;   e2 ½ (3·2·4 + (−1)·10·5) = −13.
    assert near(model.objects_at(s, r, t), [[12, 35, -6], [31, 90, -13]])
    # Subjects of e1: e2 ½ ((−1)·2·5 + 3·10·4) = 55.   Subjects of e0: e2 ½ ((−1)·2·2 + 1·10·4) = 18.
    assert near(model.subjects_at(r, o, t), [[35, 90, 55], [12, 31, 18]])


def test_two_dimensions_are_added() -> None:
    tables = {"entity": [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]], "relation": [[1.0, 10.0, 100.0, 1000.0]]}
    model = by_hand("simple", Space.plain(2, 1, 1), tables, dimension=2)
    # head_0 = (1, 2), tail_1 = (7, 8), r = (1, 10): 7 + 160 = 167.
    # head_1 = (5, 6), tail_0 = (3, 4), r⁻¹ = (100, 1000): 1500 + 24000 = 25500.   ½ (167 + 25500) = 12833.5
    assert near(model.score_at(*facts((0, 0, 1, 0))), [12833.5])


def test_a_span_counts_its_instants() -> None:
    model = by_hand("simple", SPACE, TABLES, dimension=1)
    s, r, o, first, last = facts((0, 0, 1, 0, 1))
    assert near(model.score(s, r, o, (first, last)), [70])
    assert near(model.times(s, r, o), [[35, 35]])


def test_parameters() -> None:
    # 2d (|E| + |R|): two vectors each
    assert SimplE(SPACE, SimplE.options_type(dimension=5)).parameter_count == 2 * 5 * (3 + 1)
