"""Decisions that were applied as commands for Wikidata's QuickStatements, where ids are Wikidata's."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from timeplex.decisions.applying import Applied, Change
from timeplex.decisions.journal import Stated, placed
from timeplex.files import write_whole

ENTITY, PROPERTY = re.compile(r"Q[1-9][0-9]{0,11}"), re.compile(r"P[1-9][0-9]{0,8}")
BEGIN_AT, END_AT, AT = "P580", "P582", "P585"
"""Start time, end time and point in time at Wikidata."""


@dataclass(frozen=True)
class QuickStatements:
    """Commands for Wikidata's QuickStatements, and the decisions that they cannot say, with the reason of each."""

    lines: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def commands(applied: Applied) -> QuickStatements:
    """What was changed, removed and added as commands, a line each, where all ids are Wikidata's.

    A date cannot be changed there: the statement is removed and made again with the other dates, which only says what
    is meant if the KB states the same of the two once. A date that was open is added to the statement that is there.
    """
    found = QuickStatements()
    for change in applied.changes:
        if change.outcome in ("already", "conflict"):
            continue
        reason = _cannot_say(change, applied)
        if reason:
            found.left_out.append(f"{change.decision.action} {change.decision.fact}: {reason}")
            continue
        found.lines.extend(_commands(change))
    return found


def _cannot_say(change: Change, applied: Applied) -> str:
    fact, new = change.decision.fact, change.decision.new
    entities = [fact.subject, fact.object, *([new.subject, new.object] if new else [])]
    if not all(map(ENTITY.fullmatch, entities)) or not PROPERTY.fullmatch(fact.relation):
        return "its ids are not Wikidata's"
    if change.outcome == "merged":
        return "what is stated twice in the KB may be one statement there"
    if change.outcome != "added":
        (place,) = placed([fact], applied.before)
        if place is not None:
            facts = applied.before.facts
            rows = facts.of_subject_relation(place[0], place[1])
            if len({(b, e) for _, _, o, b, e in facts[rows] if o == place[2]}) > 1:
                return "the KB states it at several times, and a command cannot say which one is meant"
    return ""


def _commands(change: Change) -> list[str]:
    fact, new = change.decision.fact, change.decision.new
    removal = f"-{fact.subject}\t{fact.relation}\t{fact.object}"
    if new is None:
        return [removal]
    made = "\t".join([new.subject, new.relation, new.object, *_qualifiers(new)])
    grown = all(old in (None, later) for old, later in ((fact.begin, new.begin), (fact.end, new.end)))
    same = (fact.subject, fact.object) == (new.subject, new.object)
    event = new.begin == new.end and fact.begin is not None  # another property would be needed
    if change.outcome == "added" or (same and grown and not event):
        return [made]
    return [removal, made]


def _qualifiers(fact: Stated) -> list[str]:
    """The dates as qualifiers: one point in time for an event."""
    if fact.begin and fact.begin == fact.end:
        return [AT, _wikidata_date(fact.begin)]
    pairs = ((BEGIN_AT, fact.begin), (END_AT, fact.end))
    return [text for name, date in pairs if date for text in (name, _wikidata_date(date))]


def _wikidata_date(date: str) -> str:
    """`+1999-05-00T00:00:00Z/10`: the number says how precise it is."""
    sign, digits = ("-", date[1:]) if date.startswith("-") else ("+", date)
    year, month, day = (*digits.split("-"), "00", "00")[:3]
    precision = 9 + digits.count("-")
    return f"{sign}{int(year):04}-{month}-{day}T00:00:00Z/{precision}"


def write(found: QuickStatements, path: Path) -> None:
    """Write the commands, a line each; the file appears whole or not at all."""
    write_whole(path, "".join(f"{line}\n" for line in found.lines).encode())
