"""Is one model better than another on the same queries: a paired t-test and a bootstrap interval.

The unit is the fact, not the query: the subject and the object query of a fact are not independent, so their values
are averaged first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from scipy import stats

from timeplex.errors import InputError
from timeplex.evaluation.metrics import rank_column
from timeplex.evaluation.protocol import Protocol
from timeplex.typing import Floats

if TYPE_CHECKING:
    from timeplex.evaluation.report import Report

RESAMPLES = 2000
CONFIDENCE = 0.95
BLOCK = 4_000_000
"""Numbers drawn at a time in the bootstrap: 32 MB."""


@dataclass(frozen=True)
class Comparison:
    """Mean values of two models on the same facts, and what can be said of their difference (second − first)."""

    facts: int
    first: float
    second: float
    difference: float
    low: float  # the bootstrap interval of the difference
    high: float
    p: float  # of the paired t-test; 1 if nothing differs


def compare(first: Floats, second: Floats, seed: int = 0) -> Comparison:
    """Compare two models by their values on the same facts, (n,) each."""
    if len(first) != len(second):
        raise InputError("The models were not asked the same queries.", "Evaluate both on the same KB and split.")
    if len(first) == 0:
        return Comparison(0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    difference = second - first
    low, high = bootstrap(difference, seed)
    return Comparison(
        len(first), float(first.mean()), float(second.mean()), float(difference.mean()), low, high, _p(difference)
    )


def _p(difference: Floats) -> float:
    """The chance of a mean this far from 0 if there were no difference, by Student's t with n − 1 degrees."""
    if len(difference) < 2 or not difference.any():
        return 1.0
    if np.ptp(difference) == 0:
        return 0.0
    return float(stats.ttest_1samp(difference, 0.0).pvalue)


def bootstrap(values: Floats, seed: int = 0) -> tuple[float, float]:
    """The percentile interval of the mean, from means of facts drawn with replacement."""
    generator = np.random.default_rng(seed)
    size = max(1, BLOCK // len(values))
    means = [
        values[generator.integers(0, len(values), (min(size, RESAMPLES - start), len(values)))].mean(1)
        for start in range(0, RESAMPLES, size)
    ]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return float(low), float(high)


def reciprocal_ranks(queries: pl.DataFrame, column: str) -> pl.DataFrame:
    """The mean reciprocal rank of each fact's queries: columns fact, relation, value."""
    asked = queries.filter(pl.col(column).is_not_null())
    return asked.group_by("fact", "relation").agg((1 / pl.col(column)).mean().alias("value")).sort("fact")


SCHEMA = {
    **dict.fromkeys(("metric", "other", "of"), pl.String),
    **{of.name: pl.Int64 if of.name == "facts" else pl.Float64 for of in fields(Comparison)},
}


@dataclass(frozen=True, eq=False)
class Comparisons:
    """The first of several runs, compared with each of the others.

    table  a row for each metric, other run and group of facts: metric, other, of (`all`, or a relation), and the fields
           of `Comparison`, in which the other run is the second
    """

    runs: Sequence[str]
    kb: str
    split: str
    protocol: Protocol
    decoder: str
    table: pl.DataFrame

    def as_dict(self) -> dict[str, Any]:
        """For JSON: fractions of 1, not percent."""
        asked = {"runs": list(self.runs), "split": self.split, "protocol": self.protocol.name, "decoder": self.decoder}
        return {**asked, "comparisons": self.table.to_dicts()}


def compare_reports(reports: "Mapping[str, Report]", decoder: str, by_relation: bool) -> Comparisons:
    """Compare the first report with the others by MRR and, where both predict times, by aeIOU@1."""
    values = {run: _values(report, decoder) for run, report in reports.items()}
    (first, mine), *others = values.items()
    rows = [
        {"metric": metric, "other": run, "of": group, **asdict(compared)}
        for run, theirs in others
        for metric in mine
        if metric in theirs
        for group, compared in compare_tables(mine[metric], theirs[metric], by_relation).items()
    ]
    report, table = reports[first], pl.DataFrame(rows, schema=SCHEMA)
    return Comparisons(list(reports), report.kb, report.split, report.protocol, decoder, table)


def _values(report: "Report", decoder: str) -> dict[str, pl.DataFrame]:
    """The value of each fact, by metric; aeIOU only for models that predict times."""
    values = {"MRR": reciprocal_ranks(report.queries, rank_column(report.protocol.filter))}
    if report.times is not None:
        known = report.times["decoder"].unique(maintain_order=True).to_list()
        if decoder not in known:
            raise InputError(
                f"No spans were predicted by {decoder!r}.", f"Use --decoder with one of: {', '.join(known)}."
            )
        mine = report.times.filter(decoder=decoder)
        values["aeIOU@1"] = mine.select("fact", "relation", value="aeiou@1").sort("fact")
    return values


def compare_tables(first: pl.DataFrame, second: pl.DataFrame, by_relation: bool) -> dict[str, Comparison]:
    """Compare tables of (fact, relation, value): over all facts, and for each relation if asked for."""
    if not first.select("fact", "relation").equals(second.select("fact", "relation")):
        raise InputError("The models were not asked the same queries.", "Evaluate both on the same KB and split.")
    a, b = first["value"].to_numpy(), second["value"].to_numpy()
    found = {"all": compare(a, b)}
    if by_relation:
        relations = first["relation"].to_numpy()
        for relation in np.unique(relations):
            mine = relations == relation
            found[str(relation)] = compare(a[mine], b[mine])
    return found
