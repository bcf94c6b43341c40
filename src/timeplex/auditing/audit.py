"""`audit`: what is probably wrong in a KB."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import timeplex.auditing.rules  # noqa: F401 - makes the rules known
from timeplex.auditing.base import MODEL, RULES
from timeplex.auditing.case import AuditContext
from timeplex.auditing.evidence import LEAST_CASES
from timeplex.auditing.findings import Findings, rank, read_earlier
from timeplex.auditing.own_rules import read_own_rules
from timeplex.errors import UnknownNameError
from timeplex.kb.facts import TemporalKB
from timeplex.text import did_you_mean
from timeplex.typing import Progress

ENTITIES = "unlikely-entity"
"""The rule that is asked only if one wants it: it takes long, and many of its findings are false alarms."""


def audit(
    kb: TemporalKB,
    *,
    rules: str | Path | Mapping[str, Any] | None = None,
    mute: Iterable[str] = (),
    since: str | Path | pl.DataFrame | None = None,
    entities: bool = False,
    on_progress: Progress | None = None,
) -> Findings:
    """Find the facts of a KB that are probably wrong, by rules mined from its own facts.

    `rules` is a TOML file with rules of your own (or a mapping of the same shape), `mute` names rules to leave out,
    `since` is the table of an earlier audit, whose findings are not told again; those of rules that are left out now
    are passed over. `entities` asks also for unlikely objects, which takes a minute or so. `on_progress` is called with
    (steps done, all steps) by what takes long.

    >>> import timeplex
    >>> findings = timeplex.audit(timeplex.read("sample"))
    >>> findings.to_polars().columns[:4]
    ['rank', 'suspicion', 'severity', 'rule']
    """
    muted = _known_rules(mute) | (set() if entities else {ENTITIES})
    case = AuditContext.of(kb, read_own_rules(rules, kb), on_progress)
    earlier = None if since is None else read_earlier(since)
    case.notes.extend(_too_few(case))
    findings = rank(case, [rule().find(case) for name, rule in RULES.items() if name not in muted])
    return findings if earlier is None else findings.since(earlier)


def _known_rules(names: Iterable[str]) -> set[str]:
    chosen = set(names)
    rules = [*RULES, MODEL]
    for name in sorted(chosen - set(rules)):
        hint = did_you_mean(name, rules) or f"The rules are {', '.join(rules)}."
        raise UnknownNameError(f"There is no rule {name!r}.", hint)
    return chosen


def _too_few(case: AuditContext) -> list[str]:
    """Which relations have too few dated facts for any habit."""
    dated = np.bincount(case.facts.r[case.evidence.known], minlength=len(case.kb.relations))
    if not dated.any():
        return ["No fact has a date: only what needs none was checked."]
    few = np.flatnonzero((dated < LEAST_CASES) & (np.bincount(case.facts.r, minlength=len(dated)) > 0))
    if len(few) == 0:
        return []
    names = ", ".join(case.relation(relation) for relation in few[:8]) + (" …" if len(few) > 8 else "")
    return [f"Fewer than {LEAST_CASES} dated facts, too few for a habit: {names}."]
