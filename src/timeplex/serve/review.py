"""The review queue: what there is to decide, one after the other, and what was decided of it.

finding    a fact that may be wrong, with all rules that say so, most suspicious first
hole       a fact whose begin or end is not known, with what the patterns say of it
proposal   a fact that is not in the KB, most likely first
"""

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np

from timeplex.auditing.case import Repair
from timeplex.decisions.applying import stated
from timeplex.decisions.journal import MOST_NOTE, Decision, Decisions, Kind, Stated, instants_of
from timeplex.errors import InputError, UnknownNameError
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.serve.limits import MOST_ANSWERS
from timeplex.serve.service import Service
from timeplex.text import span
from timeplex.typing import Ints

KINDS: tuple[Kind, ...] = get_args(Kind)
Row = dict[str, Any]

MOST_WAYS = 4
"""So many ways to accept a finding are offered."""
MOST_BESIDE = 6
"""So many facts of the same sort are shown beside one that is in question."""


@dataclass(frozen=True)
class Way:
    """A way to accept an item: what it does, and how it is said on a button."""

    action: str
    new: Stated | None
    said: str


@dataclass(frozen=True)
class Item:
    """Something to decide. `facts` are to be drawn with it, as `Service.facts_of` tells them."""

    kind: Kind
    number: int
    fact: Stated
    row: int | None
    why: list[Row] = field(default_factory=list)
    ways: list[Way] = field(default_factory=list)
    others: list[Row] = field(default_factory=list)
    probability: float | None = None
    hint: str = ""
    context: list[Row] = field(default_factory=list)
    likely: bool = True

    @property
    def key(self) -> str:
        """By which a form says what it was about: a number alone might mean another one by now."""
        text = "\0".join([self.kind, *(side or "" for side in vars(self.fact).values())])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Review:
    """What there is to decide in a KB, and the decisions."""

    def __init__(self, service: Service, decisions: Decisions | None = None) -> None:
        self.service, self.kb = service, service.kb
        self.decisions = Decisions(service.kb) if decisions is None else decisions
        self.found_proposals: list[Row] | None = None
        self._lock = threading.Lock()

    # What there is ------------------------------------------------------------------------------------------------

    def numbers(self, kind: Kind) -> Sequence[int]:
        """The numbers of the items of a kind, in the order of the queue."""
        if kind == "finding":
            return self._suspicious
        return self._open.tolist() if kind == "hole" else range(len(self.proposals()))

    @cached_property
    def _suspicious(self) -> list[int]:
        """Rows of suspicious facts, each once, most suspicious first."""
        return list(dict.fromkeys(self.service.findings_found().rows.tolist()))

    @cached_property
    def _open(self) -> Ints:
        """Rows of facts that lack a date; first of the relations that seldom lack it, where it is rather missing."""
        facts, relations = self.kb.facts, len(self.kb.relations)
        number = np.bincount(facts.r, minlength=relations)
        rows, worst = np.flatnonzero(~facts.closed), np.zeros(len(facts))
        for known in (facts.has_begin, facts.has_end):
            share = np.bincount(facts.r[~known], minlength=relations) / np.maximum(number, 1)
            worst = np.maximum(worst, np.where(known, 0.0, share[facts.r]))
        return rows[np.argsort(worst[rows], kind="stable")]

    def proposals(self) -> list[Row]:
        """What `discover` proposes; the first time it takes from seconds to minutes."""
        if self.found_proposals is None:
            self.found_proposals = self.service.discover(limit=MOST_ANSWERS)["items"]
        return self.found_proposals

    def fact_of(self, kind: Kind, number: int) -> Stated:
        """The fact that an item is about."""
        if kind != "proposal":
            return self._stated(number)
        rows = self.proposals()
        if not 0 <= number < len(rows):
            raise UnknownNameError(f"There is no proposal {number:,}.", f"There are {len(rows):,}.")
        row = rows[number]
        names = row["subject"]["id"], row["relation"]["id"], row["object"]["id"]
        return Stated(*names, row["begin"], row["end"])

    def _stated(self, row: int) -> Stated:
        if not 0 <= row < len(self.kb.facts):
            raise UnknownNameError(f"There is no fact {row:,}.", f"There are {len(self.kb.facts):,}.")
        return stated(self.kb, row)

    def decision(self, kind: Kind, number: int) -> Decision | None:
        """What was decided of an item."""
        return self.decisions.of(kind, self.fact_of(kind, number))

    def left(self, kind: Kind) -> int:
        """How many items of a kind are not decided."""
        decided = sum(item[0] == kind for item in self.decisions.current)
        return max(0, len(self.numbers(kind)) - decided)

    def next(self, kind: Kind, after: int | None = None) -> int | None:
        """The first item that is not decided, after another one if there is one; then from the start."""
        numbers = self.numbers(kind)
        if not len(numbers):
            return None
        start = numbers.index(after) + 1 if after is not None and after in numbers else 0
        decided = {item[1] for item in self.decisions.current if item[0] == kind}
        for number in [*numbers[start:], *numbers[:start]]:
            if self.fact_of(kind, number) not in decided:
                return number
        return None

    def beside(self, kind: Kind, number: int) -> tuple[int | None, int | None, int]:
        """The items before and after one in the queue, and its place (from 1)."""
        numbers = self.numbers(kind)
        if number not in numbers:
            raise UnknownNameError(f"{number:,} is not in this queue.", "Start from its begin: /review")
        at = numbers.index(number)
        before, after = (numbers[at - 1] if at else None), (numbers[at + 1] if at + 1 < len(numbers) else None)
        return before, after, at + 1

    # One item -----------------------------------------------------------------------------------------------------

    def item(self, kind: Kind, number: int) -> Item:
        """An item with all that is said of it."""
        fact = self.fact_of(kind, number)
        if kind == "finding":
            return self._finding(number, fact)
        return self._hole(number, fact) if kind == "hole" else self._proposal(number, fact)

    def _finding(self, row: int, fact: Stated) -> Item:
        findings = self.service.findings_found()
        places = np.flatnonzero(findings.rows == row)
        if not len(places):
            raise UnknownNameError("Nothing is said against this fact.", "Start from the begin: /review")
        why = [self.service.finding(int(place)) for place in places]
        others = {other["row"]: other for each in why for other in each["others"]}
        ways = dict.fromkeys(self._way(fact, repair) for each in self._repairs.get(row, ()) for repair in each)
        suggestions = dict.fromkeys(str(each["suggestion"]) for each in why)
        suspicion = float(why[0]["suspicion"])
        told = list(others.values())
        said = " ".join(suggestions)
        beside = self._beside(row, {row, *others})
        return Item("finding", row, fact, row, why, list(ways)[:MOST_WAYS], told, suspicion, said, beside)

    def _beside(self, row: int, told: set[int]) -> list[Row]:
        """Facts of the same subject and relation, or relation and object, that are nearest in time."""
        facts = self.kb.facts
        s, r, o = int(facts.s[row]), int(facts.r[row]), int(facts.o[row])
        near = np.union1d(facts.of_subject_relation(s, r), facts.of_relation_object(r, o))
        near = near[~np.isin(near, list(told)) & facts.dated[near]]
        apart = np.abs(facts.date[near] - facts.date[row])
        chosen = near[np.argsort(apart, kind="stable")][:MOST_BESIDE]
        return self.service.facts_of(chosen[np.argsort(facts.date[chosen], kind="stable")])

    @cached_property
    def _repairs(self) -> dict[int, list[Sequence[Repair]]]:
        """The repairs of each suspicious fact by its row, those of the severest rule first."""
        findings = self.service.findings_found()
        if findings.case is None:
            return {}
        named: dict[int, list[tuple[float, Sequence[Repair]]]] = {}
        for found in findings.found:
            for place, repairs in enumerate(found.repairs):
                if repairs:
                    row = int(findings.case.rows[found.fact[place]])
                    named.setdefault(row, []).append((-float(found.severity[place]), repairs))
        return {row: [each for _, each in sorted(some, key=lambda pair: pair[0])] for row, some in named.items()}

    def _way(self, fact: Stated, repair: Repair) -> Way:
        columns = (np.array([value]) for value in (repair.s, repair.r, repair.o, repair.begin, repair.end))
        new = stated(_only(self.kb, Facts(*columns)), 0)
        if repair.adds:
            label = f"Add {self._label(new.subject)} {new.relation} {self._label(new.object)}"
            return Way("add", new, f"{label} ({span(new.begin, new.end)})")
        if new.object != fact.object:
            return Way("change", new, f"Object → {self._label(new.object)}")
        return Way("change", new, f"{span(fact.begin, fact.end)} → {span(new.begin, new.end)}")

    def _label(self, name: str) -> str:
        return self.kb.entities.label(self.kb.entities.id(name))

    def _hole(self, row: int, fact: Stated) -> Item:
        names = {"subject": fact.subject, "relation": fact.relation, "object": fact.object}
        (told,) = self.service.fill([{**names, "begin": fact.begin, "end": fact.end}])
        new = replace(fact, begin=fact.begin or told["begin"], end=fact.end or told["end"])
        ways = [] if new == fact else [Way("change", new, f"{span(fact.begin, fact.end)} → {span(new.begin, new.end)}")]
        going_on = told["still_going_on"]
        hint = "" if going_on is None else f"Such a fact still goes on with a probability of {going_on:.2f}."
        why: list[Row] = [{"rule": "missing date", "message": told["reason"], "support": None}]
        likely = going_on is None or going_on < 0.5
        return Item("hole", row, fact, row, why, ways, [], told["probability"], hint, self._beside(row, {row}), likely)

    def _proposal(self, number: int, fact: Stated) -> Item:
        row = self.proposals()[number]
        why: list[Row] = [{"rule": "not in the KB", "message": row["reason"], "support": None}]
        way = Way("add", fact, "Add the fact")
        return Item("proposal", number, fact, None, why, [way], [], float(row["probability"]))

    # Deciding -----------------------------------------------------------------------------------------------------

    def decide(self, kind: str, number: int, key: str, form: dict[str, str]) -> Decision:
        """Take the decision that a form asks for; `do` is the button.

        accept-N     the Nth way (from 0)
        dates        the begin and end of the form instead
        remove, reject, skip
        """
        known = _kind(kind)
        item = self.item(known, number)
        if item.key != key:
            raise InputError("The queue has changed since this page was made.", "Open it again: /review")
        do, note = form.get("do", ""), form.get("note", "").strip()[: MOST_NOTE + 1]
        why = "; ".join(dict.fromkeys(each["rule"] for each in item.why))
        taken = Decision(known, "skip", item.fact, why=why, note=note)
        if do in ("reject", "skip"):
            return self._add(replace(taken, verdict="reject" if do == "reject" else "skip"))
        taken = replace(taken, verdict="accept")
        if do == "remove" and known != "proposal":
            return self._add(replace(taken, action="remove"))
        if do == "dates":
            begin, end = (form.get(side, "").strip() or None for side in ("begin", "end"))
            new = self._in_our_dates(replace(item.fact, begin=begin, end=end))
            if known != "proposal" and new == item.fact:
                raise InputError("These are the dates that the fact has.", "Change one, or say that it is right.")
            return self._add(replace(taken, action="add" if known == "proposal" else "change", new=new))
        ways = {f"accept-{at}": way for at, way in enumerate(item.ways)}
        if do not in ways:
            raise InputError("This is no decision.", "Use the buttons of the page.")
        way = ways[do]
        return self._add(replace(taken, action="add" if way.action == "add" else "change", new=way.new))

    def _add(self, decision: Decision) -> Decision:
        return self.decisions.add(decision)

    def _in_our_dates(self, fact: Stated) -> Stated:
        """Dates as the KB writes them, whatever way they were typed."""
        begin, end = fact.begin, fact.end
        if begin is not None:
            begin = self._written(begin, "begin")
        if end is not None:
            end = self._written(end, "end")
        return replace(fact, begin=begin, end=end)

    def _written(self, text: str, side: str) -> str:
        if len(text) > 40:
            raise InputError("That is no date.", "Write it as 2000, 2000-05 or 2000-05-17.")
        return str(self.kb.date(instants_of([text], self.kb, side)[0]))


def _only(kb: TemporalKB, facts: Facts) -> TemporalKB:
    """The KB with these facts alone."""
    return replace(kb, splits={"train": facts})


def _kind(text: str) -> Kind:
    for kind in KINDS:
        if kind == text:
            return kind
    raise UnknownNameError("There is no such queue.", f"The queues are {', '.join(KINDS)}.")
