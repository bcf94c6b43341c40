"""TimePlex by hand, in both forms.

paper:           Re⟨s, rˢᵒ, ō⟩ + α Re⟨s, rˢᵗ, t̄⟩ + β Re⟨o, rᵒᵗ, t̄⟩ + γ Re⟨s, o, t̄⟩
published code:  Re⟨s, rˢᵒ, ō⟩ + α Re⟨s, rˢᵗ, t̄⟩ + β Re⟨t, rᵒᵗ, ō⟩ + γ Re⟨s, t, ō⟩
"""

import pytest
import torch
from tests.models.tables import by_hand, facts, near

from timeplex.models import Model, Space
from timeplex.models.timeplex import Options, TimePlex

TABLES = {
    "entity": [[1.0, 2.0], [3.0, -1.0]],  # 1 + 2i, 3 − i
    "relation_so": [[2.0, 1.0]],  # 2 + i
    "relation_st": [[0.0, 1.0]],  # i
    "relation_ot": [[1.0, -1.0]],  # 1 − i
    "time": [[1.0, 1.0], [0.0, 2.0]],  # 1 + i, 2i
}
SPACE = Space.plain(entities=2, relations=1, instants=2)

# The terms of (e0, r, e1), at t0 and at t1:
#   Re⟨s, rˢᵒ, ō⟩ = (1 + 2i)(2 + i)(3 + i) = 5i (3 + i)             → −5
#   Re⟨s, rˢᵗ, t̄⟩ = (1 + 2i) i t̄ = (−2 + i) t̄                      → (−2 + i)(1 − i) → −1,    (−2 + i)(−2i) → 2
# paper
#   Re⟨o, rᵒᵗ, t̄⟩ = (3 − i)(1 − i) t̄ = (2 − 4i) t̄                  → (2 − 4i)(1 − i) → −2,    (2 − 4i)(−2i) → −8
#   Re⟨s, o, t̄⟩ = (1 + 2i)(3 − i) t̄ = (5 + 5i) t̄                   → (5 + 5i)(1 − i) → 10,    (5 + 5i)(−2i) → 10
# published code
#   Re⟨t, rᵒᵗ, ō⟩ = t (1 − i)(3 + i) = t (4 − 2i)                   → (1 + i)(4 − 2i) → 6,     2i (4 − 2i) → 4
#   Re⟨s, t, ō⟩ = (1 + 2i)(3 + i) t = (1 + 7i) t                    → (1 + 7i)(1 + i) → −6,    (1 + 7i) 2i → −14


def made(form: str, alpha: float = 2, beta: float = 3, gamma: float = 10) -> Model:
    options = {"alpha": alpha, "beta": beta, "gamma": gamma, "form": form}
    return by_hand("timeplex-base", SPACE, TABLES, dimension=1, unit_time=False, **options)


@pytest.mark.parametrize(
    ("weights", "paper", "published"),
    [
        ((0, 0, 0), [-5, -5], [-5, -5]),
        ((1, 0, 0), [-5 - 1, -5 + 2], [-5 - 1, -5 + 2]),
        ((0, 1, 0), [-5 - 2, -5 - 8], [-5 + 6, -5 + 4]),
        ((0, 0, 1), [-5 + 10, -5 + 10], [-5 - 6, -5 - 14]),
        ((2, 3, 10), [-5 - 2 - 6 + 100, -5 + 4 - 24 + 100], [-5 - 2 + 18 - 60, -5 + 4 + 12 - 140]),
    ],
)
def test_each_term_and_all(weights: tuple[float, float, float], paper: list[float], published: list[float]) -> None:
    s, r, o, t = facts((0, 0, 1, 0), (0, 0, 1, 1))
    for form, scores in (("paper", paper), ("published-code", published)):
        model = made(form, *weights)
        assert near(model.score_at(s, r, o, t), scores)
        assert near(model.times(s, r, o), [scores, scores])
        assert near(model.score(s[:1], r[:1], o[:1], (t[:1], t[1:])), [sum(scores)])


def test_objects() -> None:
    s, r, _, t = facts((0, 0, 1, 0))
    # e1 as above. e0 as the object of e0 at t0:
    #   (1 + 2i)(2 + i)(1 − 2i) = 5i (1 − 2i) → 10;   −1;
    #   paper: (1 + 2i)(1 − i)(1 − i) = (1 + 2i)(−2i) → 4;   (1 + 2i)(1 + 2i)(1 − i) = (−3 + 4i)(1 − i) → 1
    assert near(made("paper").objects_at(s, r, t), [[10 - 2 + 12 + 10, 87]])
    #   published code: (1 + i)(1 − i)(1 − 2i) = 2 (1 − 2i) → 2;   (1 + 2i)(1 + i)(1 − 2i) = 5 (1 + i) → 5
    assert near(made("published-code").objects_at(s, r, t), [[10 - 2 + 6 + 50, -49]])


def test_subjects() -> None:
    _, r, o, t = facts((0, 0, 1, 0))
    # e0 as above. e1 as the subject of e1 at t0:
    #   (3 − i)(2 + i)(3 + i) = 10 (2 + i) → 20;   (3 − i) i (1 − i) = (1 + 3i)(1 − i) → 4;
    #   paper: −2 as above;   (3 − i)(3 − i)(1 − i) = (8 − 6i)(1 − i) → 2
    assert near(made("paper").subjects_at(r, o, t), [[87, 20 + 8 - 6 + 20]])
    #   published code: 6 as above;   (3 − i)(1 + i)(3 + i) = 10 (1 + i) → 10
    assert near(made("published-code").subjects_at(r, o, t), [[-49, 20 + 8 + 18 + 100]])


def random_pair(gamma: float) -> tuple[TimePlex, TimePlex]:
    """Models of the paper's and of the published form with the same tables, but rᵒᵗ conjugated."""
    space = Space.plain(5, 3, 4)
    torch.manual_seed(0)
    paper = TimePlex(space, Options(dimension=3, gamma=gamma, form="paper", spread=1.0))
    published = TimePlex(space, Options(dimension=3, gamma=gamma, form="published-code"))
    published.load_state_dict(paper.state_dict())
    with torch.no_grad():
        published.relation_ot[:, 3:] *= -1
    return paper, published


def test_without_gamma_the_forms_differ_only_in_a_conjugation() -> None:
    paper, published = random_pair(gamma=0)
    s, r, o, first, last = facts((0, 0, 1, 0, 3), (4, 2, 3, 1, 2), (2, 1, 2, 3, 3))
    assert near(published.score(s, r, o, (first, last)), paper.score(s, r, o, (first, last)).tolist())
    assert near(published.objects_at(s, r, first), paper.objects_at(s, r, first).tolist())
    assert near(published.subjects_at(r, o, first), paper.subjects_at(r, o, first).tolist())
    assert near(published.times(s, r, o), paper.times(s, r, o).tolist())


def test_with_gamma_they_do_not() -> None:
    paper, published = random_pair(gamma=1)
    s, r, o, t = facts((0, 0, 1, 0))
    assert not near(published.score_at(s, r, o, t), paper.score_at(s, r, o, t).tolist())


def test_only_the_published_gamma_term_tells_subject_from_object() -> None:
    s, r, o, t = facts((0, 0, 1, 0))
    silent = {name: [[0.0, 0.0]] for name in ("relation_so", "relation_st", "relation_ot")}
    there, back = {}, {}
    for form in ("paper", "published-code"):
        tables = {**TABLES, **silent}
        model = by_hand("timeplex-base", SPACE, tables, dimension=1, unit_time=False, gamma=1, form=form)
        there[form], back[form] = model.score_at(s, r, o, t).item(), model.score_at(o, r, s, t).item()
    # Back: (3 − i)(1 + i)(1 − 2i) = (4 + 2i)(1 − 2i) → 8.
    assert there == {"paper": 10, "published-code": -6}
    assert back == {"paper": 10, "published-code": 8}


def test_unit_time_is_kept_at_the_start_and_after_a_step() -> None:
    tables = {name: [row * 2 for row in rows] for name, rows in TABLES.items()} | {
        "time": [[3.0, 4.0, 0.0, -5.0], [1.0, 0.0, 6.0, 8.0]]
    }
    model = by_hand("timeplex-base", SPACE, tables, dimension=2, unit_time=True)
    model.after_step()
    # The real half (3, 4) has length 5, the imaginary half (0, −5) too; (1, 0) has length 1, (6, 8) length 10.
    assert near(model.get_parameter("time"), [[0.6, 0.8, 0, -1], [1, 0, 0.6, 0.8]])
    fresh = TimePlex(SPACE, Options(dimension=3))
    assert near(fresh.time.view(2, 2, 3).norm(dim=-1), [[1, 1], [1, 1]])


def test_without_unit_time_a_step_leaves_time_alone() -> None:
    model = made("paper")
    model.after_step()
    assert near(model.get_parameter("time"), TABLES["time"])


def test_parameters() -> None:
    # The paper: 2d (|E| + |T| + 6 |R|). A relation has three vectors, and |R| counts base relations, of which training
    # with inverse facts makes twice as many: the space has 2 |R| of them.
    space = Space.plain(entities=11, relations=2 * 3, instants=7)
    assert TimePlex(space, Options(dimension=5)).parameter_count == 2 * 5 * (11 + 7 + 6 * 3)
