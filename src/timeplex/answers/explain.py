"""Why an answer is likely: what each pattern adds to its score, and the facts behind it, in sentences.

    score = Σ over patterns (and the scores of a run, `embeddings`) of what they add

each above the mean of all entities that have a fact: scores of one question can be compared, and the average entity
has 0. A fact that is stated is left out of its own evidence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from timeplex.answers.dates import evidence_for
from timeplex.answers.rank import EntityQueries
from timeplex.gadgets.base import Reason
from timeplex.kb import spans
from timeplex.kb.timeline import Timeline
from timeplex.models.scorer import Direction
from timeplex.patterns.base import Evidence, LinkQueries, Pattern, TimeQueries
from timeplex.patterns.graph import bucket, edges_of
from timeplex.patterns.popularity import Popularity
from timeplex.patterns.recurrence import Recurrence
from timeplex.patterns.relation_classes import INSTANTS_A_YEAR
from timeplex.patterns.rules import Rules
from timeplex.text import Describer, counted
from timeplex.typing import Ints

if TYPE_CHECKING:
    from timeplex.answers.learned import Learned
    from timeplex.answers.trained import Trained

ABOUT = 6
"""Years about the time of a question that count as near."""
INSTANTS = 9
"""A reason for a date is compared at so many instants."""
WINDOW = 40
"""So many years about it."""
EACH = 2
"""So many facts of each pattern are told."""


@dataclass(frozen=True)
class Part:
    """What a pattern adds to a score."""

    name: str
    value: float


def strength(part: Part) -> float:
    """What parts are sorted by, strongest first."""
    return -abs(part.value)


@dataclass(frozen=True)
class Because:
    """A sentence behind a part, and the facts in it: written out, and by their rows in `kb.facts`."""

    part: str
    facts: list[str]
    sentence: str
    rows: tuple[int, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """A score taken apart: `parts` sum to `score`, strongest first; `reasons` in the same order.

    probability   that the answer is right, if one is missing, as `rank` says; None if the KB states it
    """

    question: str
    at: str
    score: float
    probability: float | None
    parts: list[Part]
    reasons: list[Because]
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As plain values for JSON; rows of facts mean nothing outside of this KB."""
        plain = asdict(self)
        for reason in plain["reasons"]:
            del reason["rows"]
        return plain


def explain(
    learned: "Learned", subject: str, relation: str, object: str, at: Any, direction: Direction = "object"
) -> Explanation:
    """Explain why the object, or the subject, is likely as an answer at a time."""
    asking = learned.asking
    s, r, o = (int(each[0]) for each in asking.triples(subject, relation, object))
    begin, end = asking.span(at)
    given, answer = (s, o) if direction == "object" else (o, s)
    asked = EntityQueries(direction, *(np.array([each]) for each in (given, r, begin, end)))
    facts = learned.kb.facts
    stated = [row for row in facts.of_subject_relation(s, r).tolist() if facts.o[row] == o]
    stated = [row for row in stated if facts.begin[row] <= end and facts.end[row] >= begin]
    own = stated[0] if stated else -1
    found = learned.links.who.shares(asked, own)
    parts = [Part(name, float(added[answer])) for name, added in found.items()]
    parts.sort(key=strength)
    note = ""
    if stated:
        note = f"The KB states it: {asking.span_text(int(facts.begin[own]), int(facts.end[own]))}. "
        note += "That fact is left out of its own evidence."
    probability = None if stated else float(learned.links.probability_of(asked, np.array([answer]))[0])
    names = learned.kb.entities, learned.kb.relations
    return Explanation(
        f"{names[0].label(s)} {names[1].label(r)} {names[0].label(o)}",
        asking.span_text(begin, end),
        sum(part.value for part in parts),
        probability,
        parts,
        list(because(learned, asked, answer, parts, own)),
        note,
    )


def because(
    learned: "Learned", asked: EntityQueries, answer: int, parts: Sequence[Part], own: int = -1
) -> Iterator[Because]:
    """The facts behind the parts that can tell them, in the order of the parts; `own` is left out of the evidence."""
    who, words = learned.links.who, Describer(learned.kb, learned.links.who.model.evidence.facts)
    queries = replace(who.asked(asked), own=np.array([own]))
    patterns = {pattern.name: pattern for pattern in who.model.patterns}
    for part in parts:
        pattern = patterns.get(part.name)
        if isinstance(pattern, Rules):
            yield from _paths(pattern, queries, answer, words)
        elif isinstance(pattern, Recurrence):
            yield from _again(pattern, queries, answer, words)
        elif isinstance(pattern, Popularity):
            yield from _popular(pattern, queries, answer, words)
        elif part.name == "events":
            yield from _between(pattern, queries, answer, words)
        elif part.name == "candidate dates" and part.value > 0:
            yield from _dates(learned, asked, answer, own)


def _paths(rules: Rules, queries: LinkQueries, answer: int, words: Describer) -> Iterator[Because]:
    """The facts that lead from what is given to the answer, and how often such facts lead to the right one."""
    for rows, hits, cases in rules.paths(queries, answer, EACH):
        facts = [words.fact(row) for row in rows]
        often = f"such a path led to the right answer in {hits:,} of {counted(cases, 'case')}"
        yield Because(rules.name, facts, f"{', '.join(facts)}: {often}", tuple(int(row) for row in rows))


def _again(pattern: Recurrence, queries: LinkQueries, answer: int, words: Describer) -> Iterator[Because]:
    """The same at another time, and how often such facts come again after that long."""
    links, (x, r, date) = pattern.evidence.graph, (int(each[0]) for each in (queries.x, queries.r, queries.date))
    low, high = edges_of(links, x, r)
    rows = [row for row in range(low, high) if links.y[row] == answer and links.fact[row] != queries.own[0]]
    for row in rows[:EACH]:
        place = bucket(links.bounds, date, int(links.date[row]))
        hits, cases = int(pattern.hits[r, place]), int(pattern.cases[r, place])
        fact, what = words.fact(int(links.fact[row])), words.relation(r % pattern.evidence.relations)
        often = f"after such a time {what} was of the same two in {hits:,} of {counted(cases, 'case')}"
        yield Because(pattern.name, [fact], f"{fact}: {often}", (int(links.fact[row]),))


def _popular(pattern: Popularity, queries: LinkQueries, answer: int, words: Describer) -> Iterator[Because]:
    """How often the answer has this role, and how often about then."""
    evidence, r = pattern.evidence, int(queries.r[0])
    role = (r + evidence.relations) % (2 * evidence.relations)
    rows = np.flatnonzero((evidence.x == answer) & (evidence.r == role))
    rows = rows[rows % max(len(evidence), 1) != queries.own[0]]
    side = "object" if r < evidence.relations else "subject"
    sentence = f"{words.entity(answer)} is the {side} of {words.relation(r % evidence.relations)} in "
    sentence += counted(len(rows), "fact") if len(rows) else "no other fact"
    date = int(queries.date[0])
    if len(rows) and date != spans.OPEN_END:
        near = np.abs(evidence.date[rows] - date) <= ABOUT * INSTANTS_A_YEAR[evidence.granularity]
        sentence += f", {f'{near.sum():,}' if near.any() else 'none'} of them within {ABOUT} years of then"
    yield Because(pattern.name, [], sentence)


def _between(pattern: Pattern | None, queries: LinkQueries, answer: int, words: Describer) -> Iterator[Because]:
    """The events between the two that are nearest in time."""
    evidence = pattern.evidence if pattern is not None else None
    if evidence is None:
        return
    rows = np.flatnonzero((evidence.x == queries.x[0]) & (evidence.y == answer))
    rows = rows[(rows % len(evidence)) != queries.own[0]]
    date = int(queries.date[0])
    for row in rows[np.argsort(np.abs(evidence.date[rows] - date), kind="stable")][:EACH].tolist():
        fact = words.fact(row % len(evidence))
        apart = "" if spans.OPEN_END in (date, evidence.date[row]) else f", {_apart(evidence, row, date, words)}"
        between = f"{counted(len(rows), 'event')} between the two"
        yield Because("events", [fact], f"{fact}{apart}; {between}", (row % len(evidence),))


def _apart(evidence: Evidence, row: int, date: int, words: Describer) -> str:
    return words.apart(int(evidence.date[row]) - date)


def _dates(learned: "Learned", asked: EntityQueries, answer: int, own: int) -> Iterator[Because]:
    """The answer's own facts that fit the time of the question rather than other times."""
    given, r, begin = int(asked.given[0]), int(asked.r[0]), int(asked.begin[0])
    s, o = (given, answer) if asked.direction == "object" else (answer, given)
    query = TimeQueries(np.array([s]), np.array([r]), np.array([o]), np.array([own]))
    reach = WINDOW * INSTANTS_A_YEAR[learned.kb.granularity]
    window = np.unique(np.linspace(begin - reach, begin + reach, INSTANTS).astype(int))
    told = evidence_for(learned.kb, learned.dates.model, query, begin, window, EACH, about=answer)
    for row, sentence in told.items():
        yield Because("candidate dates", [], sentence, (row,))


# What `fill` and `discover` say of a run ------------------------------------------------------------------------------

SIDES = ("subject", "object", "both")
"""Which entity of a question a reason is about."""


def reasons_text(
    trained: "Trained", s: int, r: int, o: int, t_position: int, most: int = 2, about: Sequence[str] = SIDES
) -> list[str]:
    """The sentences of the strongest reasons, for lists of answers; only these are put into words.

    `about` says which reasons count: those about the subject, the object, or both. All answers to a question share the
    reasons about the entity that it names; these do not tell why one answer is likelier than another.
    """
    found = [each for each in trained.run.scorer.reasons(s, r, o, t_position) if each[2].side in about]
    return _sentences(trained, r, sorted(found, key=lambda each: -abs(each[0]))[:most])


def _sentences(trained: "Trained", r: int, chosen: list[tuple[float, str, Reason]]) -> list[str]:
    words = Describer(trained.run.kb, trained.run.kb.train)
    return [trained.run.gadgets[name].sentence(reason, r, words) for _, name, reason in chosen]


def begin_position(timeline: Timeline, begin: ArrayLike, end: ArrayLike) -> Ints:
    """Where spans of calendar instants begin on the timeline, placed as `PlacedFacts.of` places facts: (n,)."""
    first, last = timeline.positions((begin, end))
    return np.minimum(first, np.maximum(last, 0))
