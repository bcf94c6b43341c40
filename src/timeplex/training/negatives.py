"""Which entities a gold is told from: all, some that are drawn, or the frequent ones and some that are drawn."""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from timeplex.evaluation.queries import PlacedFacts
from timeplex.training.recipe import Recipe

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
