"""Facts and the temporal KB that holds them: integer columns, names both ways, splits, fast look-ups."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from timeplex.errors import InputError
from timeplex.kb import dates, spans
from timeplex.kb.dates import Granularity
from timeplex.kb.names import Names
from timeplex.kb.problems import FACT, Problems
from timeplex.kb.timeline import Kind, Timeline
from timeplex.text import counted
from timeplex.typing import Bools, Codes, Ints

if TYPE_CHECKING:
    import pandas as pd

SPLITS = ("train", "valid", "test")


class Index:
    """Rows by key, from one sort: `rows(key)` for one key, `ranges(keys)` for many at once.

    `order` lists the rows grouped by key; the rows of a key are order[start:stop].
    """

    def __init__(self, keys: Ints) -> None:
        self.order = np.argsort(keys, kind="stable")
        self.keys, self._starts = np.unique(keys[self.order], return_index=True)
        self._stops = np.append(self._starts[1:], len(keys))

    def ranges(self, keys: ArrayLike) -> tuple[Ints, Ints]:
        """(start, stop) in `order` for each key; start = stop where a key has no row."""
        keys = np.asarray(keys, np.int64)
        if len(self.keys) == 0:
            return np.zeros(keys.shape, np.int64), np.zeros(keys.shape, np.int64)
        where = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        found = self.keys[where] == keys
        return np.where(found, self._starts[where], 0), np.where(found, self._stops[where], 0)

    def matches(self, keys: ArrayLike) -> tuple[Ints, Ints]:
        """All pairs (position in `keys`, row that has this key), by position."""
        position, place = expand(*self.ranges(keys))
        return position, self.order[place]

    def rows(self, key: int) -> Ints:
        """The rows that have this key, in their own order."""
        start, stop = self.ranges(key)
        return self.order[start:stop]


def expand(start: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """Every number of every range start … stop − 1: (which range, the number), both (Σ lengths,)."""
    lengths = stop - start
    which = np.repeat(np.arange(len(lengths)), lengths)
    begins = np.cumsum(lengths) - lengths
    return which, np.arange(len(which)) - np.repeat(begins - start, lengths)


def pair_key(first: ArrayLike, second: ArrayLike) -> Ints:
    """One 64-bit key for two numbers below 2³¹."""
    return (np.asarray(first, np.int64) << 32) | np.asarray(second, np.int64)


def split_key(key: Ints) -> tuple[Ints, Ints]:
    """The two numbers of a `pair_key`."""
    return key >> 32, key & 0xFFFFFFFF


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts as five read-only columns of 32-bit integers, shape (n,): s, r, o, begin, end.

    s and o number entities, r numbers relations; begin and end are calendar instants (`dates`), or
    `spans.OPEN_BEGIN` and `spans.OPEN_END` where unknown.

    `source`, if it is known, says where each fact was read: `pair_key(file, line)`, shape (n,), files being numbered as
    in `TemporalKB.files`; −1 where it is not known.
    """

    s: Codes
    r: Codes
    o: Codes
    begin: Codes
    end: Codes
    source: Ints | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in FACT:
            self._keep(name, np.int32)
        if self.source is not None:
            self._keep("source", np.int64)

    def _keep(self, name: str, dtype: type[np.signedinteger]) -> None:
        column = np.ascontiguousarray(getattr(self, name), dtype).view()
        column.flags.writeable = False
        object.__setattr__(self, name, column)

    @classmethod
    def empty(cls) -> "Facts":
        """No fact at all."""
        return cls(*np.empty((5, 0), np.int32))

    def __len__(self) -> int:
        return len(self.s)

    def __getitem__(self, rows: Any) -> "Facts":
        """The facts at the given rows (a slice, row numbers or a mask)."""
        source = None if self.source is None else self.source[rows]
        return Facts(*(column[rows] for column in self.columns), source=source)

    def __iter__(self) -> Iterator[tuple[int, int, int, int, int]]:
        return zip(*(column.tolist() for column in self.columns), strict=True)

    def __add__(self, other: "Facts") -> "Facts":
        columns = map(np.concatenate, zip(self.columns, other.columns, strict=True))
        known = self.source is not None or other.source is not None
        return Facts(*columns, source=np.concatenate([self._sources, other._sources]) if known else None)

    @property
    def _sources(self) -> Ints:
        return np.full(len(self), -1) if self.source is None else self.source

    @property
    def columns(self) -> tuple[Codes, Codes, Codes, Codes, Codes]:
        """s, r, o, begin, end."""
        return self.s, self.r, self.o, self.begin, self.end

    @property
    def span(self) -> tuple[Codes, Codes]:
        """(begin, end), as the functions of `spans` take it."""
        return self.begin, self.end

    @property
    def has_begin(self) -> Bools:
        """Which facts have a known begin: (n,)."""
        return np.not_equal(self.begin, spans.OPEN_BEGIN)

    @property
    def has_end(self) -> Bools:
        """Which facts have a known end: (n,)."""
        return np.not_equal(self.end, spans.OPEN_END)

    @property
    def closed(self) -> Bools:
        """Which facts have both: (n,)."""
        return self.has_begin & self.has_end

    @property
    def dated(self) -> Bools:
        """Which facts have at least one: (n,)."""
        return self.has_begin | self.has_end

    @property
    def date(self) -> Ints:
        """The begin of each fact, else its end; `spans.OPEN_END` where it has neither: (n,)."""
        return np.where(self.has_begin, self.begin, self.end).astype(np.int64)

    def mentioned(self, entities: int) -> Bools:
        """Which of so many entities are subject or object of a fact: (entities,)."""
        mentioned = np.zeros(entities, np.bool_)
        mentioned[self.s] = mentioned[self.o] = True
        return mentioned

    @cached_property
    def by_subject_relation(self) -> Index:
        """Rows by `pair_key(s, r)`."""
        return Index(pair_key(self.s, self.r))

    @cached_property
    def by_relation_object(self) -> Index:
        """Rows by `pair_key(r, o)`."""
        return Index(pair_key(self.r, self.o))

    @cached_property
    def by_pair(self) -> Index:
        """Rows by `pair_key` of the two entities, the smaller number first: direction does not matter."""
        return Index(pair_key(np.minimum(self.s, self.o), np.maximum(self.s, self.o)))

    @cached_property
    def _by_role(self) -> tuple[Index, Index]:
        return Index(np.asarray(self.s, np.int64)), Index(np.asarray(self.o, np.int64))

    def of_subject_relation(self, s: int, r: int) -> Ints:
        """Rows of the facts (s, r, ·)."""
        return self.by_subject_relation.rows(int(pair_key(s, r)))

    def of_relation_object(self, r: int, o: int) -> Ints:
        """Rows of the facts (·, r, o)."""
        return self.by_relation_object.rows(int(pair_key(r, o)))

    def of_entity(self, entity: int) -> Ints:
        """Rows of the facts that have the entity as subject or object, each once, in order."""
        return np.union1d(*(index.rows(entity) for index in self._by_role))

    def of_triples(self, s: Ints | Codes, r: Ints | Codes, o: Ints | Codes) -> tuple[Ints, Ints]:
        """All pairs (place, row of a fact that states the triple at that place, at whatever time); s, r, o: (n,)."""
        place, row = self.by_subject_relation.matches(pair_key(s, r))
        same = self.o[row] == o[place]
        return place[same], row[same]

    def states(self, s: Ints, r: Ints, o: Ints) -> Bools:
        """Which triples a fact states, at whatever time: (n,)."""
        stated = np.zeros(len(s), np.bool_)
        stated[self.of_triples(s, r, o)[0]] = True
        return stated

    def of_pair(self, one: int, other: int) -> Ints:
        """Rows of the facts between the two entities, in either direction."""
        return self.by_pair.rows(int(pair_key(min(one, other), max(one, other))))


@dataclass(frozen=True, eq=False)
class TemporalKB:
    """A temporal knowledge base: facts (s, r, o, [begin, end]) in splits, with the names of everything.

    Two KBs are equal if they say the same: the same named facts in each split (in any order), the same
    labels and granularity. What was odd in the input is in `problems`, and `files` names what `Facts.source` numbers.
    """

    entities: Names
    relations: Names
    granularity: Granularity
    splits: Mapping[str, Facts]
    problems: Problems
    name: str = "kb"
    files: tuple[str, ...] = ()

    @property
    def train(self) -> Facts:
        """The facts to learn from; all facts if the KB has never been split."""
        return self.splits["train"]

    @property
    def valid(self) -> Facts:
        """The facts that decide about settings (also called dev)."""
        return self.splits.get("valid", Facts.empty())

    @property
    def test(self) -> Facts:
        """The facts that only the final figures are computed on."""
        return self.splits.get("test", Facts.empty())

    def split(self, name: str) -> Facts:
        """The facts of a split that has some; else an error that names those which have."""
        if len(self.splits.get(name, Facts.empty())) == 0:
            there = ", ".join(split for split, facts in self.splits.items() if len(facts))
            raise InputError(f"{self.name} has no {name!r} facts.", f"The splits with facts are: {there or 'none'}.")
        return self.splits[name]

    @cached_property
    def facts(self) -> Facts:
        """The facts of all splits, in the order train, valid, test."""
        return sum((self.splits.get(split, Facts.empty()) for split in SPLITS), Facts.empty())

    def __len__(self) -> int:
        return sum(len(facts) for facts in self.splits.values())

    def __repr__(self) -> str:
        sizes = ", ".join(f"{split} {len(facts):,}" for split, facts in self.splits.items())
        return (
            f"TemporalKB({self.name}: {counted(len(self.entities), 'entity', 'entities')}, "
            f"{counted(len(self.relations), 'relation')}, {sizes} facts, by {self.granularity})"
        )

    def timeline(self, kind: Kind = "observed") -> Timeline:
        """The ordered instants of all splits; see `timeline.Timeline`."""
        return Timeline.of(np.concatenate(self.facts.span), self.granularity, kind)

    def _repr_html_(self) -> str:
        """What it holds, with its facts over time, as a notebook shows it."""
        from timeplex import drawing
        from timeplex.kb.stats import describe

        told = describe(self)
        values = [
            (first, number, f"{first} to {last}: {counted(number, 'fact')}") for first, last, number in told.histogram
        ]
        columns = drawing.columns(values, f"Facts of {self.name} over time")
        return f"<style>{drawing.STYLE}</style><p>{drawing.escape(repr(self))}</p>{columns}"

    def date(self, instant: int) -> str | None:
        """A calendar instant as a person would write it; None for an open end."""
        return None if instant in (spans.OPEN_BEGIN, spans.OPEN_END) else dates.write([instant], self.granularity)[0]

    def to_polars(self) -> pl.DataFrame:
        """All facts with names and written dates: split, subject, relation, object, begin, end."""
        frames = []
        for split, facts in self.splits.items():
            frame = pl.DataFrame(
                {
                    "subject": self.entities.names.gather(facts.s),
                    "relation": self.relations.names.gather(facts.r),
                    "object": self.entities.names.gather(facts.o),
                    "begin": self._written(facts.begin, spans.OPEN_BEGIN),
                    "end": self._written(facts.end, spans.OPEN_END),
                }
            )
            frames.append(frame.select(pl.lit(split).alias("split"), pl.all()))
        return pl.concat(frames)

    def _written(self, instants: Codes, missing: int) -> pl.Series:
        known = instants != missing
        texts = pl.Series(dates.write(np.where(known, instants, 0), self.granularity), dtype=pl.String)
        return texts.zip_with(pl.Series(known), pl.Series([None], dtype=pl.String))

    def to_pandas(self) -> "pd.DataFrame":
        """`to_polars` as a pandas DataFrame (needs the `pandas` extra)."""
        return to_pandas(self.to_polars())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the named facts of all splits, whatever their order."""
        texts = pl.all().fill_null("")
        # The lengths of the texts stand first, so that no name, whatever is in it, can pass for two.
        facts = self.to_polars().select(fact=pl.concat_str(texts.str.len_bytes(), texts, separator=":"))["fact"]
        return hashlib.sha256("".join(facts.sort()).encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TemporalKB):
            return NotImplemented
        return (
            self.granularity == other.granularity
            and self.entities == other.entities
            and self.relations == other.relations
            and set(self.splits) == set(other.splits)
            and all(_same(self.splits[split], other.splits[split]) for split in self.splits)
        )

    __hash__ = None  # type: ignore[assignment]

    def save(self, folder: str | Path) -> None:
        """Write the KB as a folder: Parquet, JSON and a manifest of checksums. `load` is the inverse."""
        from timeplex.kb.store import save

        save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> "TemporalKB":
        """Read a folder that `save` wrote; a file whose checksum is wrong is refused."""
        from timeplex.kb.store import load

        return load(Path(folder))


def to_pandas(frame: pl.DataFrame) -> "pd.DataFrame":
    """A table as pandas has it."""
    try:
        import pandas as pd
    except ImportError as error:
        raise InputError("pandas is not installed.", "Install it with: pip install timeplex[pandas]") from error
    return pd.DataFrame(frame.to_dict(as_series=False))


def _same(one: Facts, other: Facts) -> bool:
    """Whether both hold the same facts, in whatever order."""
    if len(one) != len(other):
        return False
    tables = [np.stack(facts.columns) for facts in (one, other)]
    first, second = (table[:, np.lexsort(table)] for table in tables)
    return np.array_equal(first, second)
