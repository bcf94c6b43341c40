"""Names of entities or relations, both ways: number → name, name → number, and the labels people read."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from timeplex.errors import UnknownNameError
from timeplex.text import did_you_mean, quoted
from timeplex.typing import Codes, Ints


def encode(frame: pl.DataFrame, *groups: tuple[str, ...]) -> list[tuple[list[Codes], pl.Series]]:
    """Number the distinct texts of each group of columns in sorted order: column = distinct[codes].

    Returns for each group the codes, one array a column, and the distinct texts. Nulls are not allowed.
    """
    # A categorical with a mapping of its own numbers the texts as they come, in one pass over the rows.
    columns = [column for group in groups for column in group]
    seen = frame.select(pl.col(column).cast(pl.Categorical(pl.Categories.random())) for column in columns)
    encoded = []
    for group in groups:
        codes = [seen[column].to_physical().to_numpy() for column in group]
        texts = [frame[column].gather(_any_row_of_each(code)) for column, code in zip(group, codes, strict=True)]
        together = pl.concat(texts).alias("name")
        rank = together.rank("dense").to_numpy().astype(np.int32) - 1
        ranks = np.split(rank, np.cumsum([len(column) for column in texts[:-1]]))
        numbered = [of[code] for of, code in zip(ranks, codes, strict=True)]
        encoded.append((numbered, together.gather(_any_row_of_each(rank))))
    return encoded


def _any_row_of_each(codes: NDArray[Any]) -> Ints:
    """For each code 0, 1, … one row that has it; every code up to the greatest must occur."""
    rows = np.empty(int(codes.max(initial=0)) + 1 if len(codes) else 0, np.int64)
    rows[codes] = np.arange(len(codes))
    return rows


def increasing(names: pl.Series) -> bool:
    """Whether the names are sorted and distinct already, which is cheaper to see than to bring about."""
    return bool((names.head(max(len(names) - 1, 0)) < names.tail(max(len(names) - 1, 0))).all())


SHOWN, FEW = 5, 30
"""How many names are listed where several are meant, and up to how many all are listed where none is near."""

PAIRS, COMPARED = 16, 300
"""How many pairs of letters of an unknown name are looked for in all names; how many names are compared in full."""


def _plain(texts: pl.Series) -> pl.Series:
    """Texts without what people leave out or change: small letters, one space for underscores and spaces."""
    return texts.str.to_lowercase().str.replace_all(r"[_\s]+", " ").str.strip_chars()


class Names:
    """Distinct names; the number of a name is its rank in sorted order, so the order of rows has no say.

    Labels are for display (Q76 → "Barack Obama"); a name without one is its own label.

    >>> names = Names(pl.Series(["Q31", "Q183"]), {"Q183": "Germany"})
    >>> names[0], names.label(0), names.id("Q31")
    ('Q183', 'Germany', 1)
    """

    def __init__(self, names: pl.Series, labels: dict[str, str] | None = None) -> None:
        names = names.cast(pl.String).alias("name")
        self.names = names if increasing(names) else names.unique().sort()
        present = set(self.names) if labels else set()
        self.labels = {name: label for name, label in (labels or {}).items() if name != label and name in present}

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: int) -> str:
        return str(self.names[number])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names.to_list())

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Names):
            return NotImplemented
        return self.names.equals(other.names) and self.labels == other.labels

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def _texts(self) -> list[str]:
        return self.names.to_list()

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self._texts)}

    def many(self, numbers: NDArray[Any]) -> list[str]:
        """The names of some numbers, (n,)."""
        texts = self._texts
        return [texts[number] for number in numbers.tolist()]

    def many_labels(self, numbers: NDArray[Any]) -> list[str]:
        """What people read for some numbers, (n,)."""
        names = self.many(numbers)
        return [self.labels.get(name, name) for name in names] if self.labels else names

    def label(self, number: int) -> str:
        """What a person reads for this number."""
        return self.labels.get(self[number], self[number])

    def find(self, name: str, what: str = "name", *, in_part: bool = False) -> int:
        """The number of a name as people write it: an id or a label, where case, underscores and spaces do not matter.

        Exact ids come first, then exact labels, then all that read alike. If several are meant, the error lists them;
        an unknown name is an error that tells the closest ones. `what` is the word for it: entity, relation. With
        `in_part` some words of a name are enough if they are of one name alone: `Pelosi` for `Nancy Pelosi`.
        """
        if not isinstance(name, str):
            raise UnknownNameError(f"{quoted(name)} is no name.", "Names are texts.")
        if name in self._numbers:
            return self._numbers[name]
        texts, numbers = self._readings
        name = name.encode(errors="replace").decode()  # an argument that is not UTF-8 has half characters
        wanted = _plain(pl.Series([name]))[0]
        alike = numbers[(self._plain_readings == wanted).to_numpy()]
        exact = numbers[(texts == name).to_numpy()]
        found = np.unique(exact if len(exact) else alike)
        if in_part and not len(found) and wanted.strip():
            words = (" " + self._plain_readings + " ").str.contains(f" {wanted} ", literal=True)
            found = np.unique(numbers[words.to_numpy()])
        if len(found) == 1:
            return int(found[0])
        if len(found):
            listed = ", ".join(quoted(self[int(each)]) for each in found[:SHOWN])
            more = f" and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
            raise UnknownNameError(
                f"{quoted(name)} may be {len(found):,} of the names: {listed}{more}.", "Write one of them."
            )
        close = " or ".join(quoted(each) for each in self._closest(wanted))
        if close:
            raise UnknownNameError(f"unknown {what} {quoted(name)}; did you mean {close}?")
        few = f"There are: {', '.join(self)}." if 0 < len(self) <= FEW else "Look at the names in the KB's table."
        raise UnknownNameError(f"unknown {what} {quoted(name)}; no name is near it.", few)

    def search(self, text: str, weight: Ints) -> Ints:
        """The numbers of all names that hold a text, however it is written; none if none does.

        First those that are the text, then those that begin with it, then those that have a word which does, then the
        others; among equals the one of the greatest `weight`, (names,), first. No text is held by all.
        """
        wanted = _plain(pl.Series([text.encode(errors="replace").decode()]))[0]
        numbers = self._readings[1]
        if not wanted:
            return np.lexsort((np.arange(len(self)), -weight))
        at = np.flatnonzero(self._plain_readings.str.contains(wanted, literal=True).to_numpy())
        read = self._plain_readings.gather(at)
        worse = 3 - (" " + read).str.contains(" " + wanted, literal=True).to_numpy().astype(np.int64)
        worse -= read.str.starts_with(wanted).to_numpy()
        worse -= (read == wanted).to_numpy()
        order = np.lexsort((numbers[at], -weight[numbers[at]], worse))
        found = numbers[at][order]
        _, first = np.unique(found, return_index=True)
        return found[np.sort(first)]

    def closest(self, text: str, most: int = 3) -> list[int]:
        """The numbers of the names that look most like a text, best first, by ids and labels; none if none is near."""
        wanted = _plain(pl.Series([text.encode(errors="replace").decode()]))[0]
        texts, numbers = self._readings
        near = self._closest(wanted, most)
        return list(dict.fromkeys(int(numbers[int((texts == each).arg_true()[0])]) for each in near))

    @cached_property
    def _readings(self) -> tuple[pl.Series, Ints]:
        """All texts that stand for something, ids and labels, and the number that each stands for."""
        everyone = np.arange(len(self))
        if not self.labels:
            return self.names, everyone
        labels = pl.Series("name", list(self.labels.values()), dtype=pl.String)
        labelled = np.array([self._numbers[name] for name in self.labels], np.int64)
        return pl.concat([self.names, labels]), np.concatenate([everyone, labelled])

    @cached_property
    def _plain_readings(self) -> pl.Series:
        return _plain(self._readings[0])

    def _closest(self, wanted: str, most: int = 3) -> list[str]:
        """The texts that look most like a plain one, best first.

        Only those that share most pairs of letters with it are compared letter by letter, so that a million names take
        a fraction of a second.
        """
        texts, plain = self._readings[0], self._plain_readings
        pairs = list(dict.fromkeys(wanted[place : place + 2] for place in range(len(wanted) - 1))) or [wanted]
        pairs = pairs[:: -(-len(pairs) // PAIRS)]
        near = np.flatnonzero(
            np.abs(plain.str.len_chars().to_numpy().astype(np.int64) - len(wanted)) <= len(wanted) // 2
        )
        candidates = plain.gather(near)
        shared = np.zeros(len(near), np.int64)
        for pair in pairs:
            shared += candidates.str.contains(pair, literal=True).to_numpy()
        best = np.argsort(-shared, kind="stable")[:COMPARED]
        written = {candidates[int(place)]: texts[int(near[place])] for place in best[::-1]}
        return [written[each] for each in difflib.get_close_matches(wanted, written, n=most)]

    def id(self, name: str) -> int:
        """The number of a name; an unknown name is an error that tells the closest ones."""
        number = self._numbers.get(name)
        if number is None:
            raise UnknownNameError(f"Unknown name {quoted(name)}.", did_you_mean(name, self._numbers, most=3))
        return number


GROUPS_SHOWN = 20
"""Groups of such names that are kept as examples."""


@dataclass(frozen=True)
class Alike:
    """How many groups of names differ by case, spaces or accents alone, and the first of them."""

    groups: int = 0
    examples: tuple[tuple[str, ...], ...] = ()

    def __add__(self, other: "Alike") -> "Alike":
        return Alike(self.groups + other.groups, (self.examples + other.examples)[:GROUPS_SHOWN])


def bare(names: pl.Series) -> pl.Series:
    """Names without what is taken to make no difference.

    Only the accents of European scripts count as such: in others a mark may be a vowel. Nothing else is folded, for
    m² is not m2.
    """
    ascii_ = names.str.len_bytes() == names.str.len_chars()
    if not ascii_.all():
        without = names.str.normalize("NFD").str.replace_all("[\u0300-\u036f]+", "")
        names = names.zip_with(ascii_, without)
    return _plain(names)


def best_spellings(names: pl.Series, times: Ints) -> tuple[Codes, Alike]:
    """For each of distinct, sorted names the number of its commonest spelling (of two, the first); and the groups.

    `times` says how often each name is used.
    """
    best = np.arange(len(names), dtype=np.int32)
    keys = bare(names)
    at = np.flatnonzero((keys.is_duplicated() & (keys != "")).to_numpy())
    if len(at) == 0:
        return best, Alike()
    group = keys.gather(at).rank("dense").to_numpy().astype(np.int64) - 1
    order = np.lexsort((at, -times[at], group))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    best[at[order]] = at[order][starts][group[order]]
    listed = [names.gather(part).to_list() for part in np.split(at[order], starts[1:])[:GROUPS_SHOWN]]
    return best, Alike(len(starts), tuple(tuple(group) for group in listed))
