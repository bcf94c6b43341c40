"""Batches of training facts, each with one instant, that depend only on (seed, epoch, number).

Nothing is kept between batches, so that training can go on from any of them bit by bit as if it had never stopped.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from timeplex.evaluation.queries import PlacedFacts
from timeplex.kb.dates import Ints
from timeplex.training.recipe import Recipe


@dataclass(frozen=True)
class Batch:
    """Facts at instants: tensors of shape (n,)."""

    s: Tensor
    r: Tensor
    o: Tensor
    t: Tensor

    def __len__(self) -> int:
        return len(self.s)

    def with_inverse(self, relations: int) -> "Batch":
        """The facts and then their inverses (o, r + relations, s)."""
        return Batch(
            torch.cat([self.s, self.o]),
            torch.cat([self.r, self.r + relations]),
            torch.cat([self.o, self.s]),
            torch.cat([self.t, self.t]),
        )


def random(*key: int) -> np.random.Generator:
    """A generator that depends on the key alone."""
    return np.random.default_rng(np.random.SeedSequence(key))


class Batches:
    """The facts of an epoch in random order, cut into batches.

    `groups` numbers the instants that a model cannot tell apart; with `instants = enumerate` a fact is one row for each
    of them in its span. With `by_instant` the rows of a batch lie near each other in time, for models whose tables
    depend on the instant.
    """

    def __init__(
        self, facts: PlacedFacts, recipe: Recipe, groups: Ints | None = None, by_instant: bool = False
    ) -> None:
        self.recipe, self.by_instant = recipe, by_instant
        self.facts = _enumerated(facts, groups) if recipe.instants == "enumerate" else facts

    def __len__(self) -> int:
        return -(-len(self.facts) // self.recipe.batch_size)

    def batch(self, epoch: int, number: int, device: torch.device) -> Batch:
        """Batch `number` of an epoch."""
        rows, t = self._epoch(epoch)
        size = self.recipe.batch_size
        part = slice(number * size, (number + 1) * size)
        rows, t = rows[part], t[part]
        columns = (self.facts.s[rows], self.facts.r[rows], self.facts.o[rows], t)
        return Batch(*(torch.from_numpy(np.ascontiguousarray(column)).to(device) for column in columns))

    def _epoch(self, epoch: int) -> tuple[Ints, Ints]:
        """All rows of an epoch in their order, and the instant of each; the last epoch asked for is kept."""
        if getattr(self, "_kept", (None,))[0] != epoch:
            generator = random(self.recipe.seed, epoch)
            t = self.facts.first
            if self.recipe.instants == "sample":
                t = t + generator.integers(0, self.facts.lengths)  # uniform over the instants of the span
            order = generator.permutation(len(self.facts))
            if self.by_instant:
                order = order[np.argsort(t[order], kind="stable")]
                size = self.recipe.batch_size
                full = len(order) // size
                blocks = order[: full * size].reshape(full, size)[generator.permutation(full)]
                order = np.concatenate([blocks.ravel(), order[full * size :]])
            self._kept = (epoch, order, t[order])
        return self._kept[1], self._kept[2]


def _enumerated(facts: PlacedFacts, groups: Ints | None) -> PlacedFacts:
    """One row for each instant (or group of instants) of each span."""
    lengths = facts.lengths
    fact = np.repeat(np.arange(len(facts)), lengths)
    t = facts.first[fact] + np.arange(len(fact)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    if groups is not None:
        # Of each group in a span the first instant stands for all.
        new = np.ones(len(t), bool)
        new[1:] = (fact[1:] != fact[:-1]) | (groups[t[1:]] != groups[t[:-1]])
        fact, t = fact[new], t[new]
    return PlacedFacts(facts.s[fact], facts.r[fact], facts.o[fact], t, t)
