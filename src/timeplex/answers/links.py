"""Who answers: patterns, and the scores of a run as one more feature, with probabilities that come true."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from timeplex.answers.calibration import WhoCases, at_an_instant, fit_rank_map, group, some_rows, who_cases
from timeplex.answers.calibration_maps import CalibrationMap
from timeplex.answers.dates import LEAST_CASES, Dates, with_dev
from timeplex.answers.kept import Keeper, Numbers
from timeplex.answers.rank import Coexistence, EntityQueries, Ranked, Ranker
from timeplex.kb import spans
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.patterns.base import PATTERNS, Evidence, LinkQueries
from timeplex.patterns.dating import DateModel, Fitted
from timeplex.patterns.likely_spans import LikelySpans
from timeplex.patterns.loglinear import Weights
from timeplex.patterns.ranking import EXTRA, TREES, Course, Extra, LinkModel, feature_names, link_patterns
from timeplex.typing import Floats, Ints, Progress

LARGE = 1e300
MOST_AT_A_TIME = 600
"""By so many dev facts it is calibrated what is said of a time: a question takes as long as three."""


class PatternRanker(Ranker):
    """Patterns as something that names candidates.

    Who stood there *at* a time is asked for each span that such a fact may have had:

        Pr(c | x, r, T) = Σ over the likeliest spans of Pr(span | x, r, T) Pr(c | x, r, span)
    """

    def __init__(self, model: LinkModel, known: Facts, likely: LikelySpans | None = None) -> None:
        """Without `likely` all questions are taken for those of facts with just that span."""
        evidence = model.evidence
        super().__init__(known, evidence.facts, evidence.entities, torch.device("cpu"))
        self.model, self.likely = model, likely

    def scores(self, questions: EntityQueries) -> torch.Tensor:
        """Scores of all entities, −∞ for those without a fact: (n, entities)."""
        asked = self.asked(questions)
        some = np.flatnonzero(questions.at_a_time) if self.likely is not None else np.empty(0, np.int64)
        rest = np.setdiff1d(np.arange(len(asked)), some)
        rows = np.empty((len(asked), self.entities), np.float32)
        if len(rest):
            rows[rest] = self.model.scores(asked[rest])
        if self.likely is not None and len(some):
            rows[some] = self._weighed(asked[some], self.likely)
        return torch.from_numpy(rows).index_fill_(1, self.unseen, -torch.inf)

    def _weighed(self, asked: LinkQueries, likely: LikelySpans) -> Floats:
        """log Pr of all entities that have a fact, over the spans that may be meant: (n, entities)."""
        begin, end, share = likely.of(asked)
        total = np.full((len(asked), self.entities), -np.inf)
        for nth in range(share.shape[1]):
            rows = np.flatnonzero(share[:, nth] > 0)
            if len(rows):
                scores = self.model.scores(replace(asked[rows], begin=begin[rows, nth], end=end[rows, nth]))
                scores[:, self.unseen.numpy()] = -np.inf
                scores -= np.maximum(scores.max(1, keepdims=True, initial=-np.inf), -LARGE)  # there may be none
                whole = np.maximum(np.exp(scores).sum(1), 1 / LARGE)
                total[rows] = np.logaddexp(total[rows], scores + np.log(share[rows, nth] / whole)[:, None])
        return total

    def meant(self, questions: EntityQueries) -> EntityQueries:
        """The questions, with the likeliest span in place of a time that is asked for."""
        if self.likely is None or not questions.at_a_time.any():
            return questions
        begin, end, _ = self.likely.of(self.asked(questions))
        meant = questions.at_a_time & (begin[:, 0] != spans.OPEN_BEGIN) & (end[:, 0] != spans.OPEN_END)
        return replace(
            questions,
            begin=np.where(meant, begin[:, 0], questions.begin),
            end=np.where(meant, end[:, 0], questions.end),
            at_a_time=np.zeros(len(questions), np.bool_),
        )

    def shares(self, questions: EntityQueries, own: int = -1) -> dict[str, Floats]:
        """What each pattern adds to the score of every entity, beyond what it adds to the average one with facts.

        One question; (entities,) each. Differences of their sums are differences of scores. `own` is a fact, by its row
        in the evidence, that is left out.
        """
        asked = replace(self.asked(questions), own=np.array([own]))
        seen = self.model.evidence.facts.mentioned(self.model.evidence.entities)
        added = self.model.rows(asked)[0] * self.model.weights.of(asked.r)[0][:, None]
        shares, first = {}, 0
        for pattern in self.model.patterns:
            last = first + len(pattern.candidate_features)
            total = added[first:last].sum(0)
            shares[pattern.name], first = total - total[seen].mean(), last
        if self.model.extra is not None:
            shares[EXTRA] = added[first] - added[first][seen].mean()
        if self.model.trees is not None:
            again = self.model.scores(asked)[0] - added.sum(0)
            shares[TREES] = again - again[seen].mean()
        return shares

    def asked(self, questions: EntityQueries) -> LinkQueries:
        """With inverse relations, and without ends where they are those of all time: nothing is known of them."""
        evidence = self.model.evidence
        r = questions.r + (evidence.relations if questions.direction == "subject" else 0)
        begin = np.where(questions.begin <= evidence.first, spans.OPEN_BEGIN, questions.begin)
        end = np.where(questions.end >= evidence.last, spans.OPEN_END, questions.end)
        return LinkQueries(questions.given, r, begin, end)


class LinksState(BaseModel):
    """What is kept of `Links` beside its weights: the features that they are of, and what dev said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    features: tuple[str, ...]
    probabilities: CalibrationMap
    held_probabilities: CalibrationMap
    cases: int = Field(ge=0)
    measured: dict[str, dict[str, FiniteFloat]]


@dataclass(frozen=True, eq=False)
class Links:
    """Who answers: a ranker, from its raw probabilities to calibrated ones, and how often answers have company.

    held_probabilities  the calibrated ones of questions about a time at which a fact held
    """

    who: PatternRanker
    probabilities: CalibrationMap
    held_probabilities: CalibrationMap
    company: Coexistence
    cases: int
    measured: dict[str, dict[str, float]]

    @classmethod
    def learn(
        cls,
        kb: TemporalKB,
        dates: Dates,
        first: int,
        last: int,
        extra: Extra | None = None,
        on_progress: Progress | None = None,
    ) -> "Links":
        """Learn weights on train and dev, calibrate on halves of dev by each other, and take all facts as evidence.

        `extra` are scores of a model that has not seen dev.
        """
        judged = with_dev(kb)
        course, dev = Course(judged, extra=extra, on_progress=on_progress), judged.valid
        model, cases = course.model(trees=False), len(dev) if len(dev) >= LEAST_CASES else 0
        probabilities, held, measured = CalibrationMap(), CalibrationMap(), dict[str, dict[str, float]]()
        if cases:
            evidence = Evidence.of(judged).with_nobody()
            likely = LikelySpans(DateModel(evidence, Fitted.of(evidence), dates.model.weights))
            half = np.arange(len(dev)) % 2 == 0
            told, at_a_time = [], []
            few = np.isin(np.arange(len(dev)), some_rows(len(dev), MOST_AT_A_TIME))
            for mine in (half, ~half):
                here = course.model(~mine, trees=False)
                told.append((np.flatnonzero(mine), PatternRanker(here, judged.train), dev[mine]))
                rows = mine & few
                asked = at_an_instant(dev[rows], first, last)
                at_a_time.append((np.flatnonzero(rows), PatternRanker(here, judged.train, likely), asked))
            ends, relations = (first, last), len(kb.relations)
            probabilities, measured = _calibrated(told, dev, ends, relations)
            held, of_held = _calibrated(at_a_time, dev, ends, relations, at_a_time=True)
            measured |= {f"{name}, at an instant": each for name, each in of_held.items()}
        everything = LinkModel.from_state(*model.state(), Evidence.of(kb, kb.facts), extra)
        return cls._of(kb, everything, dates, first, last, probabilities, held, cases, measured)

    @classmethod
    def _of(
        cls,
        kb: TemporalKB,
        model: LinkModel,
        dates: Dates,
        first: int,
        last: int,
        probabilities: CalibrationMap,
        held: CalibrationMap,
        cases: int,
        measured: dict[str, dict[str, float]],
    ) -> "Links":
        company = Coexistence(kb.facts, len(kb.relations), first, last)
        who = PatternRanker(model, kb.facts, LikelySpans(dates.model))
        return cls(who, probabilities, held, company, cases, measured)

    def keep(self, keeper: Keeper) -> None:
        """Keep what was learned."""
        model = self.who.model
        state = LinksState(
            features=model.features,
            probabilities=self.probabilities,
            held_probabilities=self.held_probabilities,
            cases=self.cases,
            measured=self.measured,
        )
        keeper.keep("links", state, {"shared": model.weights.shared, "corrections": model.weights.corrections})

    @classmethod
    def restored(
        cls, kb: TemporalKB, dates: Dates, first: int, last: int, extra: Extra | None, keeper: Keeper
    ) -> "Links | None":
        """What is kept, with patterns fitted anew; None if nothing is that can be used."""

        def build(state: LinksState, numbers: Numbers) -> "Links | None":
            everything, relations = Evidence.of(kb, kb.facts), len(kb.relations)
            patterns = [PATTERNS[name](everything) for name in link_patterns(Evidence.of(with_dev(kb)))]
            names = feature_names(patterns) + ((EXTRA,) if extra is not None else ())
            maps = state.probabilities, state.held_probabilities
            if state.features != names or not all(each.fits(2 * relations) for each in maps):
                return None
            found = numbers.of(shared=(len(names),), corrections=(2 * relations, len(names)))
            model = LinkModel(patterns, Weights(found["shared"], found["corrections"]), extra=extra)
            return cls._of(kb, model, dates, first, last, *maps, state.cases, state.measured)

        return keeper.restored("links", LinksState, build)

    def rank(self, questions: EntityQueries, k: int, *, hide_known: bool) -> tuple[Ranked, Floats]:
        """The best candidates, and how likely each is right; what is stated for the time comes first, with no number.

        A KB is not asked how likely it is that what it states is true.
        """
        found = self.who.rank(questions, k, hide_known=True)
        probability = self._calibrated(found.raw, questions)
        probability = probability * self.company.factor(questions, self.who.known)[:, None]
        if hide_known:
            return found, probability
        stated = self._stated(questions)
        entity = np.concatenate([stated, found.entity], 1)
        first = np.argsort(entity < 0, axis=1, kind="stable")[:, : found.entity.shape[1]]

        def best(of_stated: float, of_new: Floats) -> Floats:
            whole = np.concatenate([np.full(stated.shape, of_stated), of_new], 1)
            return np.take_along_axis(whole, first, 1)

        holds = first < stated.shape[1]
        chosen = np.take_along_axis(entity, first, 1)
        ranked = Ranked(chosen, best(np.inf, found.score), best(1.0, found.raw), holds & (chosen >= 0))
        return ranked, best(np.nan, probability)

    def _calibrated(self, raw: Floats, questions: EntityQueries) -> Floats:
        """From raw probabilities of candidates, (n, k), to calibrated ones."""
        groups = group(questions.r, questions.direction)[:, None]
        told, held = self.probabilities(raw, groups), self.held_probabilities(raw, groups)
        return np.where(questions.at_a_time[:, None], held, told)

    def probability_of(self, questions: EntityQueries, entity: Ints) -> Floats:
        """How likely an answer to each question is right, (n,) in and out, as `rank` says of new ones."""
        raw, _ = self.who.raw_of(questions, entity)
        probability = self._calibrated(raw[:, None], questions)[:, 0]
        return probability * self.company.factor(questions, self.who.known)

    def _stated(self, questions: EntityQueries) -> Ints:
        """The answers that are known to hold at the time of each question, each once: (n, most), −1: no more."""
        query, fact, meets = self.who.known.of(questions)
        answer = self.who.known.answers(questions.direction)[fact[meets]]
        query, answer = np.unique(np.stack([query[meets], answer.astype(np.int64)]), axis=1)
        nth = np.arange(len(query)) - np.searchsorted(query, query)
        stated = np.full((len(questions), int(nth.max(initial=-1)) + 1), -1, np.int64)
        stated[query, nth] = answer
        return stated


def _calibrated(
    asked: Sequence[tuple[Ints, Ranker, Facts]],
    true: Facts,
    ends: tuple[int, int],
    relations: int,
    *,
    at_a_time: bool = False,
) -> tuple[CalibrationMap, dict[str, dict[str, float]]]:
    """From raw to calibrated probabilities, by rankers and the facts that they are asked for, with rows in dev."""
    parts = [(rows, who_cases(who, facts, true, *ends, at_a_time=at_a_time)) for rows, who, facts in asked]
    raw, right, there, groups = (
        np.concatenate([getattr(part, name) for _, part in parts]) for name in ("raw", "right", "there", "group")
    )
    fact = np.concatenate([rows[part.fact] for rows, part in parts])
    return fit_rank_map(WhoCases(raw, right, there, groups, fact), len(true), relations)
