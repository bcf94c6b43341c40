"""Batches: every fact once an epoch, instants uniform in the span, and all of it a function of (seed, epoch)."""

import numpy as np
import pytest
import torch
from tests.builders import placed_of

from timeplex.evaluation.ranking import PlacedFacts
from timeplex.training.batches import Batches
from timeplex.training.recipe import Recipe

CPU = torch.device("cpu")


def facts(number: int = 50, longest: int = 4) -> PlacedFacts:
    rng = np.random.default_rng(0)
    r, o = rng.integers(0, 10, (2, number))
    first = rng.integers(0, 10, number)
    return PlacedFacts(np.arange(number), r, o, first, first + rng.integers(0, longest, number))


def rows(batches: Batches, epoch: int) -> list[tuple[int, int]]:
    """(fact, instant) of a whole epoch in order; subjects number the facts here."""
    parts = [batches.batch(epoch, number, CPU) for number in range(len(batches))]
    return [pair for part in parts for pair in zip(part.s.tolist(), part.t.tolist(), strict=True)]


@pytest.mark.parametrize("by_instant", [False, True])
def test_an_epoch_has_every_fact_once(by_instant: bool) -> None:
    some = facts()
    seen = rows(Batches(some, Recipe(batch_size=7), by_instant=by_instant), 3)
    assert sorted(fact for fact, _ in seen) == list(range(50))
    assert all(some.first[fact] <= t <= some.last[fact] for fact, t in seen)


def test_epochs_differ_and_repeat() -> None:
    recipe = Recipe(batch_size=7, seed=5)
    assert rows(Batches(facts(), recipe), 1) == rows(Batches(facts(), recipe), 1)
    assert rows(Batches(facts(), recipe), 1) != rows(Batches(facts(), recipe), 2)
    assert rows(Batches(facts(), recipe), 1) != rows(Batches(facts(), recipe.model_copy(update={"seed": 6})), 1)


def test_any_batch_can_be_asked_for_first() -> None:
    """What a resume relies on."""
    straight = Batches(facts(), Recipe(batch_size=7))
    for number in range(4):
        straight.batch(0, number, CPU)
    assert torch.equal(straight.batch(0, 4, CPU).t, Batches(facts(), Recipe(batch_size=7)).batch(0, 4, CPU).t)


def test_instants_are_uniform() -> None:
    """χ² of the instants of one span of five over many epochs; rounding would halve the ends."""
    one = placed_of([(0, 0, 0, 2, 6)])
    batches = Batches(one, Recipe(batch_size=1))
    counts = np.bincount([batches.batch(epoch, 0, CPU).t.item() for epoch in range(2000)], minlength=7)[2:]
    assert counts.sum() == 2000
    assert ((counts - 400) ** 2 / 400).sum() < 18.5  # 99.9 % of χ² with four degrees of freedom


def test_begin_and_enumerate() -> None:
    some = facts()
    assert all(t == some.first[fact] for fact, t in rows(Batches(some, Recipe(instants="begin")), 0))
    everything = rows(Batches(some, Recipe(instants="enumerate")), 0)
    assert sorted(everything) == [(fact, t) for fact in range(50) for t in range(some.first[fact], some.last[fact] + 1)]


def test_enumerate_takes_a_group_once() -> None:
    one = placed_of([(0, 0, 0, 1, 5)])
    groups = np.array([0, 0, 0, 1, 1, 2])
    assert sorted(rows(Batches(one, Recipe(instants="enumerate"), groups), 0)) == [(0, 1), (0, 3), (0, 5)]


def test_by_instant_keeps_instants_together() -> None:
    batches = Batches(facts(200, longest=1), Recipe(batch_size=20), by_instant=True)
    spread = [len(set(batches.batch(0, number, CPU).t.tolist())) for number in range(len(batches))]
    assert max(spread) <= 3


def test_inverse_facts() -> None:
    batch = Batches(facts(), Recipe(batch_size=4)).batch(0, 0, CPU).with_inverse(10)
    assert torch.equal(batch.s[4:], batch.o[:4])
    assert torch.equal(batch.o[4:], batch.s[:4])
    assert torch.equal(batch.r[4:], batch.r[:4] + 10)
    assert torch.equal(batch.t[4:], batch.t[:4])
