"""The contract of every rule, and how what rules find is handed on.

A rule is one class with one method, registered by its name:

    @register("my-rule")
    class MyRule(Rule):
        family, says = "my-family", "what it says of a KB, in one line"
        def find(self, case: AuditContext) -> Found: …

The laws, tested for every registered rule (tests/auditing/test_laws.py): the answer is the same each time and does not
depend on the order of the facts or on which other rules run, and it names facts that exist.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from timeplex.auditing.case import LEAST_SEVERITY, AuditContext, Repair, Tally
from timeplex.registry import register_in
from timeplex.typing import Floats, Ints

MOST_OTHERS = 5


@dataclass(frozen=True)
class Found:
    """What one rule found: a row a fact, all of one length. Facts are rows of the case.

    severity      Pr(the fact is wrong) as this rule sees it
    holds, cases  how often the rule holds, of how often it could; cases = 0 for what is no matter of counting
    others        rows of the other facts involved
    repairs       what would mend it exactly, best first; often nothing, where a suggestion is a range or a question
    """

    rule: str
    family: str
    fact: Ints
    severity: Floats
    holds: Ints
    cases: Ints
    messages: Sequence[str]
    others: Sequence[Sequence[int]]
    suggestions: Sequence[str]
    repairs: Sequence[Sequence[Repair]] = ()

    def __len__(self) -> int:
        return len(self.fact)


class Rule(ABC):
    """Something that holds in a KB, and what breaks it.

    Rules of one family look at the same evidence (the dates of an entity's facts): the strongest of them counts. What
    rules of different families find adds up.
    """

    name: ClassVar[str]
    family: ClassVar[str]
    says: ClassVar[str]

    @abstractmethod
    def find(self, case: AuditContext) -> Found:
        """The facts that break the rule."""

    def none(self) -> Found:
        """Nothing found."""
        no = np.zeros(0, np.int64)
        return Found(self.name, self.family, no, np.zeros(0), no, no, [], [], [])

    def accuse(self, *blocks: "Block") -> Found:
        """Of all accusations the strongest of each fact, if it is severe enough, with all other facts involved."""
        blocks = tuple(block for block in blocks if len(block.fact))
        if not blocks:
            return self.none()
        fact, other, holds, cases = (
            np.concatenate([getattr(block, name) for block in blocks]) for name in ("fact", "other", "holds", "cases")
        )
        severity, strength = (
            np.concatenate([getattr(block, name) for block in blocks]) for name in ("severity", "strength")
        )
        severe = np.flatnonzero(severity >= LEAST_SEVERITY)
        order = severe[np.lexsort((other[severe], -strength[severe], -severity[severe], fact[severe]))]
        facts, starts = np.unique(fact[order], return_index=True)
        best = order[starts]
        stops = np.append(starts[1:], len(order))[: len(starts)]
        ends = np.cumsum([len(block.fact) for block in blocks])
        which = np.searchsorted(ends, best, side="right")
        places = best - (ends - [len(block.fact) for block in blocks])[which]
        chosen = [(blocks[block], place) for block, place in zip(which.tolist(), places.tolist(), strict=True)]
        return Found(
            self.name,
            self.family,
            facts,
            severity[best],
            holds[best],
            cases[best],
            [block.message(place) for block, place in chosen],
            [_involved(other[order[start:stop]]) for start, stop in zip(starts, stops, strict=True)],
            [block.suggestion(place) for block, place in chosen],
            [block.repairs(place) for block, place in chosen],
        )


@dataclass(frozen=True)
class Block:
    """Accusations of one sort, all arrays (n,): who, how severe, by which count, with which other fact (−1: none).

    `strength` decides which of several equally severe accusations of a fact is told. `message` and `suggestion` are
    called with the place of an accusation, only for those that are told.
    """

    fact: Ints
    other: Ints
    severity: Floats
    holds: Ints
    cases: Ints
    strength: Floats
    message: Callable[[int], str]
    suggestion: Callable[[int], str]
    repairs: Callable[[int], Sequence[Repair]]


def _no_repair(place: int) -> Sequence[Repair]:
    return ()


def block(
    fact: Ints,
    severity: Floats | float,
    message: Callable[[int], str],
    suggestion: Callable[[int], str],
    *,
    other: Ints | int = -1,
    holds: Ints | int = 0,
    cases: Ints | int = 0,
    strength: Floats | float = 0.0,
    repairs: Callable[[int], Sequence[Repair]] = _no_repair,
) -> Block:
    """A block whose single values stand for all its accusations."""

    def ints(values: Ints | int) -> Ints:
        return np.broadcast_to(np.asarray(values, np.int64), fact.shape)

    def floats(values: Floats | float) -> Floats:
        return np.broadcast_to(np.asarray(values, np.float64), fact.shape)

    return Block(
        fact, ints(other), floats(severity), ints(holds), ints(cases), floats(strength), message, suggestion, repairs
    )


def either(
    case: AuditContext,
    one: Ints,
    other: Ints,
    counts: Tally,
    message: Callable[[int], str],
    suggestion: Callable[[int, int], str],
    repairs: Callable[[int, int], Sequence[Repair]] = lambda place, row: (),
) -> list[Block]:
    """Accusations of pairs, shape (n,), of which one fact or the other is wrong, as surely as the rule is counted.

    `message` is called with the place of the pair, `suggestion` and `repairs` with it and the row of the accused.
    """

    def accused(fact: Ints, witness: Ints) -> Block:
        return block(
            fact,
            counts.sure * case.blame(fact, witness),
            message,
            lambda place: suggestion(place, int(fact[place])),
            other=witness,
            holds=counts.holds,
            cases=counts.cases,
            repairs=lambda place: repairs(place, int(fact[place])),
        )

    return [accused(one, other), accused(other, one)]


def _involved(others: Ints) -> list[int]:
    """The first few, each once, in their order."""
    return list(dict.fromkeys(other for other in others.tolist() if other >= 0))[:MOST_OTHERS]


RULES: dict[str, type[Rule]] = {}
"""All rules by name, in the order in which they are listed."""

MODEL = "model"
"""The rule and family of what a trained model finds, which is added by `Findings.plus`: the audit needs none."""


def says(rule: str) -> str:
    """What a rule says, in one line; nothing for one that is not known."""
    if rule == MODEL:
        return "a trained model holds other answers for far likelier"
    return RULES[rule].says if rule in RULES else ""


def register(name: str) -> Callable[[type[Rule]], type[Rule]]:
    """Make a rule known by a name: `@register("my-rule")` above its class."""
    return register_in(RULES, name)
