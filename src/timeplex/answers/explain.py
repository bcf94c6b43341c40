"""Why a fact has its score: the parts of the score, and the training facts behind each part, in sentences.

    φ(s, r, o, t) = Σ terms of the model + Σ strength · gadget,    gadget = Σ its reasons

so the parts sum to the score that answers are ranked by, and the reasons of a gadget sum to its part. A span is
explained at its begin, which is where gadgets look.

A model that was trained with inverse relations has two readings of a fact, (s, r, o) and (o, r⁻¹, s): the first ranks
objects and is the one explained unless `direction="subject"` asks for the other.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from timeplex.gadgets.base import Reason
from timeplex.kb.timeline import Timeline
from timeplex.models.scorer import Direction
from timeplex.text import Describer
from timeplex.training.run import TrainedRun
from timeplex.typing import Ints

if TYPE_CHECKING:
    from timeplex.answers.trained import Trained


SIDES = ("subject", "object", "both")
"""Which entity of a question a reason is about."""

INSTANTS = 9
"""A reason for a date is compared at so many instants of the window."""

WEAK = 0.1
"""Reasons for a date that are weaker than this share of the strongest are not told."""


@dataclass(frozen=True)
class Part:
    """A named summand of a score: a term of the model, or a gadget times its strength."""

    name: str
    value: float


@dataclass(frozen=True)
class Because:
    """A training fact that speaks for an answer or against it.

    side    which entity of the question the fact is about: subject, object, or both
    fact    written out
    gap     instants from the fact to the question; negative if the fact is later
    value   its share of the score
    """

    gadget: str
    side: str
    fact: str
    gap: int
    value: float
    sentence: str


@dataclass(frozen=True)
class Explanation:
    """A score taken apart: `parts` sum to `score`, the reasons of a gadget sum to its part; strongest reasons first."""

    question: str
    at: str
    score: float
    parts: list[Part]
    reasons: list[Because]
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)


def explain(
    trained: "Trained", subject: str, relation: str, object: str, at: Any, direction: Direction = "object"
) -> Explanation:
    """Explain the score of (subject, relation, object) at a date, or at the begin of a span."""
    asking = trained.asking
    s, r, o = asking.entity(subject), asking.relation(relation), asking.entity(object)
    begin, end = asking.span(at)
    t = int(begin_position(trained.run.timeline, [begin], [end])[0])
    found = explain_numbers(trained.run, s, r, o, t, direction)
    if begin != end:
        span = asking.span_text(begin, end)
        found = replace(found, note=f"The span {span} is explained at its begin, {found.at}.")
    return found


def explain_numbers(run: TrainedRun, s: int, r: int, o: int, t: int, direction: Direction = "object") -> Explanation:
    """The same for numbers, where t is a position on the timeline."""
    scorer, words = run.scorer, Describer(run.kb, run.kb.train)
    found = scorer.reasons(s, r, o, t)
    parts = _terms(run, s, r, o, t, direction)
    parts += [Part(name, sum((value for value, of, _ in found if of == name), 0.0)) for name in scorer.gadgets]
    reasons = [
        Because(name, why.side, words.dated(why.fact), why.gap, value, run.gadgets[name].sentence(why, r, words))
        for value, name, why in found
    ]
    entities = run.kb.entities
    return Explanation(
        question=f"{entities.label(s)} {run.kb.relations.label(r)} {entities.label(o)}",
        at=run.timeline.text(t),
        score=sum(part.value for part in parts),
        parts=parts,
        reasons=sorted(reasons, key=lambda reason: -abs(reason.value)),
    )


def reasons_text(
    trained: "Trained", s: int, r: int, o: int, t_position: int, most: int = 2, about: Sequence[str] = SIDES
) -> list[str]:
    """The sentences of the strongest reasons, for lists of answers; only these are put into words.

    `about` says which reasons count: those about the subject, the object, or both. All answers to a question share the
    reasons about the entity that it names; these do not tell why one answer is likelier than another.
    """
    found = [each for each in trained.run.scorer.reasons(s, r, o, t_position) if each[2].side in about]
    return _sentences(trained, r, sorted(found, key=lambda each: -abs(each[0]))[:most])


def dating_reasons(
    trained: "Trained", s: int, r: int, o: int, t_position: int, others: Sequence[int], most: int
) -> list[str]:
    """The sentences of the facts that speak for this instant rather than for the others, the strongest first.

    A fact with much to say, but the same for all instants, does not date anything: what counts is by how much its
    value here is above its mean at the others. Facts with less than `WEAK` of the strongest one's are left out.
    """
    elsewhere: dict[tuple[str, int, str], float] = {}
    for other in others:
        for value, name, reason in trained.run.scorer.reasons(s, r, o, other):
            key = (name, reason.fact, reason.side)
            elsewhere[key] = elsewhere.get(key, 0.0) + value / len(others)
    found = [
        (value - elsewhere.get((name, reason.fact, reason.side), 0.0), name, reason)
        for value, name, reason in trained.run.scorer.reasons(s, r, o, t_position)
    ]
    best = sorted(found, key=lambda each: -each[0])[:most]
    return _sentences(trained, r, [each for each in best if each[0] > max(0.0, WEAK * best[0][0])])


def _sentences(trained: "Trained", r: int, chosen: list[tuple[float, str, Reason]]) -> list[str]:
    words = Describer(trained.run.kb, trained.run.kb.train)
    return [trained.run.gadgets[name].sentence(reason, r, words) for _, name, reason in chosen]


def begin_position(timeline: Timeline, begin: ArrayLike, end: ArrayLike) -> Ints:
    """Where spans of calendar instants begin on the timeline, placed as `PlacedFacts.of` places facts: (n,)."""
    first, last = timeline.positions((begin, end))
    return np.minimum(first, np.maximum(last, 0))


@torch.no_grad()
def _terms(run: TrainedRun, s: int, r: int, o: int, t: int, direction: Direction) -> list[Part]:
    """The terms of the model, in the reading that answers in this direction are ranked by."""
    device = next(run.model.parameters()).device
    subject, relation, target, when = (torch.tensor([number], device=device) for number in (s, r, o, t))
    return [
        Part(f"model: {name}", float(value) + 0.0)
        for name, value in run.scorer.terms(subject, relation, target, when, direction).items()
    ]
