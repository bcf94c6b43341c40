"""Who stands in (x, r, ?) at that time: all that patterns see of every entity, weighed by what was right before.

`LinkModel` ranks all entities. Its weights come from questions whose answers are known but out of sight:

1. Train facts are parted in folds; the patterns are fitted on the evidence without a fold, really removed, and its
   facts are the questions (`loglinear.fit`). Weights from facts that are still in the evidence would trust memory.
2. The weights are adjusted on dev facts with a pull to those of step 1, if and as far as one half of dev says that this
   helps the other. Scores of a trained model (`extra`) come in here alone, since that model has seen the train facts.
3. Trees may rank the best hundred again (`trees.grow`), on dev facts too; the others keep their order below.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from timeplex.kb import spans
from timeplex.kb.facts import Facts, Index, TemporalKB, pair_key, split_key
from timeplex.patterns import (  # noqa: F401 they register
    candidate_dates,
    events,
    nearness,
    popularity,
    recurrence,
    rules,
    types,
    walks,
)
from timeplex.patterns.base import PATTERNS, Evidence, LinkQueries, Pattern
from timeplex.patterns.loglinear import STEPS, Pools, Weights, fit, mean_loss
from timeplex.patterns.trees import Trees, grow
from timeplex.typing import Bools, Features, Floats, Ints, Progress

Extra = Callable[[LinkQueries], NDArray[Any]]
"""Scores of a trained model for all entities: (n, entities)."""
Asks = Literal["span", "begin"]
"""Whether questions tell their whole span, or only when it begins (as `published-code` does)."""

LINK_PATTERNS = ("rules", "walks", "nearness", "recurrence", "popularity", "types", "candidate dates")
EVENT_PATTERNS = ("events",)

FOLDS, FOLDS_USED = 8, 4
"""Into so many folds train facts are parted, and so many are asked about at least: all, if all have few questions."""
MOST_QUESTIONS, MOST_DEV_QUESTIONS = 16_000, 20_000
"""So many questions of the folds, and of dev, are used at most: their pools are held in memory."""
BEST, OTHERS = 100, 60
"""How many entities of a pool score best, and how many stand for the rest."""
SCOUTS, SCOUT_POOL = 1200, 400
"""Questions, and the entities drawn for each, from which it is learned roughly who scores best."""
AGAIN = 100
"""So many are ranked again by trees."""
STEPS_WITHOUT = 30
"""Steps in which the weights get used to it that a group of features is missing."""
STEPS_OF_WALKS = {"walks": 16, "nearness": 40}
"""So many steps of walks go along every fact at most."""
BLOCK = 32
"""Questions that are asked at once: a table of features of all entities is large."""

FORGIVEN = 1024
"""Questions whose known answers are looked up at once."""
MOST_ANSWERS = 20_000_000
"""The known answers of all questions together: there are no more questions than have so many."""
MOST_STEPS = 40_000_000_000
"""All questions together take about so many steps at most, see `affordable`."""

PULL, PULL_CORRECTIONS = 1e-5, 1e-4
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
        return feature_rows(self.patterns, _asked(queries, self.asks), self.extra)

    def scores(self, queries: LinkQueries) -> Floats:
        """The score of every entity, logarithmic up to a constant of the question: (n, entities)."""
        found = np.empty((len(queries), self.evidence.entities))
        for block in blocks(len(queries)):
            found[block] = self.scored(self.rows(queries[block]), queries.r[block])
        return found

    def scored(self, rows: Features, r: Ints) -> Floats:
        """The same from `rows`, of questions of the directed relations r."""
        linear = linear_scores(self.weights, rows, r)
        return linear + self._again(rows, linear)

    def parts(self, queries: LinkQueries, candidates: Ints) -> dict[str, Floats]:
        """What each feature adds to the score of a candidate for each question, (n,) each; their sum is the score."""
        rows = self.rows(queries)
        place = np.arange(len(queries))
        added = rows[place, :, candidates] * self.weights.of(queries.r)
        parts = dict(zip(self.features, added.T, strict=True))
        if self.trees is not None:
            parts[TREES] = self._again(rows, linear_scores(self.weights, rows, queries.r))[place, candidates]
        return parts

    def best(self, linear: Floats) -> Ints:
        """Whom trees rank again, the best of those who have a fact at all: (n, at most 100)."""
        return best_of(np.where(self._seen, linear, -np.inf), min(AGAIN, int(self._seen.sum())))

    @cached_property
    def _seen(self) -> Bools:
        return self.evidence.facts.mentioned(self.evidence.entities)

    def _again(self, rows: Features, linear: Floats) -> Floats:
        """What trees add: their sum for the best; for the others, as much as keeps them below: (n, entities)."""
        if self.trees is None:
            return np.zeros_like(linear)
        n, entities = linear.shape
        if not self._seen.any():
            return np.zeros_like(linear)
        best, some = self.best(linear), np.arange(n)[:, None]
        added = self.trees(tree_features(rows, linear, best))
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
        most, chance = min(MOST_DEV_QUESTIONS, self.affordable), np.random.default_rng(seed)
        self.dev = Questions.of(kb.valid, known, self.evidence, asks, most, chance, in_order=True)
        pools, self.before = self._learn_from_folds()
        self._fold_pools = pools if keep else None
        self._starts = {"": _with_extra(self.before) if extra is not None else self.before}
        self.start = self._starts[""]
        self.dev_pools = self._pools(self.patterns, self.dev, self.start, extra) if len(self.dev) else None

    def _learn_from_folds(self) -> tuple[Pools, Weights]:
        """Train facts that are out of sight, and the weights by them."""
        rng = np.random.default_rng(self.seed)
        fold = rng.integers(FOLDS, size=len(self.evidence))
        none = Weights.zero(2 * self.evidence.relations, len(feature_names(self.patterns)))
        weights, pools = none, []
        asked = min(MOST_QUESTIONS, self.affordable)
        folds = int(np.clip(asked * FOLDS // max(2 * len(self.evidence), 1), FOLDS_USED, FOLDS))
        for each in range(folds):
            evidence = self.evidence.without(fold == each)
            most, facts = asked // folds, self.evidence.facts[fold == each]
            questions = Questions.of(facts, self.evidence, evidence, self.asks, most, rng)
            patterns = [PATTERNS[name](evidence) for name in self.names]
            if each == 0:
                few = self._pools(patterns, questions[:SCOUTS], None, others=SCOUT_POOL)
                weights = fit(few, none, pull=PULL, pull_corrections=PULL_CORRECTIONS, iterations=50)
            pools.append(self._pools(patterns, questions, weights))
            self.report(each + 1, folds + 2)
        together = Pools.together(pools)
        return together, fit(together, weights, pull=PULL, pull_corrections=PULL_CORRECTIONS)

    def _pools(
        self,
        patterns: Sequence[Pattern],
        questions: "Questions",
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
        if not trees or not len(self.dev):
            return models
        grown = self._grow(models, [self._mask(rows) for rows in parts])
        return [replace(model, trees=each) for model, each in zip(models, grown, strict=True)]

    def linear(self, rows: Bools | None = None, without: str = "") -> LinkModel:
        """The model by dev facts, or those of a mask, without trees; and without the features of a group."""
        kept = np.array([group != without for group in self.groups], np.bool_)
        weights = self._start(without)
        if self.dev_pools is not None:
            pools = self.dev_pools[self._mask(rows)].only(kept)
            few = max(1.0, ENOUGH_DEV / max(len(pools), 1))
            pull = np.full(len(kept), few * DEV_PULL)
            if self.extra is not None:
                pull[-1] = few * DEV_PULL_EXTRA
            corrections = few * DEV_PULL_CORRECTIONS
            steps = STEPS if kept.all() else STEPS_WITHOUT
            half = self.dev.fact[self._mask(rows)] % 2 == 0
            known = np.array([group != EXTRA for group in self.groups])[kept]
            weights = _adjusted(pools, weights.only(kept), pull[kept], corrections, known, steps, half).among(kept)
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
                some = fit(pools, before, pull=PULL, pull_corrections=PULL_CORRECTIONS, iterations=STEPS_WITHOUT)
                weights = some.among(of_folds)
            self._starts[without] = _with_extra(weights) if self.extra is not None else weights
        return self._starts[without]

    def _grow(self, models: Sequence[LinkModel], asked: Sequence[Bools]) -> list[Trees]:
        found: list[tuple[list[Features], list[Floats], list[Ints]]] = [([], [], []) for _ in models]
        for block in blocks(len(self.dev)):
            some = self.dev[block]
            rows = feature_rows(self.patterns, some.queries, self.extra)
            offset = some.offsets(self.evidence.entities)
            for model, mask, (features, start, right) in zip(models, asked, found, strict=True):
                linear = linear_scores(model.weights, rows, some.queries.r)
                best = model.best(linear)
                hit, place = np.nonzero((best == some.gold[:, None]) & mask[block, None])
                features.append(tree_features(rows, linear, best)[hit])
                start.append(np.take_along_axis(linear + offset, best, 1)[hit])
                right.append(place)
        trees = []
        while found:  # what one model has learned from is let go before the next
            told, begun, places = found.pop(0)
            trees.append(grow(np.concatenate(told), np.concatenate(begun), np.concatenate(places), self.seed))
        return trees


@dataclass(frozen=True, eq=False)
class Questions:
    """Questions with right answers; `fact` is the number of the fact that each was made of.

    Of the other known answers, `answer` of question `question` counts only with the share `counts` of its time at which
    it is not known to hold. `seen`, (entities,), says who has a fact in the evidence: others are no candidates.
    """

    queries: LinkQueries
    gold: Ints
    fact: Ints
    question: Ints
    answer: Ints
    counts: Floats
    seen: Bools

    @classmethod
    def of(
        cls,
        facts: Facts,
        known: Evidence,
        evidence: Evidence,
        asks: Asks,
        most: int,
        chance: np.random.Generator,
        *,
        in_order: bool = False,
    ) -> "Questions":
        """Both directions of facts, asked of the evidence, at most so many by chance; right answers are seen in it."""
        pair = [LinkQueries.of(facts, direction, evidence.relations) for direction in ("object", "subject")]
        columns = (np.concatenate(each) for each in zip(*((q.x, q.r, q.begin, q.end) for q in pair), strict=True))
        queries = LinkQueries(*columns)
        gold = np.concatenate([facts.o, facts.s]).astype(np.int64)
        fact = np.tile(np.arange(len(facts)), 2)
        seen = evidence.facts.mentioned(evidence.entities)
        rows = np.flatnonzero(seen[gold])
        rows = rows[chance.permutation(len(rows))[:most]]
        start, stop = Index(pair_key(known.x, known.r)).ranges(pair_key(queries.x[rows], queries.r[rows]))
        rows = rows[np.cumsum(stop - start) <= MOST_ANSWERS]
        rows = np.sort(rows) if in_order else rows
        queries, gold = queries[rows], gold[rows]
        return cls(_asked(queries, asks), gold, fact[rows], *forgiven(queries, gold, known), seen)

    def __len__(self) -> int:
        return len(self.queries)

    def __getitem__(self, rows: Any) -> "Questions":
        rows = np.arange(len(self))[rows]
        place = np.full(len(self), -1)
        place[rows] = np.arange(len(rows))
        keep = place[self.question] >= 0
        others = (place[self.question[keep]], self.answer[keep], self.counts[keep])
        return Questions(self.queries[rows], self.gold[rows], self.fact[rows], *others, self.seen)

    def offsets(self, entities: int) -> Floats:
        """The logarithm of how much each entity counts beside the right answer: (n, entities)."""
        counts = np.tile(self.seen.astype(np.float64), (len(self), 1))
        counts[self.question, self.answer] *= self.counts
        with np.errstate(divide="ignore"):
            return np.log(counts)

    def pools(self, rows: Features, score: Floats | None, best: int, others: int, rng: np.random.Generator) -> Pools:
        """Pools from the features of all entities: the right answer, the best by score, others from the rest."""
        entities, some = rows.shape[2], np.arange(len(self))[:, None]
        offset = self.offsets(entities)
        offset[some, self.gold[:, None]] = -np.inf  # it has a place of its own
        pool, counts = [self.gold[:, None]], [np.zeros((len(self), 1))]
        for number, order in ((best, score), (others, rng.random(offset.shape))):
            if order is None:
                continue
            left = (offset > -np.inf).sum(1, keepdims=True)
            chosen = best_of(np.where(offset > -np.inf, order, -np.inf), number)
            count = np.take_along_axis(offset, chosen, 1)
            if order is not score:  # these stand for all that are left
                count += np.log(np.maximum(left, 1) / np.maximum((count > -np.inf).sum(1, keepdims=True), 1))
            offset[some, chosen] = -np.inf
            pool.append(np.pad(chosen, ((0, 0), (0, number - chosen.shape[1]))))
            counts.append(np.pad(count, ((0, 0), (0, number - count.shape[1])), constant_values=-np.inf))
        features = np.take_along_axis(rows, np.concatenate(pool, 1)[:, None], 2).transpose(0, 2, 1)
        return Pools(np.ascontiguousarray(features), np.concatenate(counts, 1).astype(np.float32), self.queries.r)


def forgiven(queries: LinkQueries, gold: Ints, known: Evidence) -> tuple[Ints, Ints, Floats]:
    """Other known answers: (question, answer, 1 − share of the question's time at which it is known to hold)."""
    index = Index(pair_key(known.x, known.r))
    # An entity may have very many facts of a relation, at whatever time: some questions at a time.
    parts = [_forgiven(queries[some], gold[some], known, index) for some in blocks(len(queries), FORGIVEN)]
    question = [part[0] + start for start, part in zip(range(0, len(queries), FORGIVEN), parts, strict=True)]
    none = np.empty(0, np.int64)
    return (
        np.concatenate([none, *question]),
        np.concatenate([none, *(part[1] for part in parts)]),
        np.concatenate([np.empty(0), *(part[2] for part in parts)]),
    )


def _forgiven(queries: LinkQueries, gold: Ints, known: Evidence, index: Index) -> tuple[Ints, Ints, Floats]:
    question, row = index.matches(pair_key(queries.x, queries.r))
    keep = known.y[row] != gold[question]
    question, row = question[keep], row[keep]
    span = spans.close((queries.begin, queries.end), known.first, known.last)
    begin, end = spans.close((known.begin[row], known.end[row]), known.first, known.last)
    shared = spans.intersection((begin, end), (span[0][question], span[1][question]))
    first, last, group = spans.union(shared, pair_key(question, known.y[row]))
    distinct, where = np.unique(group, return_inverse=True)
    question, answer = split_key(distinct)
    instants = np.bincount(where, weights=last - first + 1, minlength=len(distinct))
    length = np.maximum(span[1] - span[0] + 1, 1)[question]
    return question, answer, np.clip(1 - instants / length, 0, 1)


def link_patterns(evidence: Evidence) -> tuple[str, ...]:
    """The patterns that rank entities best, by name: other ones if the KB tells of events than if its facts last.

    Those that are registered from outside of timeplex come last.
    """
    chosen = EVENT_PATTERNS if events.has_events(evidence.facts) else LINK_PATTERNS
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


def tree_features(rows: Features, linear: Floats, best: Ints) -> Features:
    """What trees see of the best: all features and the linear score less the highest: (n, best, features + 1)."""
    picked = np.take_along_axis(rows, best[:, None], 2)
    score = np.take_along_axis(linear, best, 1)
    relative = (score - linear.max(1, keepdims=True)).astype(np.float32)
    return np.concatenate([picked, relative[:, None]], axis=1).transpose(0, 2, 1)


def best_of(scores: Floats, number: int) -> Ints:
    """The entities with the highest scores, highest first: (n, number)."""
    number = min(number, scores.shape[1])
    best = np.argpartition(-scores, number - 1, axis=1)[:, :number] if number else np.empty((len(scores), 0), np.int64)
    order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1, kind="stable")
    return np.take_along_axis(best, order, 1)


def blocks(n: int, size: int = BLOCK) -> list[slice]:
    """Parts of so many questions that their tables fit in memory."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _asked(queries: LinkQueries, asks: Asks) -> LinkQueries:
    if asks == "span":
        return queries
    return replace(queries, end=np.full(len(queries), spans.OPEN_END))


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
