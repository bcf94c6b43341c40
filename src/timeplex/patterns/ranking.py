"""Who stands in (x, r, ?) at that time: all that patterns see of every entity, weighed by what was right before.

`LinkModel` ranks all entities. Its weights come from questions whose answers are known but out of sight:

1. Train facts are parted in folds; the patterns are fitted on the evidence without a fold, really removed, and its
   facts are the questions (`loglinear.fit`). Weights from facts that are still in the evidence would trust memory.
2. The weights are adjusted on dev facts with a pull to those of step 1, if and as far as one half of dev says that this
   helps the other. Scores of a trained model (`extra`) come in here alone, since that model has seen the train facts.
3. Trees may rank the best hundred again (`trees.grow`), on dev facts too; the others keep their order below.

Of events there are so many that other facts of the folds teach all but what `extra` counts: weights are those of step
1, trees are grown on folds, and dev is left to judge, or to weigh `extra` and to grow trees that see it on top.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from timeplex.kb.facts import TemporalKB
from timeplex.patterns import (  # noqa: F401 they register
    candidate_dates,
    company,
    events,
    nearness,
    popularity,
    recurrence,
    rules,
    types,
    walks,
)
from timeplex.patterns.base import PATTERNS, Evidence, LinkQueries, Pattern
from timeplex.patterns.loglinear import STEPS, Pools, Weights, fit, fit_some, mean_loss
from timeplex.patterns.questions import Asks, Questions, asked_as, best_of, blocks
from timeplex.patterns.trees import Trees, grow
from timeplex.typing import Bools, Features, Floats, Ints, Progress

Extra = Callable[[LinkQueries], NDArray[Any]]
"""Scores of a trained model for all entities: (n, entities)."""
LINK_PATTERNS = ("rules", "walks", "nearness", "recurrence", "popularity", "types", "candidate dates")
EVENT_PATTERNS = ("events", "company")
MOST_COMPANY = 100_000
"""From more events nobody's company is learned: it was not measured what that costs, and brings."""

FOLDS, FOLDS_USED = 8, 4
"""Into so many folds train facts are parted, and so many are asked about at least: all, if all have few questions."""
EVENT_FOLDS, EVENT_FOLDS_USED = 16, 8
"""Of events: what is missing beside a question makes it harder, so that folds should be small."""
MOST_QUESTIONS, MOST_DEV_QUESTIONS = 16_000, 20_000
"""So many questions of the folds, and of dev, are used at most: their pools are held in memory."""
BEST, OTHERS = 100, 60
"""How many entities of a pool score best, and how many stand for the rest."""
SCOUTS, SCOUT_POOL = 1200, 400
"""Questions, and the entities drawn for each, from which it is learned roughly who scores best."""
AGAIN = 100
"""So many are ranked again by trees."""
FOLD_TREE_QUESTIONS, ENOUGH_FOR_FOLDS = 32_000, 20_000
"""Of events: so many more questions of the folds are for trees at most; and so many facts are enough for that."""
FOLD_ROUNDS = 300
"""So many trees they are enough for."""
STEPS_WITHOUT = 30
"""Steps in which the weights get used to it that a group of features is missing."""
STEPS_OF_WALKS = {"walks": 16, "nearness": 40}
"""So many steps of walks go along every fact at most."""
MOST_STEPS = 40_000_000_000
"""All questions together take about so many steps at most, see `affordable`."""

PULL, PULL_CORRECTIONS, PULL_CORRECTIONS_EVENTS = 1e-5, 1e-4, 1e-2
DEV_PULL, DEV_PULL_CORRECTIONS, DEV_PULL_EXTRA = 1e-3, 1e-2, 1e-4

ENOUGH_DEV = 4_000
"""With fewer questions of dev the pull is as much stronger: few say little, and are soon known by heart."""

STRONGER = (1.0, 4.0, 16.0, 256.0)
"""By how much the pull may be stronger, but for that of `EXTRA`, of which the folds say nothing: what suits either half
of dev best, with weights adjusted on the other one."""

EXTRA, TREES = "embeddings", "trees"
"""What the scores of a trained model, and trees, are called among the parts of a score."""


@dataclass(frozen=True, eq=False)
class LinkModel:
    """Patterns, what each of their features counts, and trees if there are any; `scores` ranks all entities."""

    patterns: Sequence[Pattern]
    weights: Weights
    asks: Asks = "span"
    extra: Extra | None = None
    trees: Trees | None = None

    @classmethod
    def fit(
        cls,
        kb: TemporalKB,
        evidence: Evidence | None = None,
        *,
        patterns: Sequence[str] | None = None,
        extra: Extra | None = None,
        trees: bool = True,
        asks: Asks = "span",
        seed: int = 0,
        on_progress: Progress | None = None,
    ) -> "LinkModel":
        """A model of a KB: patterns of its evidence (train), weights from folds of it and from dev."""
        course = Course(kb, evidence, patterns=patterns, extra=extra, asks=asks, seed=seed, on_progress=on_progress)
        return course.model(trees=trees)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features, in the order of the weights."""
        return feature_names(self.patterns) + ((EXTRA,) if self.extra is not None else ())

    @property
    def evidence(self) -> Evidence:
        """What the patterns were fitted on."""
        return self.patterns[0].evidence

    def rows(self, queries: LinkQueries) -> Features:
        """All features of all entities: (n, features, entities)."""
        return feature_rows(self.patterns, asked_as(queries, self.asks), self.extra)

    def scores(self, queries: LinkQueries) -> Floats:
        """The score of every entity, logarithmic up to a constant of the question: (n, entities)."""
        found = np.empty((len(queries), self.evidence.entities))
        for block in blocks(len(queries)):
            found[block] = self.scored(self.rows(queries[block]), queries.r[block])
        return found

    def scored(self, rows: Features, r: Ints) -> Floats:
        """The same from `rows`, of questions of the directed relations r."""
        linear = linear_scores(self.weights, rows, r)
        return linear + self._again(rows, linear, r)

    def parts(self, queries: LinkQueries, candidates: Ints) -> dict[str, Floats]:
        """What each feature adds to the score of a candidate for each question, (n,) each; their sum is the score."""
        rows = self.rows(queries)
        place = np.arange(len(queries))
        added = rows[place, :, candidates] * self.weights.of(queries.r)
        parts = dict(zip(self.features, added.T, strict=True))
        if self.trees is not None:
            again = self._again(rows, linear_scores(self.weights, rows, queries.r), queries.r)
            parts[TREES] = again[place, candidates]
        return parts

    def with_more(self, trees: Trees) -> "LinkModel":
        """The same with these trees beside those that it has."""
        return replace(self, trees=trees if self.trees is None else self.trees.and_more(trees))

    def best(self, linear: Floats) -> Ints:
        """Whom trees rank again, the best of those who have a fact at all: (n, at most 100)."""
        return best_of(np.where(self._seen, linear, -np.inf), min(AGAIN, int(self._seen.sum())))

    @cached_property
    def _seen(self) -> Bools:
        return self.evidence.facts.mentioned(self.evidence.entities)

    def tree_features(self, rows: Features, linear: Floats, r: Ints, best: Ints) -> Features:
        """What trees see of the best: all features and the linear score less the highest: (n, best, features + 1).

        Without the extra scores in it, which not all trees have seen.
        """
        if self.extra is not None:
            linear = linear - self.weights.of(r)[:, -1:] * rows[:, -1]
        picked = np.take_along_axis(rows, best[:, None], 2)
        relative = (np.take_along_axis(linear, best, 1) - linear.max(1, keepdims=True)).astype(np.float32)
        return np.concatenate([picked, relative[:, None]], axis=1).transpose(0, 2, 1)

    def _again(self, rows: Features, linear: Floats, r: Ints) -> Floats:
        """What trees add: their sum for the best; for the others, as much as keeps them below: (n, entities)."""
        if self.trees is None:
            return np.zeros_like(linear)
        n, entities = linear.shape
        if not self._seen.any():
            return np.zeros_like(linear)
        best, some = self.best(linear), np.arange(n)[:, None]
        added = self.trees(self.tree_features(rows, linear, r, best))
        lowest = (linear[some, best] + added).min(1)
        rest = linear.copy()
        rest[some, best] = -np.inf
        again = np.zeros_like(linear)
        if entities > best.shape[1]:
            again += np.minimum(lowest - rest.max(1) - 1e-6, 0)[:, None]
        again[some, best] = added
        return again

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """All that was learned: arrays, and names (for JSON)."""
        arrays = {"shared": self.weights.shared, "corrections": self.weights.corrections}
        trees = {} if self.trees is None else {f"trees.{name}": each for name, each in self.trees.arrays().items()}
        names = {"patterns": [each.name for each in self.patterns], "features": list(self.features), "asks": self.asks}
        return arrays | trees, names

    @classmethod
    def from_state(
        cls,
        arrays: dict[str, NDArray[Any]],
        names: dict[str, Any],
        evidence: Evidence,
        extra: Extra | None = None,
    ) -> "LinkModel":
        """The model of a `state`, with patterns fitted on this evidence."""
        parts = {name.removeprefix("trees."): each for name, each in arrays.items() if name.startswith("trees.")}
        patterns = [PATTERNS[name](evidence) for name in names["patterns"]]
        weights = Weights(arrays["shared"], arrays["corrections"])
        return cls(patterns, weights, names["asks"], extra, Trees(**parts) if parts else None)


class Course:
    """What a model learns from: questions of folds and of dev, with pools. `model` learns from all of dev or a part.

    `keep`: the pools of the folds stay in memory, so that models can be learned without a group of features, too.
    """

    def __init__(
        self,
        kb: TemporalKB,
        evidence: Evidence | None = None,
        *,
        patterns: Sequence[str] | None = None,
        extra: Extra | None = None,
        asks: Asks = "span",
        seed: int = 0,
        on_progress: Progress | None = None,
        keep: bool = False,
    ) -> None:
        self.evidence = Evidence.of(kb) if evidence is None else evidence
        patterns = link_patterns(self.evidence) if patterns is None else tuple(patterns)
        self.names, self.extra, self.asks, self.seed = patterns, extra, asks, seed
        self.report = on_progress or (lambda done, total: None)
        self.patterns = [PATTERNS[name](self.evidence) for name in patterns]
        known = replace(self.evidence, facts=self.evidence.facts + kb.valid)
        self.affordable = affordable(self.patterns)
        self.by_folds = "events" in patterns and len(self.evidence) >= ENOUGH_FOR_FOLDS
        self._of_folds: list[tuple[Evidence, Questions]] = []
        """Whether train teaches all but what the extra scores count; and what trees are grown on then."""
        most, chance = min(MOST_DEV_QUESTIONS, self.affordable), np.random.default_rng(seed)
        self.dev = Questions.of(kb.valid, known, self.evidence, asks, most, chance, in_order=True)
        pools, self.before = self._learn_from_folds()
        self._fold_pools = pools if keep else None
        self._first_trees: Trees | None = None
        self._starts = {"": _with_extra(self.before) if extra is not None else self.before}
        self.start = self._starts[""]
        asked = len(self.dev) > 0 and not (self.by_folds and extra is None)
        self.dev_pools = self._pools(self.patterns, self.dev, self.start, extra) if asked else None

    def _learn_from_folds(self) -> tuple[Pools, Weights]:
        """Train facts that are out of sight, and the weights by them."""
        rng = np.random.default_rng(self.seed)
        asked = min(MOST_QUESTIONS, self.affordable)
        folds, used = EVENT_FOLDS, EVENT_FOLDS_USED
        if not self.by_folds:
            folds, used = FOLDS, int(np.clip(asked * FOLDS // max(2 * len(self.evidence), 1), FOLDS_USED, FOLDS))
        fold = rng.integers(folds, size=len(self.evidence))
        none = Weights.zero(2 * self.evidence.relations, len(feature_names(self.patterns)))
        weights, pools = none, []
        for each in range(used):
            evidence = self.evidence.without(fold == each)
            most, facts = asked // used, self.evidence.facts[fold == each]
            more = min(FOLD_TREE_QUESTIONS, self.affordable) // used if self.by_folds else 0
            questions = Questions.of(facts, self.evidence, evidence, self.asks, most + more, rng)
            patterns = [PATTERNS[name](evidence) for name in self.names]
            if more:
                self._of_folds.append((evidence, questions[most:]))
                questions = questions[:most]
            if each == 0:
                few = self._pools(patterns, questions[:SCOUTS], None, others=SCOUT_POOL)
                weights = fit(few, none, pull=PULL, pull_corrections=PULL_CORRECTIONS, iterations=50)
            pools.append(self._pools(patterns, questions, weights))
            self.report(each + 1, used + 2)
        together = Pools.together(pools)
        # The stronger pull is not towards the little that the scouts know of each relation.
        start = none if self.by_folds else weights
        return together, fit(together, start, pull=PULL, pull_corrections=self._pull_corrections)

    @property
    def _pull_corrections(self) -> float:
        return PULL_CORRECTIONS_EVENTS if self.by_folds else PULL_CORRECTIONS

    def _pools(
        self,
        patterns: Sequence[Pattern],
        questions: Questions,
        weights: Weights | None,
        extra: Extra | None = None,
        best: int = BEST,
        others: int = OTHERS,
    ) -> Pools:
        rng = np.random.default_rng(self.seed + 1)
        found = []
        for block in blocks(len(questions)):
            some = questions[block]
            rows = feature_rows(patterns, some.queries, extra)
            score = None if weights is None else linear_scores(weights, rows, some.queries.r)
            found.append(some.pools(rows, score, best, others, rng))
        size = 1 + others + (0 if weights is None else best)
        width = len(feature_names(patterns)) + (extra is not None)
        return Pools.together([Pools.none(size, width), *found])

    @property
    def groups(self) -> tuple[str, ...]:
        """What each feature belongs to: its pattern, a group that the pattern names, or `EXTRA`."""
        of = [each.candidate_groups or (each.name,) * len(each.candidate_features) for each in self.patterns]
        return tuple(name for names in of for name in names) + ((EXTRA,) if self.extra is not None else ())

    def model(self, rows: Bools | None = None, *, trees: bool = True) -> LinkModel:
        """The model by all dev facts, or by those of a mask: (dev facts,)."""
        return self.models([rows], trees=trees)[0]

    def models(self, parts: Sequence[Bools | None], *, trees: bool = True) -> list[LinkModel]:
        """A model by each part of the dev facts, whose features are looked at once for the trees of all models."""
        models = [self.linear(rows) for rows in parts]
        if not trees:
            return models
        if self.by_folds:
            first = self._first_trees = self._first_trees or self._grow_from_folds()
            models = [replace(model, trees=first) for model in models]
        if not len(self.dev) or (self.by_folds and self.extra is None):
            return models
        grown = self._grow(models, [self._mask(rows) for rows in parts])
        return [model.with_more(each) for model, each in zip(models, grown, strict=True)]

    def linear(self, rows: Bools | None = None, without: str = "") -> LinkModel:
        """The model by dev facts, or those of a mask, without trees; and without the features of a group."""
        kept = np.array([group != without for group in self.groups], np.bool_)
        weights = self._start(without)
        if self.dev_pools is not None:
            pools = self.dev_pools[self._mask(rows)].only(kept)
            few = max(1.0, ENOUGH_DEV / max(len(pools), 1))
            pull, corrections = np.full(len(kept), few * DEV_PULL), few * DEV_PULL_CORRECTIONS
            if self.extra is not None:
                pull[-1] = few * DEV_PULL_EXTRA
            steps = STEPS if kept.all() else STEPS_WITHOUT
            start = weights.only(kept)
            if self.by_folds:  # all but the scores of a model is as the folds say
                free = np.ones(len(pull[kept]), np.bool_)
                free[: free.sum() - int(kept[-1])] = False
                own = pull[kept][free]
                some = fit_some(pools, start, free, pull=own, pull_corrections=corrections, iterations=steps)
            else:
                half = self.dev.fact[self._mask(rows)] % 2 == 0
                known = np.array([group != EXTRA for group in self.groups])[kept]
                some = _adjusted(pools, start, pull[kept], corrections, known, steps, half)
            weights = some.among(kept)
        return LinkModel(self.patterns, weights, self.asks, self.extra)

    def _mask(self, rows: Bools | None) -> Bools:
        """Which questions of dev are made of these facts."""
        return np.ones(len(self.dev), np.bool_) if rows is None else np.asarray(rows[self.dev.fact])

    def _start(self, without: str) -> Weights:
        """The weights by the folds alone; if a group is named, learned without its features."""
        if without not in self._starts:
            weights = self.before
            of_folds = np.array([group != without for group in self.groups if group != EXTRA], np.bool_)
            if self._fold_pools is not None and not of_folds.all():
                pools, before = self._fold_pools.only(of_folds), weights.only(of_folds)
                pulls = {"pull": PULL, "pull_corrections": self._pull_corrections}
                some = fit(pools, before, **pulls, iterations=STEPS_WITHOUT)
                weights = some.among(of_folds)
            self._starts[without] = _with_extra(weights) if self.extra is not None else weights
        return self._starts[without]

    def _grow(self, models: Sequence[LinkModel], asked: Sequence[Bools]) -> list[Trees]:
        """Trees by dev, by the questions in a mask for each model; they add to those that it has."""
        shown = [Shown() for _ in models]
        for block in blocks(len(self.dev)):
            some = self.dev[block]
            rows = feature_rows(self.patterns, some.queries, self.extra)
            for model, mask, each in zip(models, asked, shown, strict=True):
                each.add(model, rows, some, mask[block])
        trees = []
        while shown:  # what one model has learned from is let go before the next
            trees.append(grow(*shown.pop(0).together(), self.seed))
        return trees

    def _grow_from_folds(self) -> Trees:
        """Trees by questions of the folds that weights were not learned from; the extra scores have nothing to say."""
        extra = None if self.extra is None else _nothing(self.evidence.entities)
        shown = Shown()
        for evidence, questions in self._of_folds:
            patterns = [PATTERNS[name](evidence) for name in self.names]
            model = LinkModel(patterns, self.start, self.asks, extra)
            for block in blocks(len(questions)):
                some = questions[block]
                rows = feature_rows(patterns, some.queries, extra)
                shown.add(model, rows, some, np.ones(len(some), np.bool_))
        return grow(*shown.together(), self.seed, FOLD_ROUNDS)


class Shown:
    """What trees are grown on: the best of each question that has the right answer among them."""

    def __init__(self) -> None:
        self._parts: list[tuple[Features, Floats, Ints]] = []

    def add(self, model: LinkModel, rows: Features, questions: Questions, mask: Bools) -> None:
        """The questions in a mask, (n,), with the features of all entities, as a model ranks them."""
        r = questions.queries.r
        linear = linear_scores(model.weights, rows, r)
        best = model.best(linear)
        hit, place = np.nonzero((best == questions.gold[:, None]) & mask[:, None])
        features = model.tree_features(rows, linear, r, best)[hit]
        start = np.take_along_axis(linear + questions.offsets(linear.shape[1]), best, 1)[hit]
        start = start if model.trees is None else start + model.trees(features)
        self._parts.append((features, start, place))

    def together(self) -> tuple[Features, Floats, Ints]:
        """As `grow` takes it; nothing is left here, for they are large."""
        parts, self._parts = self._parts, []
        start, place = np.concatenate([part[1] for part in parts]), np.concatenate([part[2] for part in parts])
        features = np.empty((len(place), *parts[0][0].shape[1:]), np.float32)
        last = len(place)
        while parts:
            part = parts.pop()[0]
            features[last - len(part) : last] = part
            last -= len(part)
        return features, start, place


def link_patterns(evidence: Evidence) -> tuple[str, ...]:
    """The patterns that rank entities best, by name: other ones if the KB tells of events than if its facts last.

    Those that are registered from outside of timeplex come last.
    """
    few = len(evidence) <= MOST_COMPANY
    of_events = tuple(name for name in EVENT_PATTERNS if few or name != "company")
    chosen = of_events if events.has_events(evidence.facts) else LINK_PATTERNS
    kinds = PATTERNS.items()
    return chosen + tuple(
        name for name, kind in kinds if kind.candidate_features and not kind.__module__.startswith("timeplex.")
    )


def affordable(patterns: Sequence[Pattern]) -> int:
    """How many questions can be asked in `MOST_STEPS`: each fills a table of entities, walks go along all facts."""
    evidence = patterns[0].evidence
    steps = evidence.entities * len(feature_names(patterns))
    steps += 2 * len(evidence) * sum(STEPS_OF_WALKS.get(pattern.name, 0) for pattern in patterns)
    return max(MOST_STEPS // max(steps, 1), FOLDS_USED)


def feature_names(patterns: Sequence[Pattern]) -> tuple[str, ...]:
    """The names of all features of candidates."""
    return tuple(name for pattern in patterns for name in pattern.candidate_features)


def feature_rows(patterns: Sequence[Pattern], queries: LinkQueries, extra: Extra | None = None) -> Features:
    """All features of all entities, the extra one last: (n, features, entities)."""
    width = len(feature_names(patterns))
    rows = np.empty((len(queries), width + (extra is not None), patterns[0].evidence.entities), np.float32)
    place = 0
    for pattern in patterns:
        rows[:, place : place + len(pattern.candidate_features)] = pattern.candidates(queries)
        place += len(pattern.candidate_features)
    if extra is not None:
        rows[:, width] = extra(queries)
    return rows


def linear_scores(weights: Weights, rows: Features, r: Ints) -> Floats:
    """Σ_k (w_k + v_{r,k}) f_k of all entities: (n, entities)."""
    found: Floats = np.matmul(weights.of(r)[:, None].astype(np.float32), rows)[:, 0].astype(np.float64)
    return found


def _nothing(entities: int) -> Extra:
    """Extra scores that say nothing."""
    return lambda queries: np.zeros((len(queries), entities), np.float32)


def _adjusted(
    pools: Pools, start: Weights, pull: Floats, corrections: float, known: Bools, iterations: int, half: Bools
) -> Weights:
    """Weights drawn towards those of dev: as far as helps its other half, (n,), and not at all if nothing does.

    known, (features,): which of them the folds have weighed.
    """

    def fitted(some: Pools, stronger: float) -> Weights:
        each = np.where(known, stronger * pull, pull)
        return fit(some, start, pull=each, pull_corrections=stronger * corrections, iterations=iterations)

    stronger = _best_pull(pools, start, fitted, half)
    return fitted(pools, stronger) if stronger else start


def _best_pull(pools: Pools, start: Weights, fitted: Callable[[Pools, float], Weights], half: Bools) -> float:
    """The one of `STRONGER` with which each half of dev helps the other most; 0 if none does."""
    best, least = 0.0, sum(mean_loss(pools[part], start) * part.sum() for part in (half, ~half))
    for stronger in STRONGER:
        lost = sum(mean_loss(pools[part], fitted(pools[~part], stronger)) * part.sum() for part in (half, ~half))
        if lost < least:
            best, least = stronger, lost
    return best


def _with_extra(weights: Weights) -> Weights:
    """Room for one more feature, which counts nothing yet."""
    return Weights(np.append(weights.shared, 0), np.pad(weights.corrections, ((0, 0), (0, 1))))
