"""How well the stated entity of a fact fits, among all that stand in its role; no fact vouches for itself.

Facts are parted in folds. The patterns are fitted on all others, a fold really removed, and its facts are asked about
as (x, r, ?, T). A log-linear score f, learned on one fold against entities drawn evenly from the role, gives

    fit(c) = f(c) − log mean_{e in the role} exp f(e) ≈ log Pr(c | x, r, T) / Pr(c | role)

which is below 0 where c is less likely than whoever else has the role. Other known answers of that time do not count.
What this says of entities *drawn* from the role beside the stated one shows how wrong ones would look.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from timeplex.kb.facts import Facts
from timeplex.patterns.base import PATTERNS, Evidence, LinkQueries, Pattern
from timeplex.patterns.loglinear import Pools, Weights, fit
from timeplex.patterns.ranking import (
    LINK_PATTERNS,
    best_of,
    blocks,
    feature_names,
    feature_rows,
    forgiven,
    linear_scores,
)
from timeplex.patterns.rules import paths_from
from timeplex.typing import Bools, Features, Floats, Ints, Progress

FOLDS = 5
DRAWN = 4
"""Entities of the role that each fact is compared with, as examples of wrong ones."""
QUESTIONS, POOL = 4000, 100
"""What the weights are learned from: questions, and entities drawn for each."""
PULL, PULL_CORRECTIONS = 1e-5, 1e-3
LIKELIER = 3
MOST_CELLS, MOST_PATHS, MOST_RELATIONS = 10**9, 4 * 10**9, 500
"""Facts × entities, paths of three facts, and relations: more would take too long, or too much memory."""


@dataclass(frozen=True, eq=False)
class Fits:
    """Of the n facts, asked for their object: how well the stated one fits.

    fit      (n,), and of entities drawn from the role (n, DRAWN)
    above    (n,): how many of the `role` (n,) fit better
    likelier (n, at most 3): who fits best, and `share` (n,), the probability of the first of them
    """

    fit: Floats
    drawn: Floats
    above: Ints
    role: Ints
    likelier: Ints
    share: Floats


def too_dear(facts: Facts, entities: int, relations: int) -> bool:
    """Whether so many facts, entities or paths would take too long."""
    if relations > MOST_RELATIONS or len(facts) * entities > MOST_CELLS:
        return True
    x, y = np.concatenate([facts.s, facts.o]), np.concatenate([facts.o, facts.s])
    return float(paths_from(x, y, entities)[x].sum()) > MOST_PATHS


def judge(evidence: Evidence, on_progress: Progress | None = None, seed: int = 0) -> Fits:
    """How well the object of every fact fits."""
    rng = np.random.default_rng(seed)
    fold = rng.permutation(np.arange(len(evidence)) % FOLDS)
    role = _roles(evidence)
    weights: Weights | None = None
    parts: list[tuple[Ints, Fits]] = []
    for each in range(FOLDS):
        rows = np.flatnonzero(fold == each)
        rest = evidence.without(fold == each)
        patterns = [PATTERNS[name](rest) for name in LINK_PATTERNS]
        if weights is None:
            weights = _learn(patterns, evidence, rows, role, rng)
        asked, stated = _asked(evidence, rows, 0)
        parts.append((rows, _fits(patterns, weights, evidence, asked, stated, role, rng)))
        if on_progress:
            on_progress(each + 1, FOLDS)
    return _together(parts)


def _roles(evidence: Evidence) -> Bools:
    """Who is an answer of each directed relation: (2R, entities)."""
    role = np.zeros((2 * evidence.relations, evidence.entities), np.bool_)
    role[evidence.r, evidence.y] = True
    return role


def _asked(evidence: Evidence, rows: Ints, side: int) -> tuple[LinkQueries, Ints]:
    """Questions for the objects (side 0) or subjects (1) of some facts, and what is stated."""
    of = rows + side * len(evidence)
    return LinkQueries(evidence.x[of], evidence.r[of], evidence.begin[of], evidence.end[of]), evidence.y[of]


def _learn(
    patterns: Sequence[Pattern], evidence: Evidence, rows: Ints, role: Bools, rng: np.random.Generator
) -> Weights:
    """The weights that tell stated entities from others of the role, by facts out of sight."""
    start = Weights.zero(2 * evidence.relations, len(feature_names(patterns)))
    parts = []
    for side in (0, 1):
        some = np.sort(rng.permutation(rows)[: QUESTIONS // 2])
        asked, stated = _asked(evidence, some, side)
        counts = _Counting(asked, stated, evidence, role)
        for block in blocks(len(asked)):
            open_to = counts(block)
            open_to[np.arange(len(open_to)), stated[block]] = False
            found = feature_rows(patterns, asked[block])
            parts.append(_pool(found, asked.r[block], stated[block], open_to, rng))
    return fit(Pools.together(parts), start, pull=PULL, pull_corrections=PULL_CORRECTIONS)


def _pool(rows: Features, r: Ints, stated: Ints, open_to: Bools, rng: np.random.Generator) -> Pools:
    """The stated entity, and others drawn from those that are open, which stand for all of them."""
    chosen = best_of(np.where(open_to, rng.random(open_to.shape), -1.0), POOL)
    chosen = np.pad(chosen, ((0, 0), (0, POOL - chosen.shape[1])))
    number = open_to.sum(1, keepdims=True)
    valid = np.arange(POOL)[None] < np.minimum(number, rows.shape[2])
    offset = np.where(valid, np.log(np.maximum(number, 1) / np.clip(number, 1, POOL)), -np.inf)
    pool = np.concatenate([stated[:, None], chosen], 1)
    features = np.take_along_axis(rows, pool[:, None], 2).transpose(0, 2, 1)
    offset = np.concatenate([np.zeros((len(stated), 1)), offset], 1)
    return Pools(np.ascontiguousarray(features), offset.astype(np.float32), r)


class _Counting:
    """Who counts beside the stated answer: all of the role but other known answers of that time, by block."""

    def __init__(self, asked: LinkQueries, stated: Ints, known: Evidence, role: Bools) -> None:
        question, answer, counts = forgiven(asked, stated, known)
        self.question, self.answer = question[counts < 0.5], answer[counts < 0.5]
        self.r, self.role = asked.r, role

    def __call__(self, block: slice) -> Bools:
        counts = self.role[self.r[block]].copy()
        low, high = np.searchsorted(self.question, [block.start, block.stop])
        counts[self.question[low:high] - block.start, self.answer[low:high]] = False
        return counts


def _fits(
    patterns: Sequence[Pattern],
    weights: Weights,
    known: Evidence,
    asked: LinkQueries,
    stated: Ints,
    role: Bools,
    rng: np.random.Generator,
) -> Fits:
    """The fits of stated and drawn entities."""
    counting = _Counting(asked, stated, known, role)
    drawn = _drawn(asked.r, stated, role, rng)
    parts = []
    for block in blocks(len(asked)):
        scores = linear_scores(weights, feature_rows(patterns, asked[block]), asked.r[block])
        parts.append(_compared(scores, counting(block), stated[block], drawn[block]))
    return _joined(parts)


def _drawn(r: Ints, stated: Ints, role: Bools, rng: np.random.Generator) -> Ints:
    """Others of the role, drawn evenly: (n, DRAWN); the stated one itself where there is no other."""
    drawn = np.tile(stated[:, None], DRAWN)
    for relation in np.unique(r):
        at, who = np.flatnonzero(r == relation), np.flatnonzero(role[relation])
        if len(who) > 1:
            place = rng.integers(0, len(who) - 1, (len(at), DRAWN))
            place += place >= np.searchsorted(who, stated[at])[:, None]
            drawn[at] = who[place]
    return drawn


def _compared(scores: Floats, counts: Bools, stated: Ints, drawn: Ints) -> Fits:
    """One block of questions: their scores over all entities, and who counts."""
    some = np.arange(len(scores))
    own = scores[some, stated]
    counts[some, stated] = True
    others = np.where(counts, scores, -np.inf)
    top = others.max(1)
    mass = np.exp(others - top[:, None]).sum(1)
    role = counts.sum(1)
    mean = top + np.log(mass / role)
    likelier = best_of(others, LIKELIER)
    return Fits(
        own - mean,
        np.take_along_axis(scores, drawn, 1) - mean[:, None],
        (others > own[:, None]).sum(1),
        role,
        np.pad(likelier, ((0, 0), (0, LIKELIER - likelier.shape[1])), mode="edge"),
        1 / mass,
    )


def _joined(parts: Sequence[Fits]) -> Fits:
    columns = ("fit", "drawn", "above", "role", "likelier", "share")
    return Fits(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


def _together(parts: Sequence[tuple[Ints, Fits]]) -> Fits:
    """All folds, in the order of the facts."""
    order = np.argsort(np.concatenate([rows for rows, _ in parts]))
    joined = _joined([fits for _, fits in parts])
    columns = ("fit", "drawn", "above", "role", "likelier", "share")
    return Fits(*(getattr(joined, name)[order] for name in columns))
