"""Link prediction on a split of a KB: whom does a scorer name for (s, r, ?, T) and (?, r, o, T), by a protocol."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from timeplex.evaluation.filters import Filter, Forgiven, OnDemand, allowance
from timeplex.evaluation.protocol import Protocol
from timeplex.evaluation.queries import DIRECTIONS, Direction, PlacedFacts, Scorer
from timeplex.evaluation.ranking import Ranks, rank
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.kb.timeline import Timeline


@dataclass(frozen=True)
class LinkPrediction:
    """The queries that some facts of a KB are, with all that is known of their answers in any split.

    Spans are scored on the scorer's `timeline`; filters count the instants that the protocol names.
    """

    kb: TemporalKB
    facts: Facts
    timeline: Timeline
    protocol: Protocol
    filters: Sequence[Filter]

    @cached_property
    def queries(self) -> PlacedFacts:
        """The facts on the scorer's timeline."""
        return PlacedFacts.of(self.facts, self.timeline)

    @cached_property
    def forgiven(self) -> dict[Direction, dict[str, Forgiven | OnDemand]]:
        """What each filter forgives, by direction."""
        timeline = self.kb.timeline(self.protocol.instants)
        queries, known = PlacedFacts.of(self.facts, timeline), PlacedFacts.of(self.kb.facts, timeline)
        return {
            direction: {name: allowance(queries, known, direction, name) for name in self.filters}
            for direction in DIRECTIONS
        }

    @cached_property
    def unseen(self) -> torch.Tensor:
        """Which entities have no training fact: (entities,)."""
        return torch.from_numpy(~self.kb.train.mentioned(len(self.kb.entities)))

    def ranks(self, scorer: Scorer, direction: Direction, device: torch.device | None = None) -> dict[str, Ranks]:
        """The gold's rank for each fact, by filter: (n,) each."""
        return rank(
            scorer,
            self.queries,
            self.forgiven[direction],
            direction,
            entities=len(self.kb.entities),
            ties=self.protocol.ties,
            span_score=self.protocol.span_score,
            last=self.unseen if self.protocol.unseen == "last" and bool(self.unseen.any()) else None,
            device=device,
        )
