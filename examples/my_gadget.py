"""A gadget of one's own: an object that was much in demand lately is likelier now."""

import numpy as np
import torch
from torch import Tensor, nn

from timeplex.gadgets import Evidence, Gadget, GadgetOptions, Reason, register
from timeplex.gadgets.evidence import to_numpy, to_torch
from timeplex.kb.facts import Index, pair_key

HALVED = 10
"""A fact counts half after so many instants."""


@register("demand")
class Demand(Gadget):
    """φ(s, r, o, t) = w_r Σ 2^(−(t − t′) / 10) over the facts (·, r, o, t′) with t′ < t."""

    def __init__(self, evidence: Evidence, options: GadgetOptions) -> None:
        super().__init__(evidence, options)
        self.weight = nn.Parameter(torch.full((evidence.relations,), 0.1))
        self._by_relation = Index(evidence.r)

    def _counting(self, index: Index, keys: np.ndarray, when: np.ndarray, own: Tensor | None) -> tuple:
        """Pairs of a query and a fact that may count, and what it counts at each time of the query: (pairs, times)."""
        query, fact = index.matches(keys)
        if own is not None:
            kept = fact != own.cpu().numpy()[query]
            query, fact = query[kept], fact[kept]
        gap = when[query] - self.evidence.t[fact, None]
        counts = np.where(gap > 0, 0.5 ** (np.maximum(gap, 0) / HALVED), 0.0)
        return query, fact, to_torch(counts, self.weight).to(self.weight.dtype)

    def times(self, s: Tensor, r: Tensor, o: Tensor, own: Tensor | None = None) -> Tensor:
        """(n, instants)."""
        when = np.broadcast_to(self.evidence.instants, (len(s), len(self.evidence.instants)))
        return self._sums(r, o, when, own)

    def score_at(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        """(n,)."""
        return self._sums(r, o, self.evidence.when(t)[:, None], own)[:, 0]

    def _sums(self, r: Tensor, o: Tensor, when: np.ndarray, own: Tensor | None) -> Tensor:
        """The score at each time: (n, times)."""
        query, _, counts = self._counting(self.evidence.by_object_relation, pair_key(*to_numpy(o, r)), when, own)
        sums = counts.new_zeros(when.shape).index_add(0, to_torch(query, r), counts)
        return self.weight[r][:, None] * sums

    def objects_at(self, s: Tensor, r: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        """(n, entities)."""
        query, fact, counts = self._counting(self._by_relation, to_numpy(r)[0], self.evidence.when(t)[:, None], own)
        cells = to_torch(query * self.evidence.entities + self.evidence.o[fact], r)
        sums = counts.new_zeros(len(r) * self.evidence.entities).index_add(0, cells, counts[:, 0])
        return self.weight[r][:, None] * sums.view(len(r), self.evidence.entities)

    def subjects_at(self, r: Tensor, o: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        """(n, entities): all alike, because the subject has no say."""
        return self.score_at(o, r, o, t, own)[:, None].expand(-1, self.evidence.entities)

    def reasons(self, s: int, r: int, o: int, t: int) -> list[Reason]:
        """Each earlier fact about the object, the latest first."""
        when = self.evidence.instants[t]
        keys = pair_key([o], [r])
        _, fact, counts = self._counting(self.evidence.by_object_relation, keys, np.full((1, 1), when), None)
        gaps, values = (when - self.evidence.t[fact]).tolist(), (self.weight[r] * counts[:, 0]).tolist()
        rows = zip(self.evidence.rows[fact].tolist(), gaps, values, strict=True)
        found = [Reason(row, "object", gap, value) for row, gap, value in rows if gap > 0]
        return sorted(found, key=lambda reason: -abs(reason.value))
