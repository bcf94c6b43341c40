"""Negatives: how many, which, and that those that are weighed stand for all entities, for every model."""

from math import exp, log

import numpy as np
import pytest
import torch
from tests.builders import placed_of, small_kb

from timeplex.evaluation.ranking import PlacedFacts
from timeplex.kb.facts import TemporalKB
from timeplex.models import MODELS
from timeplex.training.batches import ALL_ENTITIES, NEGATIVES, Batches, Candidates, Negatives
from timeplex.training.loop import Trainer
from timeplex.training.objective import Objective
from timeplex.training.recipe import Recipe

CPU = torch.device("cpu")


def facts(s: list[int], o: list[int]) -> PlacedFacts:
    return placed_of((*pair, 0, 0) for pair in zip(s, [0] * len(s), o, strict=True))


@pytest.mark.parametrize(
    ("entities", "by_instant", "settings", "number"),
    [
        (ALL_ENTITIES, False, {}, 0),
        (ALL_ENTITIES + 1, False, {}, NEGATIVES),
        (NEGATIVES, True, {}, 0),
        (NEGATIVES + 1, True, {}, NEGATIVES),
        (5_000, False, {"negatives": 7}, 7),
        (ALL_ENTITIES + 1, False, {"negatives": 0}, 0),
        (5_000, False, {"frequent": 10}, NEGATIVES),
        (5_000, False, {"frequent": 10, "negatives": 4_989}, 4_989),
        (5_000, False, {"frequent": 10, "negatives": 4_990}, 0),  # there are no more: all
        (5_000, False, {"frequent": 6_000}, 0),
    ],
)
def test_how_many(entities: int, by_instant: bool, settings: dict[str, int], number: int) -> None:
    found = Negatives(Recipe(**settings), facts([0], [1]), entities, by_instant)  # type: ignore[arg-type]
    assert found.number == number
    drawn = found.draw(np.random.default_rng(0), CPU)
    assert (drawn is None) == (number == 0)


def test_the_frequent_are_there_and_others_stand_for_the_rest() -> None:
    # Mentions: entity 3 has four, 5 three, 1 one, the other five none.
    negatives = Negatives(Recipe(frequent=2, negatives=3), facts([3, 3, 5, 3], [5, 5, 3, 1]), 8, by_instant=False)
    seen = set()
    for seed in range(50):
        drawn = negatives.draw(np.random.default_rng(seed), CPU)
        assert drawn is not None
        assert drawn.entities[:2].tolist() == [3, 5]
        others = drawn.entities[2:].tolist()
        assert len(set(others)) == 3
        seen |= set(others)
        assert drawn.log_weight is not None
        assert drawn.log_weight.tolist() == pytest.approx([0, 0, *[log(6 / 3)] * 3])
    assert seen == {0, 1, 2, 4, 6, 7}


def test_the_sum_over_all_entities_is_estimated_without_bias() -> None:
    random = np.random.default_rng(0)
    score = random.normal(size=30)
    negatives = Negatives(Recipe(frequent=5, negatives=6), facts([0], [1]), 30, by_instant=False)
    sums = []
    for _ in range(4_000):
        drawn = negatives.draw(random, CPU)
        assert drawn is not None
        assert drawn.log_weight is not None
        sums.append(np.exp(score[drawn.entities.numpy()] + drawn.log_weight.numpy()).sum())
    standard_error = np.std(sums) / len(sums) ** 0.5
    assert standard_error > 0
    assert abs(np.mean(sums) - np.exp(score).sum()) < 4 * standard_error


def test_golds_are_added_without_weight() -> None:
    candidates = Candidates(torch.tensor([4, 9, 2]), torch.tensor([0.0, 1.5, 1.5]))
    found, where = candidates.with_golds(torch.tensor([9, 7, 4, 7]))
    assert found.entities.tolist() == [2, 4, 7, 9]
    assert found.log_weight is not None
    assert found.log_weight.tolist() == [1.5, 0.0, -torch.inf, 1.5]
    assert found.entities[where].tolist() == [9, 7, 4, 7]


@pytest.fixture(scope="module")
def kb() -> TemporalKB:
    return small_kb(300)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("model", sorted(MODELS))
def test_the_loss_by_a_loop(kb: TemporalKB, model: str, inverse: bool) -> None:
    """−log of e^gold over e^gold + Σ weight · e^score of the other candidates, for both sides, mean over the facts."""
    options = {"dimension": 8} | ({"bin_size": 40} if model == "hyte" else {})
    settings = {"batch_size": 40, "time_weight": 0, "frequent": 10, "negatives": 8}
    recipe = Recipe(model=model, options=options, inverse=inverse, **settings)  # type: ignore[arg-type]
    trainer = Trainer(kb, recipe, device="cpu")
    trainer.model.train(False)
    batch = Batches(trainer.setup.train, recipe).batch(0, 0, CPU)
    drawn = trainer.negatives.draw(np.random.default_rng(0), CPU)
    assert drawn is not None
    assert drawn.log_weight is not None
    with torch.no_grad():
        while trainer.model.objects_at(batch.s, batch.r, batch.t).std() < 0.3:  # at first all scores are nearly alike
            for table in trainer.model.parameters():
                table *= 1.5
        found = Objective(trainer.model, recipe, len(kb.relations), torch.float32)(batch, drawn)
        objects = trainer.model.objects_at(batch.s, batch.r, batch.t).tolist()
        if inverse:
            subjects = trainer.model.objects_at(batch.o, batch.r + len(kb.relations), batch.t).tolist()
        else:
            subjects = trainer.model.subjects_at(batch.r, batch.o, batch.t).tolist()
    weights = dict(zip(drawn.entities.tolist(), drawn.log_weight.exp().tolist(), strict=True))
    total = 0.0
    for rows, golds in ((objects, batch.o.tolist()), (subjects, batch.s.tolist())):
        for row, gold in zip(rows, golds, strict=True):
            others = sum(weight * exp(row[entity]) for entity, weight in weights.items() if entity != gold)
            total -= log(exp(row[gold]) / (exp(row[gold]) + others)) / len(golds)
    assert float(found) == pytest.approx(total, rel=1e-4)
