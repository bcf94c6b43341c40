"""Which stated facts a trained model holds for implausible, and how likely each is wrong.

A model has learned its training facts by heart, wrong ones too: their scores tell next to nothing about errors.
So a fact is judged by runs that have *not* learned it: those that have no training fact (s, r, o). With one run these
are mostly its dev and test facts; runs on several splits together judge most of a KB.

Both questions of a fact are asked, (s, r, ?, T) and (?, r, o, T), and the raw probability x of the stated answer is
compared with what wrong answers have: x of random other entities in the same role of the same relation. The less
likely the answer, the more it looks like a random one,

    λ(x) = density of x among random answers / density of x among stated ones     falling in x, by isotonic regression

for each relation and direction. A share of π of the stated facts is expected to be wrong, so that where stated
answers have x, a share of π λ(x) of them is. Both questions tell partly the same, so that together they count
less than twice:

    severity = min(most, π (λ_object · λ_subject)^w),     the geometric mean over the runs that judge the fact
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from scipy.optimize import isotonic_regression

from timeplex.answers.rank import EntityQueries, EntityRanker
from timeplex.errors import InputError
from timeplex.kb.facts import Facts, TemporalKB, pair_key
from timeplex.kb.names import Names
from timeplex.models.scorer import DIRECTIONS, Direction
from timeplex.typing import Bools, Floats, Ints

if TYPE_CHECKING:
    from timeplex.answers.trained import Trained


ERRORS = 0.02
"""π, the share of facts with a wrong entity that is expected before looking at them."""

WEIGHT = 0.6
"""w, how much the two questions count together: 1 if they were independent, ½ if they told the same."""

MOST_SEVERE = 0.5
"""No answer that a model finds unlikely is wrong for sure."""

LEAST_SEVERE = 0.25
"""What is less likely wrong than this is not told."""

LEAST_CASES = 20
"""A relation is judged if a run can be asked for so many of its facts."""

RANDOM = 3
"""So many random answers of each question."""

CONVINCING = 0.8
"""From this probability on, an answer is suggested."""

LIKELIER = 3
"""So many likelier answers are named."""


@dataclass(frozen=True)
class Implausible:
    """What models found: a row a fact, all of one length; most severe first. `row` is the place in `kb.facts`.

    holds, cases   how many facts of the relation have a better rank, of how many that the run was asked for
    judged         how many facts were judged; the others: learned by heart, of names that no run knows, dated outside
                   of every timeline, or of relations with too few facts to compare with
    """

    row: Ints
    severity: Floats
    holds: Ints
    cases: Ints
    messages: list[str]
    suggestions: list[str]
    judged: int
    learned: int
    unknown: int
    outside: int
    few: int

    def __len__(self) -> int:
        return len(self.row)

    @property
    def note(self) -> str:
        """One sentence on what was judged and what was not."""
        why = (
            (self.learned, "learned by heart"),
            (self.unknown, "with unknown names"),
            (self.outside, "outside of the timeline"),
            (self.few, f"of relations with fewer than {LEAST_CASES} facts to compare"),
        )
        rest = ", ".join(f"{number:,} {words}" for number, words in why if number)
        return f"The model judged {self.judged:,} facts" + (f"; left out: {rest}." if rest else ".")


def implausible(runs: "Sequence[Trained]", kb: TemporalKB, least: float = LEAST_SEVERE) -> Implausible:
    """The facts of a KB that are probably wrong by trained runs, each judged by those that have not learned it.

    Names of the KB that a run does not know are no error, unless no run knows all names of any fact.
    """
    judges = [FactJudge(trained, kb) for trained in runs]
    known, inside, fresh, asked = (
        np.any([getattr(judge, name) for judge in judges], axis=0) for name in ("known", "inside", "fresh", "asked")
    )
    if len(kb) and not known.any():
        names = ", ".join(str(trained.run.path) for trained in runs)
        raise InputError(
            f"{names} was trained on {runs[0].kb.name} and knows the names of no fact of {kb.name}.",
            "Give a run that was trained on this KB or one with the same names.",
        )
    evidence = np.array([judge.evidence for judge in judges])
    judging = np.array([judge.asked for judge in judges])
    mean = np.where(judging, evidence, 0).sum(0) / np.maximum(judging.sum(0), 1)
    severity = np.where(asked, np.minimum(MOST_SEVERE, ERRORS * np.exp(WEIGHT * mean)), 0)
    found = np.flatnonzero(severity >= least)
    found = found[np.lexsort((found, -severity[found]))]
    best = np.where(judging, evidence, -np.inf).argmax(0)[found]  # the run that tells
    told = [judges[run].tell(found[best == run]) for run in range(len(judges))]
    by_row = {row: each for part in told for row, each in part.items()}
    return Implausible(
        found,
        severity[found],
        np.array([by_row[row].holds for row in found.tolist()], np.int64),
        np.array([by_row[row].cases for row in found.tolist()], np.int64),
        [by_row[row].message for row in found.tolist()],
        [by_row[row].suggestion for row in found.tolist()],
        judged=int(asked.sum()),
        learned=int((inside & ~fresh).sum()),
        unknown=int((~known).sum()),
        outside=int((known & ~inside).sum()),
        few=int((fresh & ~asked).sum()),
    )


@dataclass(frozen=True)
class Told:
    """What is said of one fact."""

    holds: int
    cases: int
    message: str
    suggestion: str


class FactJudge:
    """One run and the facts of a KB, all arrays (facts,):

    known      the run has learned something of both entities and the relation
    inside     … and the fact holds at an instant of the run's timeline
    fresh      … and the run has not learned that s has r with o
    asked      … and there are enough such facts of the relation: the run judges it
    evidence   log λ_object + log λ_subject, 0 where it does not judge
    """

    def __init__(self, trained: "Trained", kb: TemporalKB) -> None:
        if trained.kb.granularity is not kb.granularity:
            raise InputError(
                f"{trained.run.path} knows {trained.kb.granularity}s, and {kb.name} has {kb.granularity}s.",
                "Train a run on this KB.",
            )
        self.trained = trained
        own, train, facts = trained.kb, trained.kb.train, kb.facts
        entity, relation = _numbers(kb.entities, own.entities), _numbers(kb.relations, own.relations)
        s, r, o = entity[facts.s], relation[facts.r], entity[facts.o]
        learned = train.mentioned(len(own.entities)), _used(train, len(own.relations))
        seen, related = (np.append(mask, False) for mask in learned)  # −1: unknown
        self.known = seen[s] & seen[o] & related[r]
        first, last = (int(trained.run.timeline.instants[place]) for place in (0, -1))
        self.inside = self.known & (facts.begin <= last) & (facts.end >= first)
        self.fresh = self.inside & ~train.states(s, r, o)
        number = np.bincount(r[self.fresh], minlength=len(own.relations))
        self.asked = self.fresh & (number[r] >= LEAST_CASES)
        s32, r32, o32 = (column.astype(np.int32) for column in (s, r, o))
        mapped = Facts(s32, r32, o32, facts.begin, facts.end)
        # What either KB states is no wrong answer to the questions of other facts.
        self.who = EntityRanker(trained.run, own.facts + mapped[self.known])
        # In an order of their own, so that that of the KB has no say in what is drawn.
        rows = np.flatnonzero(self.asked)
        self.rows = rows[np.lexsort((facts.end[rows], facts.begin[rows], o[rows], r[rows], s[rows]))]
        self.facts = mapped[self.rows]
        self.views = {direction: self._view(direction, first, last) for direction in DIRECTIONS}
        self.evidence = np.zeros(len(facts))
        self.evidence[self.rows] = sum(view.suspect for view in self.views.values())

    def _view(self, direction: Direction, first: int, last: int) -> "View":
        """All questions of one direction, asked for the stated answers and for random ones."""
        questions = EntityQueries.of(self.facts, direction, first, last)
        answer = np.asarray(self.facts.o if direction == "object" else self.facts.s, np.int64)
        raw, rank = self.who.raw_of(questions, answer)
        x, suspect = _log(raw), np.zeros(len(answer))
        drawn = self._random_answers(direction, questions.r)
        right = self._known(questions, drawn)
        others = np.stack([_log(self.who.raw_of(questions, column)[0]) for column in drawn.T], axis=1)
        for relation in np.unique(questions.r):
            here = questions.r == relation
            suspect[here] = ratios(x[here], others[here][~right[here]])
        return View(questions, answer, rank, suspect)

    def _random_answers(self, direction: Direction, r: Ints) -> Ints:
        """For each question some entities that have the role in other facts of the relation: (n, RANDOM)."""
        random, train = np.random.default_rng(0), self.trained.kb.train
        drawn = np.zeros((len(r), RANDOM), np.int64)
        for relation in np.unique(r):
            here = r == relation
            role = np.unique((train.o if direction == "object" else train.s)[train.r == relation])
            drawn[here] = random.choice(role, (int(here.sum()), RANDOM))
        return drawn

    def _known(self, questions: EntityQueries, entity: Ints) -> Bools:
        """Which of some answers are known at the time of the question: (n, k)."""
        query, fact, meets = self.who.known.of(questions)
        many = len(self.trained.kb.entities)
        said = query[meets] * many + self.who.known.answers(questions.direction)[fact[meets]]
        found: Bools = np.isin(np.arange(len(questions))[:, None] * many + entity, said)
        return found

    def tell(self, rows: Ints) -> dict[int, Told]:
        """What is said of some facts that the run judges, rows of `kb.facts`: each by the question that is worse."""
        place = np.zeros(len(self.evidence), np.int64)
        place[self.rows] = np.arange(len(self.rows))
        at = place[rows]
        worse = self.views["subject"].suspect[at] > self.views["object"].suspect[at]
        told: dict[int, Told] = {}
        for direction in DIRECTIONS:
            chosen = worse == (direction == "subject")
            told.update(zip(rows[chosen].tolist(), self._told(direction, at[chosen]), strict=True))
        return told

    def _told(self, direction: Direction, at: Ints) -> list[Told]:
        if len(at) == 0:
            return []
        view, names = self.views[direction], self.trained.kb.entities
        asked = view.questions
        questions = EntityQueries(direction, asked.given[at], asked.r[at], asked.begin[at], asked.end[at])
        found = self.who.rank(questions, LIKELIER + 1, hide_known=True)
        probability = self.trained.calibration.rank(found.raw, questions.r, direction)
        candidates = self._candidates(questions)
        told = []
        for number, place in enumerate(at.tolist()):
            rank = int(view.rank[place])
            same = view.rank[asked.r == asked.r[place]]
            # Not the given entity: hardly anything stands in a relation to itself, but it is near itself.
            better = [
                each for each in range(min(rank - 1, len(found.entity[number]))) if found.entity[number, each] >= 0
            ]
            better = [each for each in better if found.entity[number, each] != questions.given[number]][:LIKELIER]
            likelier = [names.label(int(found.entity[number, each])) for each in better]
            message = f"The model ranks {names.label(int(view.answer[place]))} {ordinal(rank)} "
            message += f"of {candidates[number]:,} as {direction}"
            if likelier:
                message += f"; likelier {'is' if len(likelier) == 1 else 'are'} {', '.join(likelier)}"
            convincing = bool(better) and probability[number, better[0]] >= CONVINCING
            suggestion = f"{direction} → {likelier[0]}?" if convincing else f"check the {direction}"
            told.append(Told(int((same < rank).sum()), len(same), f"{message}.", suggestion))
        return told

    def _candidates(self, questions: EntityQueries) -> Ints:
        """How many entities could be meant, with the stated one and without the others that are known: (n,)."""
        query, fact, meets = self.who.known.of(questions)
        seen = self.trained.kb.train.mentioned(len(self.trained.kb.entities))
        answer = self.who.known.answers(questions.direction)[fact[meets]]
        cells = np.unique(pair_key(query[meets], answer)[seen[answer]])
        return int(seen.sum()) - np.bincount(cells >> 32, minlength=len(questions)) + 1


@dataclass(frozen=True)
class View:
    """The questions of one direction, (n,): stated answers, their ranks, and how suspect they are: log λ."""

    questions: EntityQueries
    answer: Ints
    rank: Ints
    suspect: Floats


def ratios(stated: Floats, random: Floats) -> Floats:
    """log λ of each stated value, (n,): how much likelier random values are where it stands, falling with the value.

    Of all falling functions v of the value the one that tells random (1) from stated (0) with the least squares, where
    both count alike in sum; λ = v / (1 − v). Each stated value counts itself, so that λ ≤ n.
    """
    if len(random) == 0:
        return np.zeros(len(stated))
    where = np.unique(np.concatenate([stated, random]), return_inverse=True)[1]
    is_random = np.arange(len(where)) >= len(stated)
    weight = np.where(is_random, 1 / len(random), 1 / len(stated))
    total = np.bincount(where, weight)
    share = np.bincount(where, weight * is_random) / total
    falling = isotonic_regression(share, weights=total, increasing=False).x[where[: len(stated)]]
    least = 1 / (1 + len(stated))  # a value that is above all random ones is not right for sure
    kept = np.clip(falling, least, 1 - least)
    odds: Floats = np.log(kept) - np.log1p(-kept)
    return odds


def ordinal(number: int) -> str:
    """`1st`, `22nd`, `1,013th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def _used(facts: Facts, relations: int) -> Bools:
    """Which relations have a fact: (relations,)."""
    return np.bincount(facts.r, minlength=relations) > 0


def _numbers(of: Names, among: Names) -> Ints:
    """The numbers that names have among others, −1 for those that are not there."""
    numbered = among.names.to_frame("name").with_row_index("number")
    found = of.names.to_frame("name").join(numbered, on="name", how="left", maintain_order="left")
    return found["number"].cast(pl.Int64).fill_null(-1).to_numpy()


def _log(raw: Floats) -> Floats:
    logs: Floats = np.log(np.maximum(raw, 1e-300))
    return logs
