"""The KB that decisions ask for, and what became of each.

    changed to  = the new facts of `change`           removed  = the facts of `change` and `remove`
    new KB      = KB − removed + changed to + the new facts of `add`, each stated once

What several decisions want at odds with each other is not done but said, so that doing it again changes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import numpy as np
import polars as pl

from timeplex.decisions.journal import FACT, NEW, Decision, Kind, Row, Stated, placed, replay
from timeplex.kb.facts import SPLITS, Facts, TemporalKB


@dataclass(frozen=True)
class Change:
    """What became of a decision that was accepted.

    outcome   changed, merged (into a fact that was stated already), removed, added, already (so), or conflict
    """

    outcome: str
    decision: Decision
    facts: int
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Applied:
    """The new KB, and what became of each decision. Counts are of facts, for `already` and conflicts of decisions."""

    kb: TemporalKB
    before: TemporalKB
    changes: tuple[Change, ...]
    rejected: int
    skipped: int

    def count(self, outcome: str) -> int:
        """How many facts came out so; decisions for `already` and `conflict`."""
        mine = [change for change in self.changes if change.outcome == outcome]
        return len(mine) if outcome in ("already", "conflict") else sum(change.facts for change in mine)

    @property
    def conflicts(self) -> list[str]:
        """What was not done, and why, in sentences."""
        return [
            f"{change.decision.action} {change.decision.fact}: {change.reason}"
            for change in self.changes
            if change.outcome == "conflict"
        ]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        outcomes = ("changed", "merged", "removed", "added", "already", "conflict")
        counts = {outcome: self.count(outcome) for outcome in outcomes}
        return {
            "kb": self.before.name,
            "facts_before": len(self.before),
            "facts": len(self.kb),
            **counts,
            "rejected": self.rejected,
            "skipped": self.skipped,
            "changes": self.table().to_dicts(),
        }

    def table(self) -> pl.DataFrame:
        """A row a decision that was accepted: outcome, reason, the fact before and after, its number of facts, note."""
        rows = []
        for change in self.changes:
            decision, new = change.decision, change.decision.new
            named = {} if new is None else asdict(new)
            rows.append(
                {
                    "outcome": change.outcome,
                    "reason": change.reason or None,
                    "action": decision.action,
                    **asdict(decision.fact),
                    **{name: named.get(name.removeprefix("new_")) for name in NEW},
                    "facts": change.facts,
                    "note": decision.note or None,
                }
            )
        texts = dict.fromkeys(("outcome", "reason", "action", *FACT, *NEW), pl.String)
        return pl.DataFrame(rows, schema={**texts, "facts": pl.Int64, "note": pl.String})


def apply(kb: TemporalKB, decisions: Iterable[Decision]) -> Applied:
    """The KB that decisions ask for. `decisions` are those of a file, undone ones too.

    A changed fact keeps its split and its source, an added one is a train fact, names stay. If nothing changes, the KB
    is the same object.
    """
    settled = list(replay(decisions).values())
    kinds = get_args(Kind)
    accepted = [each for each in settled if each.verdict == "accept"]
    accepted.sort(key=lambda each: kinds.index(each.kind))  # stable: findings before holes before proposals
    work = _Work(kb, accepted, [each.fact for each in settled if each.kind == "proposal" and each.verdict == "reject"])
    changes = work.done()
    return Applied(
        work.result(),
        kb,
        tuple(changes),
        sum(each.verdict == "reject" for each in settled),
        sum(each.verdict == "skip" for each in settled),
    )


class _Work:
    """The facts while decisions are carried out: which rows are gone, what others become, what is added."""

    def __init__(self, kb: TemporalKB, accepted: Sequence[Decision], refused: Sequence[Stated]) -> None:
        self.kb, self.accepted = kb, accepted
        every = [each.fact for each in accepted] + [each.new or each.fact for each in accepted] + list(refused)
        known = placed(every, kb)
        number = len(accepted)
        self.items, self.news = known[:number], known[number : 2 * number]
        self.refused = {row for row in known[2 * number :] if row is not None}
        self.rows = self._rows(self.items)
        self.becomes: dict[int, Row] = {}
        self.gone: set[int] = set()
        self.added: list[Row] = []

    def _rows(self, wanted: Sequence[Row | None]) -> list[list[int]]:
        """The rows of `kb.facts` that state each fact."""
        facts, found = self.kb.facts, list[list[int]]()
        for row in wanted:
            if row is None:
                found.append([])
                continue
            s, r, o, begin, end = row
            rows = facts.of_subject_relation(s, r)
            same = (facts.o[rows] == o) & (facts.begin[rows] == begin) & (facts.end[rows] == end)
            found.append(rows[same].tolist())
        return found

    def done(self) -> list[Change]:
        """Carry all out: first what goes, then what changes, then what is added; in the order of the decisions."""
        moved = {
            item: each
            for item, new, each in reversed(list(zip(self.items, self.news, self.accepted, strict=True)))
            if item is not None and (each.action == "remove" or (each.action == "change" and item != new))
        }
        outcome: dict[int, Change] = {}
        for action in ("remove", "change", "add"):
            for at, decision in enumerate(self.accepted):
                if decision.action == action:
                    outcome[at] = self._carry_out(at, decision, moved)
        return [outcome[at] for at in range(len(self.accepted))]

    def _carry_out(self, at: int, decision: Decision, moved: Mapping[Row, Decision]) -> Change:
        item, new, rows = self.items[at], self.news[at], self.rows[at]
        if item is not None and moved.get(item, decision) is not decision and decision.action != "add":
            first = moved[item]
            if first.action != decision.action or first.new != decision.new:
                return Change("conflict", decision, 0, f"another decision on it was taken first ({first.action})")
            return Change("already", decision, 0)
        if decision.action == "remove":
            self.gone.update(rows)
            return Change("removed", decision, len(rows)) if rows else Change("already", decision, 0)
        if new is None:
            return Change("conflict", decision, 0, f"the KB does not have the names of {decision.new}")
        if new == item and decision.action == "change":
            return Change("already" if rows else "conflict", decision, 0, "" if rows else "it is not in the KB")
        if new in moved:
            return Change("conflict", decision, 0, f"another decision takes {decision.new} away")
        if new in self.refused:
            return Change("conflict", decision, 0, f"another decision rejects {decision.new}")
        stated = self._is_stated(new)
        if decision.action == "add":
            if not stated:
                self.added.append(new)
            return Change("already", decision, 0) if stated else Change("added", decision, 1)
        if not rows:
            return Change("already", decision, 0) if stated else Change("conflict", decision, 0, "it is not in the KB")
        if stated:
            self.gone.update(rows)
            return Change("merged", decision, len(rows), f"{decision.new} was stated already")
        self.becomes.update(dict.fromkeys(rows, new))
        return Change("changed", decision, len(rows))

    def _is_stated(self, row: Row) -> bool:
        there = any(each not in self.gone and each not in self.becomes for each in self._rows([row])[0])
        return there or row in self.added or row in self.becomes.values()

    def result(self) -> TemporalKB:
        """The new KB."""
        if not (self.gone or self.becomes or self.added):
            return self.kb
        facts = self.kb.facts
        columns = [column.copy() for column in facts.columns]
        for row, new in self.becomes.items():
            for column, value in zip(columns, new, strict=True):
                column[row] = value
        kept = np.ones(len(facts), bool)
        kept[list(self.gone)] = False
        changed, splits, start = Facts(*columns, source=facts.source), dict[str, Facts](), 0
        for split in SPLITS:
            if split in self.kb.splits:
                stop = start + len(self.kb.splits[split])
                splits[split] = changed[start:stop][np.flatnonzero(kept[start:stop])]
                start = stop
        if self.added:
            splits["train"] = splits["train"] + Facts(*np.array(self.added, np.int64).T)
        return replace(self.kb, splits=splits)


def stated(kb: TemporalKB, row: int) -> Stated:
    """A fact of a KB, by its row in `kb.facts`, as decisions name it."""
    facts = kb.facts
    names = kb.entities[int(facts.s[row])], kb.relations[int(facts.r[row])], kb.entities[int(facts.o[row])]
    return Stated(*names, kb.date(int(facts.begin[row])), kb.date(int(facts.end[row])))
