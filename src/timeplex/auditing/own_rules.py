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
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import BaseModel, Field, PlainValidator, ValidationError, ValidationInfo, create_model

from timeplex.errors import InputError, UnknownNameError
from timeplex.files import read_toml
from timeplex.kb import date_spellings, dates, spans
from timeplex.kb.dates import State
from timeplex.kb.facts import TemporalKB
from timeplex.text import did_you_mean, quoted

MOST = 10**7
"""Numbers are smaller than this."""


def _relation(name: object, info: ValidationInfo) -> int:
    """The number of a relation, given by its name or its label; the context is the KB, and where the table stands."""
    if not isinstance(name, str):
        raise ValueError
    context: Any = info.context
    kb, where = context
    labels = {label: original for original, label in kb.relations.labels.items()}
    original = name if name in kb.relations else labels.get(name)
    if original is None:
        problem = f"{where} {info.field_name}: {kb.name} has no relation {quoted(name)}."
        raise UnknownNameError(problem, _closest(name, [*kb.relations, *labels]))
    return int(kb.relations.id(original))


def _date(value: object, info: ValidationInfo) -> tuple[int, int]:
    """The first and the last instant of a date."""
    if not (type(value) is int and abs(value) < MOST) and not isinstance(value, str | date):
        raise ValueError
    parsed = date_spellings.parse(pl.Series([str(value)]))
    context: Any = info.context
    first, last = dates.place(parsed, context[0].granularity)
    if parsed.state[0] != State.KNOWN or any(side.any() for side in spans.is_open((first, last))):
        raise ValueError
    return int(first[0]), int(last[0])


Relation = Annotated[int, PlainValidator(_relation), "a relation"]
Date = Annotated[tuple[int, int], PlainValidator(_date), "a date"]
Number = Annotated[int, Field(strict=True, gt=-MOST, lt=MOST), "a whole number of at most 7 digits"]
Side = Annotated[Literal["subject", "object"], '"subject" or "object"']

LIMITS: dict[str, Any] = {"at_least": (Number, 0), "at_most": (Number, 0)}
TABLES: dict[str, dict[str, Any]] = {
    "dates": {"from": (Date, ...), "to": (Date, ...), "relation": (Relation, 0)},
    "duration": {"relation": (Relation, ...), **LIMITS},
    "ordering": {"first": (Relation, ...), "second": (Relation, ...)},
    "gap": {"first": (Relation, ...), "second": (Relation, ...), **LIMITS},
    "one-at-a-time": {"relation": (Relation, ...), "per": (Side, "subject")},
    "lifespan": {"birth": (Relation, ...), "death": (Relation, ...)},
    "contradiction": {"relation": (Relation, ...)},
    "missing-mirror": {"relation": (Relation, ...)},
}
"""The keys of each table and what they hold; one that has no `...` may be left out."""


@dataclass(frozen=True)
class OwnRules:
    """The user's tables by name, with the keys that were given. Relations are numbers, dates (first, last) instants."""

    tables: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)

    def of(self, table: str) -> list[dict[str, Any]]:
        """The user's tables of one name."""
        return self.tables.get(table, [])


def read_own_rules(source: str | Path | Mapping[str, Any] | None, kb: TemporalKB) -> OwnRules:
    """The rules of a TOML file, or of a mapping of the same shape; what cannot be meant is an error that says where."""
    if source is None:
        return OwnRules()
    given, called = (source, "the rules") if isinstance(source, Mapping) else (read_toml(Path(source)), str(source))
    tables: dict[str, list[dict[str, Any]]] = {}
    for name, entries in given.items():
        if name not in TABLES:
            raise UnknownNameError(f"{called}: there is no rule [[{name[:80]}]] to write.", _closest(name, TABLES))
        if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
            raise InputError(f"{called}: {name} is not a list of tables.", f"Write [[{name}]], with two brackets.")
        tables[name] = [_checked(TABLES[name], entry, kb, f"{called}: [[{name}]]") for entry in entries]
    return OwnRules(tables)


def _checked(keys: Mapping[str, Any], entry: Mapping[str, Any], kb: TemporalKB, where: str) -> dict[str, Any]:
    """One table with its values made numbers."""
    for key in entry:
        if key not in keys:
            raise UnknownNameError(f"{where} has no key {quoted(key)}.", _closest(key, keys))
    table: type[BaseModel] = create_model("Table", **keys)
    try:
        checked = table.model_validate(dict(entry), context=(kb, where))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        key = str(first["loc"][0])
        if first["type"] == "missing":
            raise InputError(f"{where} lacks the key {key!r}.", f"Its keys are {', '.join(keys)}.") from error
        problem = f"{where} {key} is {quoted(first['input'])}, which is not {keys[key][0].__metadata__[-1]}."
        raise InputError(problem, "See docs/audit.md for an example.") from error
    if keys.keys() >= LIMITS.keys() and not entry.keys() & LIMITS.keys():
        raise InputError(f"{where} limits nothing.", "Give at_least, at_most or both.")
    return checked.model_dump(exclude_unset=True)


def _closest(name: str, names: Iterable[str]) -> str:
    names = list(names)
    return did_you_mean(name, names) or f"There are {', '.join(names[:12])}{' …' if len(names) > 12 else ''}."
