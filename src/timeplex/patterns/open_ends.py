"""Open ends: how likely a fact that began goes on, because the KB leaves such ends open.

Whether a fact (s, r, o) that began at b has an open end is told from shares of open ends, each among like facts of the
KB without the fact itself, shrunk to the share of all facts of r as if there were `PRIOR` more of them:

    age         facts of r by the years from b to the last dates of the KB, in doubling steps
    follower    facts of r by whether subject, and object, have others in the slot, and one that begins later
    slot        the other facts of the slot, from subject, and from object
    entity      the other facts of either entity
    together    the other facts of the subject that begin at b; those of the same two entities

A logistic regression weighs their logits, beside that of the relation itself.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from timeplex.kb import spans
from timeplex.kb.facts import Facts, Index, pair_key
from timeplex.patterns.base import Evidence
from timeplex.patterns.relation_classes import INSTANTS_A_YEAR
from timeplex.typing import Bools, Floats, Ints

PRIOR = 5.0
STEPS = 9
MOST_FACTS = 20_000
NEARLY_ALL = 0.99
"""The last date is taken to be where so many of all dates lie before: single ones may be in error."""
SHRINK = 1.0


@dataclass(frozen=True, eq=False)
class Begun:
    """Facts that began, (n,) each; `own` is the fact of the evidence that it is, −1: none."""

    s: Ints
    r: Ints
    o: Ints
    begin: Ints
    own: Ints

    @classmethod
    def of(cls, facts: Facts, own: Ints | None = None) -> "Begun":
        """Facts that began, as if nothing was known of their ends."""
        s, r, o, begin = (np.asarray(column, np.int64) for column in (facts.s, facts.r, facts.o, facts.begin))
        return cls(s, r, o, begin, np.full(len(s), -1) if own is None else own)


class _Shares:
    """How many facts have a key, and how many of them are open."""

    def __init__(self, keys: Ints, is_open: Bools) -> None:
        self.index = Index(keys)
        self._open = np.append(0, np.cumsum(is_open[self.index.order]))

    def __call__(self, keys: Ints, own: Ints, own_open: Bools, prior: Floats) -> Floats:
        """logit of the share among the others of the key, (n,), less that of the prior share."""
        start, stop = self.index.ranges(keys)
        count, open_ = (stop - start) - own, self._open[stop] - self._open[start] - own * own_open
        return _logit((open_ + PRIOR * prior) / (np.maximum(count, 0) + PRIOR)) - _logit(prior)


class OpenEnds:
    """Shares of open ends in an evidence, and what they weigh together."""

    features = ("age", "follower", "subject slot", "object slot", "subject", "object", "together", "pair")

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        facts = evidence.facts
        self.rows = np.flatnonzero(facts.has_begin)
        self.begun = Begun.of(facts[self.rows], self.rows)
        self.is_open = ~facts.has_end
        here = self.is_open[self.rows]
        self.overall = float((here.sum() + 0.5) / (len(here) + 1))
        count, open_ = (np.bincount(self.begun.r, weight, evidence.relations) for weight in (None, here))
        self._count, self._open = count, open_
        dates = np.concatenate([facts.begin[facts.has_begin], facts.end[facts.has_end]])
        self._last = int(np.quantile(dates, NEARLY_ALL)) if len(dates) else 0
        self._slots = [Index(pair_key(x, self.begun.r)) for x in (self.begun.s, self.begun.o)]
        self._latest = [self._last_begins(index) for index in self._slots]
        self._of = [_Shares(keys, here) for keys in self._keys(self.begun)]
        self.weights = np.zeros(len(self.features) + 1)

    @classmethod
    def fit(cls, evidence: Evidence) -> "OpenEnds":
        """Weights by facts that are no evidence for themselves."""
        found = cls(evidence)
        begun, is_open = found.begun, found.is_open[found.rows]
        if 0 < is_open.sum() < len(is_open):
            some = np.random.default_rng(0).permutation(len(found.rows))[:MOST_FACTS]
            begun = Begun.of(evidence.facts[begun.own[some]], begun.own[some])
            found.weights = _regression(found.rows_of(begun), found._prior(begun), is_open[some])
        return found

    def __call__(self, begun: Begun) -> Floats:
        """How likely each goes on: (n,)."""
        if not self.is_open[self.rows].any():
            return np.zeros(len(begun.s))
        z = self._prior(begun) + self.rows_of(begun) @ self.weights[:-1] + self.weights[-1]
        return np.asarray(0.5 * (1 + np.tanh(z / 2)))

    def rows_of(self, begun: Begun) -> Floats:
        """(n, features): logits of shares, less that of the relation."""
        own = (begun.own >= 0).astype(float)
        own_open = self.is_open[np.maximum(begun.own, 0)] if len(self.is_open) else np.zeros(len(begun.s), bool)
        share = _sigmoid(self._prior(begun))
        return np.column_stack(
            [of(keys, own, own_open, share) for of, keys in zip(self._of, self._keys(begun), strict=True)]
        )

    def follower(self, begun: Begun) -> tuple[Bools, Bools]:
        """Whether subject, and object, have another fact of the slot that begins later: (n,) each."""
        later = []
        for x, index, latest in zip((begun.s, begun.o), self._slots, self._latest, strict=True):
            start, stop = index.ranges(pair_key(x, begun.r))
            last = np.where(stop > start, latest[np.minimum(start, max(len(latest) - 1, 0))] if len(latest) else 0, 0)
            later.append((stop > start) & (last > begun.begin))
        return later[0], later[1]

    def _last_begins(self, index: Index) -> Ints:
        """The last begin of the slot that stands at each place of the order."""
        begins = self.begun.begin[index.order]
        start, stop = index.ranges(index.keys)
        last = np.maximum.reduceat(begins, start) if len(start) else begins
        return np.repeat(last, stop - start)

    def _prior(self, begun: Begun) -> Floats:
        """logit of the share of the relation, without the fact itself: (n,)."""
        own = (begun.own >= 0).astype(float)
        own_open = self.is_open[np.maximum(begun.own, 0)] if len(self.is_open) else 0.0
        count, open_ = self._count[begun.r] - own, self._open[begun.r] - own * own_open
        return _logit((open_ + PRIOR * self.overall) / (count + PRIOR))

    def _keys(self, begun: Begun) -> list[Ints]:
        s, r, o, begin = begun.s, begun.r, begun.o, begun.begin
        age = np.maximum(self._last - begin, 0) / INSTANTS_A_YEAR[self.evidence.granularity]
        step = np.minimum(np.log2(1 + age).astype(np.int64), STEPS)
        kinds = np.zeros(len(s), np.int64)
        own = (begun.own >= 0).astype(np.int64)
        for later, x, index in zip(self.follower(begun), (s, o), self._slots, strict=True):
            start, stop = index.ranges(pair_key(x, r))
            kinds = 3 * kinds + np.where(later, 2, (stop - start - own > 0).astype(np.int64))
        slots = [pair_key(s, r), pair_key(o, r)]
        pair = pair_key(np.minimum(s, o), np.maximum(s, o))
        together = pair_key(s, begin - spans.OPEN_BEGIN)
        return [r * (STEPS + 1) + step, r * 9 + kinds, *slots, s, o, together, pair]


def _regression(x: Floats, prior: Floats, is_open: Bools) -> Floats:
    columns = np.column_stack([x, np.ones(len(x))])

    def loss(weights: Floats) -> tuple[float, Floats]:
        z, shrunk = prior + columns @ weights, SHRINK * np.append(weights[:-1], 0.0)
        value = np.sum(np.logaddexp(0, z) - is_open * z) + shrunk @ weights / 2
        return float(value / len(z)), (columns.T @ (_sigmoid(z) - is_open) + shrunk) / len(z)

    return np.asarray(minimize(loss, np.zeros(columns.shape[1]), jac=True, method="L-BFGS-B").x)


def _logit(p: Floats) -> Floats:
    return np.asarray(np.log(p) - np.log1p(-p))


def _sigmoid(z: Floats) -> Floats:
    return np.asarray(0.5 * (1 + np.tanh(z / 2)))
