"""Small random KBs that have everything which is awkward for a gadget, and questions about them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from tests.builders import Row, facts_of, kb_of
from torch import Tensor

from timeplex.gadgets import Evidence, Gadget
from timeplex.kb import spans
from timeplex.kb.facts import TemporalKB

NEAR = tuple(range(1990, 1999))
FAR = (-4000, 9999, -4_000_000, 4_000_000)
"""Years, and days, as far apart as a KB can have them."""
OPEN = (spans.OPEN_BEGIN, spans.OPEN_END)


@dataclass(frozen=True)
class Sizes:
    """How large a case is."""

    entities: int = 4
    relations: int = 3
    triples: int = 5
    facts: int = 12
    queries: int = 5


class Query(NamedTuple):
    """Questions of shape (n,), and the place that each has in the evidence (−1: none)."""

    s: Tensor
    r: Tensor
    o: Tensor
    t: Tensor
    own: Tensor

    def rows(self, rows: Sequence[int]) -> "Query":
        """Some of them, in this order."""
        return Query(*(column[list(rows)] for column in self))

    @property
    def fact(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """s, r, o, t."""
        return self.s, self.r, self.o, self.t


def build(
    kind: type[Gadget], rows: Sequence[Row], entities: int, relations: int, instants: Sequence[int], **options: Any
) -> Gadget:
    """A gadget fitted on rows, in double precision, where a wrong formula cannot pass for rounding."""
    evidence = Evidence.of(facts_of(rows), entities, relations, np.array(instants, np.int64))
    return kind(evidence, kind.options_type(**options)).double()


class Case:
    """A KB, a gadget with random weights, and questions; all from the sizes and a seed."""

    def __init__(self, kind: type[Gadget], form: str, sizes: Sizes, seed: int) -> None:
        self.kind, self.form, self.sizes, self.seed = kind, form, sizes, seed
        self.random = random.Random(seed)
        self.entities, self.relations = sizes.entities, sizes.relations
        self.block = self.random.choice((1, 3, 10, 4_000_000))
        # Few times, so that facts meet; now and then one that is very far.
        self.times = self.random.sample(NEAR, self.random.randint(2, 6)) + self.random.sample(FAR, 2)
        self.chances = [4] * (len(self.times) - 2) + self.random.choice(([0, 0], [1, 1]))
        triples = [self._triple() for _ in range(sizes.triples)]
        self.rows = [(*self.random.choice(triples), *self._span()) for _ in range(sizes.facts)]
        if self.rows and self.random.random() < 0.5:
            self.rows.append(self.random.choice(self.rows))  # a duplicate
        self.instants = sorted({*self.random.sample(self.times, len(self.times) - 1), 1989, 2003})
        self.weights_seed, self.spread = self.random.randrange(2**31), self.random.choice((0.1, 1.0, 3.0))
        self.asked = self._questions(triples)

    def __repr__(self) -> str:
        return (
            f"Case(seed={self.seed}, {self.sizes}, block={self.block}, rows={self.rows}, instants={self.instants}, "
            f"queries={[tuple(column.tolist()) for column in self.asked]})"
        )

    def _triple(self) -> tuple[int, int, int]:
        draw = self.random.randrange
        return draw(self.entities), draw(self.relations), draw(self.entities)

    def _span(self) -> tuple[int, int]:
        begin, end = self.random.choices(self.times, self.chances, k=2)
        return self.random.choice(((begin, end), (begin, begin), (begin, OPEN[1]), (OPEN[0], end), OPEN))

    def _questions(self, triples: list[tuple[int, int, int]]) -> Query:
        """About known triples and others, at times of theirs and at others."""
        evidence = Evidence.of(facts_of(self.rows), self.entities, self.relations, np.array(self.instants))
        found = []
        for _ in range(self.sizes.queries):
            triple, own, t = self._triple(), -1, self.random.randrange(len(self.instants))
            if triples and self.random.random() < 0.3:
                triple = self.random.choice(triples)
            elif len(evidence) and self.random.random() < 0.9:
                own = self.random.randrange(len(evidence))
                triple = int(evidence.s[own]), int(evidence.r[own]), int(evidence.o[own])
                if int(evidence.t[own]) in self.instants and self.random.random() < 0.6:
                    t = self.instants.index(int(evidence.t[own]))
            found.append((*triple, t, own))
        return Query(*torch.tensor(found, dtype=torch.long).reshape(-1, 5).T)

    def kb(self) -> TemporalKB:
        """The rows as a KB with names."""
        return kb_of(self.rows, self.entities, self.relations)

    def gadget(self, rows: Sequence[Row] | None = None, entities: int | None = None) -> Gadget:
        """The gadget with its random weights, on these rows or others."""
        rows = self.rows if rows is None else rows
        gadget = build(self.kind, rows, entities or self.entities, self.relations, self.instants, form=self.form)
        self.shake(gadget, self.weights_seed)
        return gadget

    def shake(self, gadget: Gadget, seed: int) -> None:
        """Change everything that is learned."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in gadget.parameters():
                if parameter.requires_grad:
                    parameter += self.spread * torch.randn(parameter.shape, generator=generator, dtype=torch.double)
