"""Rules that a user writes in TOML, checked against the KB's relations.

    [[ordering]]
    first = "educatedAt"
    second = "diedIn"

Each table has the name of the rule that it belongs to; `TABLES` lists their keys.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl

from timeplex.errors import InputError, UnknownNameError
from timeplex.files import read_toml
from timeplex.kb import date_spellings, dates, spans
from timeplex.kb.dates import State
from timeplex.kb.facts import TemporalKB
from timeplex.text import did_you_mean, quoted

RELATION, NUMBER, DATE, SIDE = "a relation", "a whole number of at most 7 digits", "a date", '"subject" or "object"'

TABLES: dict[str, dict[str, str]] = {
    "dates": {"from": DATE, "to": DATE, "relation?": RELATION},
    "duration": {"relation": RELATION, "at_least?": NUMBER, "at_most?": NUMBER},
    "ordering": {"first": RELATION, "second": RELATION},
    "gap": {"first": RELATION, "second": RELATION, "at_least?": NUMBER, "at_most?": NUMBER},
    "one-at-a-time": {"relation": RELATION, "per?": SIDE},
    "lifespan": {"birth": RELATION, "death": RELATION},
    "contradiction": {"relation": RELATION},
    "missing-mirror": {"relation": RELATION},
}
"""The keys of each table and what they hold; a key with a question mark may be left out."""

Value = int | str


@dataclass(frozen=True)
class OwnRules:
    """The user's tables by name. Relations are numbers, dates instants: (first, last) as `from` and `to` mean them."""

    tables: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)

    def of(self, table: str) -> list[dict[str, Any]]:
        """The user's tables of one name."""
        return self.tables.get(table, [])


def read_own_rules(source: str | Path | Mapping[str, Any] | None, kb: TemporalKB) -> OwnRules:
    """The rules of a TOML file, or of a mapping of the same shape; what cannot be meant is an error that says where."""
    if source is None:
        return OwnRules()
    if isinstance(source, Mapping):
        return _checked(source, kb, "the rules")
    return _checked(read_toml(Path(source)), kb, str(source))


def _checked(given: Mapping[str, Any], kb: TemporalKB, source: str) -> OwnRules:
    tables: dict[str, list[dict[str, Any]]] = {}
    for name, entries in given.items():
        if name not in TABLES:
            raise UnknownNameError(f"{source}: there is no rule [[{name[:80]}]] to write.", _closest(name, TABLES))
        if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
            raise InputError(f"{source}: {name} is not a list of tables.", f"Write [[{name}]], with two brackets.")
        tables[name] = [_entry(name, entry, kb, source) for entry in entries]
    return OwnRules(tables)


def _entry(table: str, entry: Mapping[str, Any], kb: TemporalKB, source: str) -> dict[str, Any]:
    """One table with its values checked and made numbers."""
    keys = {key.removesuffix("?"): what for key, what in TABLES[table].items()}
    where = f"{source}: [[{table}]]"
    for key in entry:
        if key not in keys:
            raise UnknownNameError(f"{where} has no key {quoted(key)}.", _closest(key, keys))
    for key in TABLES[table]:
        if not key.endswith("?") and key not in entry:
            raise InputError(f"{where} lacks the key {key!r}.", f"Its keys are {', '.join(keys)}.")
    checked = {key: _value(value, keys[key], kb, f"{where} {key}") for key, value in entry.items()}
    if {"at_least", "at_most"} <= set(keys) and not {"at_least", "at_most"} & set(checked):
        raise InputError(f"{where} limits nothing.", "Give at_least, at_most or both.")
    return checked


def _value(value: Any, what: str, kb: TemporalKB, where: str) -> Any:
    if what == RELATION and isinstance(value, str):
        return _relation(value, kb, where)
    if what == NUMBER and type(value) is int and abs(value) < 10**7:
        return value
    if what == SIDE and value in ("subject", "object"):
        return value
    if what == DATE and ((type(value) is int and abs(value) < 10**7) or isinstance(value, str | date)):
        parsed = date_spellings.parse(pl.Series([str(value)]))
        first, last = dates.place(parsed, kb.granularity)
        if parsed.state[0] == State.KNOWN and not any(side.any() for side in spans.is_open((first, last))):
            return int(first[0]), int(last[0])
    raise InputError(f"{where} is {quoted(value)}, which is not {what}.", "See docs/audit.md for an example.")


def _relation(name: str, kb: TemporalKB, where: str) -> int:
    """The number of a relation, given by its name or its label."""
    if name in kb.relations:
        return kb.relations.id(name)
    labels = {label: original for original, label in kb.relations.labels.items()}
    if name in labels:
        return kb.relations.id(labels[name])
    raise UnknownNameError(
        f"{where}: {kb.name} has no relation {quoted(name)}.", _closest(name, [*kb.relations, *labels])
    )


def _closest(name: str, names: Iterable[str]) -> str:
    names = list(names)
    return did_you_mean(name, names) or f"There are {', '.join(names[:12])}{' …' if len(names) > 12 else ''}."
