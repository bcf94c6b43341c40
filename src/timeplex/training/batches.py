"""Batches of training facts, each with one instant, that depend only on (seed, epoch, number).

Nothing is kept between batches, so that training can go on from any of them bit by bit as if it had never stopped.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from timeplex.evaluation.ranking import PlacedFacts
from timeplex.models.scorer import inverse
from timeplex.training.recipe import Recipe
from timeplex.typing import Ints


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
        """The facts and then their inverses (o, r⁻¹, s)."""
        return Batch(
            torch.cat([self.s, self.o]),
            torch.cat([self.r, inverse(self.r, relations)]),
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


ALL_ENTITIES = 50_000
"""Up to so many entities all of them are negatives, if the recipe does not say."""

NEGATIVES = 1_000
"""Drawn negatives above that size."""


class Candidates(NamedTuple):
    """The negatives of a batch, shared by its facts; with `log_weight`, (k,), each stands for so many entities."""

    entities: Tensor
    log_weight: Tensor | None = None

    def with_golds(self, gold: Tensor) -> tuple["Candidates", Tensor]:
        """The candidates and the golds, each entity once, and where among them the golds are: (n,)."""
        entities, where = torch.unique(torch.cat([self.entities, gold]), return_inverse=True)
        mine, golds = where.split([len(self.entities), len(gold)])
        log_weight = torch.full((len(entities),), -torch.inf, device=gold.device)
        log_weight[mine] = 0.0 if self.log_weight is None else self.log_weight
        return Candidates(entities, log_weight), golds


class Negatives:
    """The candidates of each batch, as the recipe has it."""

    def __init__(self, recipe: Recipe, train: PlacedFacts, entities: int, by_instant: bool) -> None:
        self.entities, self.number = entities, _number(recipe, entities, by_instant)
        mentions = np.bincount(np.concatenate([train.s, train.o]), minlength=entities)
        self.frequent, self.others = np.split(np.argsort(-mentions, kind="stable"), [recipe.frequent])
        if recipe.frequent and self.number >= len(self.others):
            self.number = 0

    @property
    def candidates(self) -> int:
        """How many entities a query is compared with, but for the golds of its batch."""
        return len(self.frequent) + self.number if self.number else self.entities

    def draw(self, generator: np.random.Generator, device: torch.device) -> Candidates | None:
        """Negatives for a batch; None are all entities.

        With frequent ones Σ exp φ over all entities is estimated without bias: these are counted, and of the others,
        which have little of the sum, some are drawn, each once at most, and stand for all.
        """
        if not self.number:
            return None
        if not len(self.frequent):
            return Candidates(draw(generator, self.entities, self.number, device))
        drawn = generator.choice(self.others, self.number, replace=False, shuffle=False)
        each = math.log(len(self.others) / self.number)
        log_weight = torch.tensor([0.0, each]).repeat_interleave(torch.tensor([len(self.frequent), self.number]))
        return Candidates(torch.from_numpy(np.concatenate([self.frequent, drawn])).to(device), log_weight.to(device))


def _number(recipe: Recipe, entities: int, by_instant: bool) -> int:
    """How many entities are drawn as negatives; 0 means all.

    A model whose entities move (`by_instant`) would need a table of all of them for every instant of a batch, which
    takes more than 20 GB on WIKIDATA12k.
    """
    if recipe.negatives is not None:
        return recipe.negatives
    few = entities <= (NEGATIVES if by_instant else ALL_ENTITIES)
    return 0 if few and not recipe.frequent else NEGATIVES


def draw(generator: np.random.Generator, entities: int, number: int, device: torch.device) -> Tensor:
    """Entities drawn uniformly: (number,)."""
    return torch.from_numpy(generator.integers(0, entities, number)).to(device)
