"""A scorer: the sum of its parts in every answer, and subject queries by the inverse relation."""

from dataclasses import replace

import pytest
import torch
from tests.builders import small_kb
from torch import Tensor

from timeplex.models.scorer import DIRECTIONS, MODEL, Direction, Scorer, inverse
from timeplex.training.experiment import Experiment
from timeplex.training.recipe import Recipe

GADGETS = {"recurrence": {"weight": 0.5}, "pair": {"weight": 3.0}}


def made(inverted: bool, model: str = "timeplex-base") -> tuple[Scorer, tuple[Tensor, ...]]:
    """An untrained scorer with both gadgets, and some training facts: s, r, o, first, last."""
    kb = small_kb(300, seed=1, split_seed=1)
    setup = Experiment(kb, Recipe(model=model, options={"dimension": 6}, inverse=inverted, gadgets=GADGETS))
    train = setup.train
    columns = (train.s, train.r, train.o, train.first, train.last)
    facts = tuple(torch.from_numpy(column[:20].copy()) for column in columns)
    return setup.scorer(setup.new_model(), setup.new_gadgets()), facts


@pytest.mark.parametrize("inverted", [False, True])
def test_every_answer_is_the_model_and_strength_times_each_gadget(inverted: bool) -> None:
    scorer, (s, r, o, first, last) = made(inverted)
    model, gadgets, span = scorer.model, scorer.gadgets.values(), (first, last)
    back = inverse(r, model.space.relations // 2)
    objects, times = model.objects(s, r, span), model.times(s, r, o)
    subjects = model.objects(o, back, span) if inverted else model.subjects(r, o, span)
    at = {"object": model.score_at(s, r, o, first)}
    at["subject"] = model.score_at(o, back, s, first) if inverted else at["object"]
    times = times + (model.times(o, back, s) if inverted else 0)
    for gadget in gadgets:
        objects = objects + gadget.strength * gadget.objects_at(s, r, first)
        subjects = subjects + gadget.strength * gadget.subjects_at(r, o, first)
        times = times + gadget.strength * gadget.times(s, r, o)
        at = {name: row + gadget.strength * gadget.score_at(s, r, o, first) for name, row in at.items()}
    torch.testing.assert_close(scorer.objects(s, r, span), objects)
    torch.testing.assert_close(scorer.subjects(r, o, span), subjects)
    torch.testing.assert_close(scorer.times(s, r, o), times)
    for direction in DIRECTIONS:
        torch.testing.assert_close(scorer.score_at(s, r, o, first, direction), at[direction])
    parts = scorer.time_parts(s, r, o)
    assert list(parts) == [MODEL, *scorer.gadgets]
    torch.testing.assert_close(sum(parts.values()), times)


@pytest.mark.parametrize("model", ["timeplex-base", "de-simple", "complex"])
@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_candidates_differ_as_their_scores_do(model: str, inverted: bool, direction: Direction) -> None:
    """By a mean over the span, and by what all candidates of a question have alike."""
    scorer, (s, r, o, first, _) = made(inverted, model)
    with torch.no_grad():
        found = scorer.candidates(direction, s if direction == "object" else o, r, (first, first))
        whole = scorer.objects(s, r, (first, first)) if direction == "object" else scorer.subjects(r, o, (first, first))
    torch.testing.assert_close(found - found[:, :1], whole - whole[:, :1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("direction", DIRECTIONS)
@torch.no_grad()
def test_terms_and_reasons_sum_to_the_score(inverted: bool, direction: Direction) -> None:
    scorer, facts = made(inverted)
    s, r, o, t = (column[:1] for column in facts[:4])
    parts = [float(part) for part in scorer.terms(s, r, o, t, direction).values()]
    reasons = [value for value, _, _ in scorer.reasons(int(s), int(r), int(o), int(t))]
    whole = float(scorer.score_at(s, r, o, t, direction))
    assert sum(parts) + sum(reasons) == pytest.approx(whole, abs=1e-4)
    assert reasons


def test_a_frozen_model_gets_no_gradient_and_its_gadgets_do() -> None:
    scorer, (s, r, o, first, _) = made(True)
    for each, learns in ((scorer, True), (replace(scorer, frozen=True), False)):
        scorer.model.zero_grad()
        answers = (each.objects(s, r, (first, first)), each.times(s, r, o), each.score_at(s, r, o, first, "subject"))
        sum(answer.sum() for answer in answers).backward()
        assert any(table.grad is not None for table in scorer.model.parameters()) is learns
        assert all(table.grad is not None for table in scorer.gadgets["pair"].parameters())  # type: ignore[attr-defined]


def test_a_fact_is_no_evidence_for_itself() -> None:
    scorer, (s, r, o, *_) = made(False)
    own = scorer.gadgets["pair"].evidence.places(torch.arange(20).numpy())  # type: ignore[attr-defined]
    left_out = scorer.times(s, r, o, torch.from_numpy(own))
    assert not torch.allclose(left_out, scorer.times(s, r, o))
