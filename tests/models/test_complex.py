"""ComplEx by hand: φ = Re Σ s · r · ō. A row holds the real parts and then the imaginary parts."""

from tests.models.tables import by_hand, facts, near

from timeplex.models import Space
from timeplex.models.static import ComplEx

# e0 = 1 + 2i, e1 = 3 − i, e2 = 2i; r0 = 2 + i
TABLES = {"entity": [[1.0, 2.0], [3.0, -1.0], [0.0, 2.0]], "relation": [[2.0, 1.0]]}
SPACE = Space.plain(entities=3, relations=1, instants=2)


def test_scores() -> None:
    model = by_hand("complex", SPACE, TABLES, dimension=1)
    s, r, o, t = facts((0, 0, 1, 0))
    # e0 · r0 = (1 + 2i)(2 + i) = 2 + i + 4i − 2 = 5i.   Times ē1 = 3 + i: 5i (3 + i) = 15i − 5, real part −5.
    assert near(model.score_at(s, r, o, t), [-5])
    # Times ē0 = 1 − 2i: 5i + 10, real part 10. Times ē2 = −2i: 10.
    assert near(model.objects_at(s, r, t), [[10, -5, 10]])
    # Subjects of (?, r0, e1): r0 · ē1 = (2 + i)(3 + i) = 6 + 2i + 3i − 1 = 5 + 5i.
    # e0: (1 + 2i)(5 + 5i) = 5 − 10 + … → −5;   e1: (3 − i)(5 + 5i) = 15 + 5 + … → 20;   e2: 2i (5 + 5i) → −10.
    assert near(model.subjects_at(r, o, t), [[-5, 20, -10]])


def test_it_tells_subject_from_object() -> None:
    model = by_hand("complex", SPACE, TABLES, dimension=1)
    s, r, o, t = facts((1, 0, 0, 0))
    # e1 · r0 · ē0 = (3 − i)(2 + i)(1 − 2i) = (6 + 3i − 2i + 1)(1 − 2i) = (7 + i)(1 − 2i) = 7 + 2 + … → 9, not −5.
    assert near(model.score_at(s, r, o, t), [9])


def test_two_dimensions_are_added() -> None:
    # e0 = (1 + 3i, 2 + 4i), e1 = (1, i), r0 = (i, 1)
    tables = {"entity": [[1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 1.0]], "relation": [[0.0, 1.0, 1.0, 0.0]]}
    model = by_hand("complex", Space.plain(2, 1, 1), tables, dimension=2)
    # (1 + 3i) · i · 1 = i − 3 → −3;   (2 + 4i) · 1 · (−i) = −2i + 4 → 4;   together 1.
    assert near(model.score_at(*facts((0, 0, 1, 0))), [1])


def test_a_span_counts_its_instants() -> None:
    model = by_hand("complex", SPACE, TABLES, dimension=1)
    _, r, o, first, last = facts((0, 0, 1, 0, 1))
    assert near(model.subjects(r, o, (first, last)), [[-10, 40, -20]])


def test_parameters() -> None:
    # 2d (|E| + |R|): real and imaginary parts
    assert ComplEx(SPACE, ComplEx.options_type(dimension=5)).parameter_count == 2 * 5 * (3 + 1)
