"""Findings: a table with a row for each fact and rule that it breaks, ranked by how likely the fact is wrong."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from timeplex.auditing.base import Found
from timeplex.auditing.case import AuditContext
from timeplex.errors import InputError
from timeplex.kb.facts import SPLITS, Facts, split_key, to_pandas
from timeplex.kb.readers import suffix
from timeplex.kb.readers.packed import file_bytes, parquet_frame, shown, unpacked_limit
from timeplex.kb.store import without_formulas
from timeplex.typing import Codes, Ints

if TYPE_CHECKING:
    import pandas as pd


SCHEMA = pl.Schema(
    {
        "rank": pl.Int64,  # of the fact: its rows have one rank
        "suspicion": pl.Float64,  # Pr(the fact is wrong) by all its findings together
        "severity": pl.Float64,  # Pr(the fact is wrong) by this rule
        "rule": pl.String,
        "subject": pl.String,
        "relation": pl.String,
        "object": pl.String,
        "begin": pl.String,
        "end": pl.String,
        "split": pl.String,
        "file": pl.String,  # and line of the source: null where they are not known
        "line": pl.Int64,
        "fact": pl.String,  # written out, with labels
        "message": pl.String,
        "support": pl.String,  # "2,214 of 2,216"; null for what is no matter of counting
        "confidence": pl.Float64,
        "others": pl.String,  # the other facts involved, written out
        "suggestion": pl.String,
        "cause": pl.Int64,  # rank of the fact that this one is told with; its own if it is told by itself
    }
)
KEY = ("rule", "subject", "relation", "object", "begin", "end")
"""What makes two findings the same, in this audit and an earlier one."""


@dataclass(frozen=True, eq=False)
class Findings:
    """What is probably wrong in a KB, most likely first. `len` is the number of findings.

    A fact may break several rules: it has a row for each, one after the other. `resolved` counts the findings of an
    earlier audit that are gone (None if none was given), `earlier` is its table; `notes` says what could not be judged.
    `found` has what each rule found, be it nothing, and so tells which rules were asked.
    """

    frame: pl.DataFrame
    rows: Ints
    name: str
    facts: int
    notes: Sequence[str] = ()
    resolved: int | None = None
    found: Sequence[Found] = ()
    case: AuditContext | None = None
    earlier: pl.DataFrame | None = None

    def __len__(self) -> int:
        return self.frame.height

    @property
    def suspicious(self) -> int:
        """Number of facts with at least one finding."""
        return int(self.frame["rank"].n_unique())

    def counts(self) -> dict[str, int]:
        """Number of findings of each rule, most first."""
        table = self.frame.group_by("rule").len().sort("len", "rule", descending=[True, False])
        return dict(table.iter_rows())

    def of(self, rule: str) -> pl.DataFrame:
        """The findings of one rule, most likely first."""
        return self.frame.filter(pl.col("rule") == rule)

    def to_polars(self) -> pl.DataFrame:
        """The table; `SCHEMA` says what its columns are."""
        return self.frame

    def to_pandas(self) -> "pd.DataFrame":
        """`to_polars` as a pandas DataFrame (needs the `pandas` extra)."""
        return to_pandas(self.frame)

    def plus(self, *found: Found, notes: Sequence[str] = ()) -> "Findings":
        """With what others found in the same KB (such as a model); facts are rows of `case`. All are ranked anew.

        What was in the table of an earlier audit is not told again. `notes` are added.
        """
        if self.case is None:
            raise InputError("These findings do not know their KB.", "Add to what `timeplex.audit` gives.")
        together = replace(rank(self.case, [*self.found, *found]), notes=(*self.notes, *notes))
        return together if self.earlier is None else together.since(self.earlier)

    def since(self, old: pl.DataFrame) -> "Findings":
        """Only what is not in the table of an earlier audit; counts what was there and is gone.

        A fact keeps its rank, so that what is left can be looked up in the whole list. What the earlier audit found by
        a rule that was not asked now (a muted one, a model) is not gone.
        """
        new = self._keys(self.frame)
        before = self._keys(old.filter(pl.col("rule").is_in([each.rule for each in self.found])))
        kept = new.with_row_index("at").join(before, on=KEY, how="anti", nulls_equal=True)["at"].sort()
        gone = before.join(new, on=KEY, how="anti", nulls_equal=True).height
        return replace(self, frame=self.frame[kept], rows=self.rows[kept.to_numpy()], resolved=gone, earlier=old)

    @staticmethod
    def _keys(frame: pl.DataFrame) -> pl.DataFrame:
        # An empty field of a CSV may come back as an empty text or as null: an open end in either case.
        text = pl.col("begin", "end").cast(pl.String)
        keys = frame.select(KEY).with_columns(pl.when(text != "").then(text).name.keep())
        return without_formulas(keys).unique(maintain_order=True)  # as a CSV has them

    def involved(self) -> dict[int, list[int]]:
        """The other facts that findings involve, by the fact that they are about: rows of `kb.facts`."""
        together: dict[int, list[int]] = {}
        if self.case is not None:
            rows = self.case.rows
            for found in self.found:
                for fact, others in zip(found.fact.tolist(), found.others, strict=True):
                    together.setdefault(int(rows[fact]), []).extend(int(rows[other]) for other in others)
        return together

    def _repr_html_(self) -> str:
        """The most suspicious facts, drawn, as a notebook shows them."""
        from timeplex.auditing.page import fragment

        return fragment(self)

    def __repr__(self) -> str:
        head = f"Findings({self.name}: {self.suspicious:,} suspicious facts of {self.facts:,}, {len(self):,} findings)"
        first = self.frame.unique("rank", keep="first", maintain_order=True).head(5)
        lines = [
            f"{row['rank']:>3}  {row['suspicion']:.2f}  {row['rule']}: {row['fact']}"
            for row in first.iter_rows(named=True)
        ]
        return "\n".join([head, *lines])


def rank(case: AuditContext, found: Iterable[Found]) -> Findings:
    """All findings in one table.

    The suspicion of a fact is 1 − Π (1 − severity) over the families of rules, with the most severe finding of each
    family: families look at different things, the rules of one family at the same thing.
    """
    asked = tuple(found)
    found = [each for each in asked if len(each)]
    facts = np.concatenate([np.zeros(0, np.int64), *(each.fact for each in found)])
    severity = np.concatenate([np.zeros(0), *(each.severity for each in found)])
    families = {family: number for number, family in enumerate(sorted({each.family for each in found}))}
    family = np.concatenate([np.zeros(0, np.int64), *(np.full(len(each), families[each.family]) for each in found)])
    strongest = np.zeros((len(families), len(case.facts)))
    np.maximum.at(strongest, (family, facts), severity)
    # Logarithms, as many severities are close to 1.
    doubt = np.log1p(-np.minimum(strongest, 1 - 1e-15)).sum(axis=0)
    names = np.array([each.rule for each in found for _ in range(len(each))], dtype=np.str_)
    order = np.lexsort((names, -severity, facts, doubt[facts]))
    _, first = np.unique(facts[order], return_index=True)
    place = np.zeros(len(case.facts), np.int64)
    place[facts[order[np.sort(first)]]] = np.arange(1, len(first) + 1)
    frame = pl.concat([SCHEMA.to_frame(), *(_table(case, each) for each in found)])
    causes = causes_of(found, place, case.facts.s)
    frame = frame.with_columns(
        rank=pl.Series(place[facts]), suspicion=pl.Series(-np.expm1(doubt[facts])), cause=pl.Series(causes[facts])
    )[order]
    return Findings(frame, case.rows[facts[order]], case.kb.name, len(case.facts), tuple(case.notes), None, asked, case)


def causes_of(found: Sequence[Found], place: Ints, subject: Codes) -> Ints:
    """Of each suspicious fact the rank of the one with which it is told, (n,), given the ranks; 0 for the others.

    A fact is told with a more suspicious one if all its findings involve that one (one short term overlaps with three
    others), or if they say the same of the same subject word for word (one wrong source for five facts).
    """
    others: dict[int, set[int]] = {}
    words: dict[int, list[tuple[str, str]]] = {}
    for each in found:
        for fact, involved, message in zip(each.fact.tolist(), each.others, each.messages, strict=True):
            others[fact] = others.get(fact, set(involved)) & set(involved)
            words.setdefault(fact, []).append((each.rule, message))
    cause = np.zeros(len(place), np.int64)
    said: dict[tuple[int, tuple[tuple[str, str], ...]], int] = {}
    for fact in sorted(others, key=lambda fact: int(place[fact])):
        alone = [other for other in others[fact] if 0 < place[other] < place[fact] and cause[other] == place[other]]
        key = int(subject[fact]), tuple(sorted(words[fact]))
        cause[fact] = min((int(place[other]) for other in alone), default=said.get(key, int(place[fact])))
        said.setdefault(key, int(cause[fact]))
    return cause


def _table(case: AuditContext, found: Found) -> pl.DataFrame:
    """The findings of a rule as rows of `SCHEMA`; ranks and suspicions are to be filled in."""
    of, entities, relations = case.facts[found.fact], case.kb.entities.names, case.kb.relations.names
    known = (of.has_begin, of.has_end)
    return pl.DataFrame(
        {
            "rank": np.zeros(len(found), np.int64),
            "suspicion": np.zeros(len(found)),
            "severity": found.severity,
            "rule": [found.rule] * len(found),
            "subject": entities.gather(of.s),
            "relation": relations.gather(of.r),
            "object": entities.gather(of.o),
            "begin": [case.date(date) if stated else None for date, stated in zip(of.begin, known[0], strict=True)],
            "end": [case.date(date) if stated else None for date, stated in zip(of.end, known[1], strict=True)],
            "split": [SPLITS[number] for number in case.split[found.fact]],
            **_origin(case, of),
            "fact": [case.fact(row) for row in found.fact.tolist()],
            "message": found.messages,
            "support": [
                f"{holds:,} of {cases:,}" if cases else None
                for holds, cases in zip(found.holds.tolist(), found.cases.tolist(), strict=True)
            ],
            "confidence": [
                holds / cases if cases else None
                for holds, cases in zip(found.holds.tolist(), found.cases.tolist(), strict=True)
            ],
            "others": ["; ".join(case.fact(row) for row in rows) for rows in found.others],
            "suggestion": found.suggestions,
            "cause": np.zeros(len(found), np.int64),
        },
        schema=SCHEMA,
    )


def _origin(case: AuditContext, facts: Facts) -> dict[str, list[str | None] | list[int | None]]:
    """The file and the line of facts, null where the KB does not know them."""
    source = np.full(len(facts), -1) if facts.source is None else facts.source
    file, line = split_key(source)
    known = ((source >= 0) & (file < len(case.kb.files))).tolist()
    pairs = zip(file.tolist(), line.tolist(), known, strict=True)
    placed = [(case.kb.files[number], at) if is_known else (None, None) for number, at, is_known in pairs]
    return {"file": [name for name, _ in placed], "line": [at for _, at in placed]}


def read_earlier(source: str | Path | pl.DataFrame) -> pl.DataFrame:
    """A table of findings as `timeplex audit -o` writes it; only the columns that tell findings apart are kept."""
    if isinstance(source, pl.DataFrame):
        return _checked(source, "The earlier table")
    path = Path(source)
    data = file_bytes(path)
    try:
        frame = _parsed(path, data)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path} is not a table of findings.", "Give what `timeplex audit -o` wrote.") from error
    return _checked(frame, shown(path))


def _parsed(path: Path, data: bytes) -> pl.DataFrame:
    if suffix(path) in (".csv", ".tsv"):
        return pl.read_csv(io.BytesIO(data), separator="," if suffix(path) == ".csv" else "\t", infer_schema=False)
    if suffix(path) in (".jsonl", ".ndjson"):
        return (
            pl.read_ndjson(io.BytesIO(data), infer_schema_length=None)
            if data.strip()
            else pl.DataFrame(schema=list(KEY))
        )
    if suffix(path) == ".parquet":
        return parquet_frame(data, shown(path), unpacked_limit(len(data)))
    raise InputError(f"{path} has no suffix that says how to read it.", "Use .csv, .tsv, .jsonl or .parquet.")


def _checked(frame: pl.DataFrame, source: str) -> pl.DataFrame:
    missing = [name for name in KEY if name not in frame.columns]
    if missing:
        raise InputError(
            f"{source} is not a table of findings: it has no column {missing[0]!r}.",
            "Give what `timeplex audit -o` wrote.",
        )
    return frame.select(pl.col(KEY).cast(pl.String))
