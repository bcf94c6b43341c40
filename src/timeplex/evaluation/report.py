"""All about how a scorer does on a split: a table with a row a query, and every figure computed from that table.

Who has the table (`Report.queries`, or the file written from it) can compute every figure again. Whether one report is
better than another by more than chance is told by a paired t-test and a bootstrap interval (`compare_reports`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeGuard

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from timeplex.errors import InputError
from timeplex.evaluation.baselines import BASELINES
from timeplex.evaluation.metrics import link_figures, nested, rank_column, time_figures, time_scores
from timeplex.evaluation.protocol import FILTERS, Protocol, protocol
from timeplex.evaluation.ranking import DirectedScorer, EntityScorer, LinkPrediction, PlacedFacts
from timeplex.evaluation.time_prediction import (
    RULES,
    Decoder,
    DevValues,
    Durations,
    TimeScorer,
    both_ends_known,
    dev_values,
    fit_durations,
    predict_times,
)
from timeplex.kb import dates, spans
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.kb.timeline import Timeline
from timeplex.models.base import Span
from timeplex.models.scorer import DIRECTIONS, Direction
from timeplex.patterns.relation_classes import INSTANTS_A_YEAR, relation_classes
from timeplex.typing import Bools, Floats, Ints

Texts = NDArray[np.str_]

GROUPS = ("relation", "span", "class", "seen", "frequency")
"""What figures can be broken down by."""

FEW, MANY = 10, 100
"""The bounds between rare, middling and frequent answers, in training facts."""

YEARS = 5
"""Spans longer than this many years are long."""


def describe_queries(kb: TemporalKB, facts: Facts) -> pl.DataFrame:
    """A row for each subject query, then one for each object query: the fact, and what it can be grouped by.

    fact       position in the split
    span       instant, up to 5 years, over 5 years, or open
    class      of the relation: instant, short or long (`patterns.relation_classes`)
    seen       whether the triple stands in train at another time
    frequency  of the gold answer in train: unseen, rare (< 10 facts), middling (< 100), frequent
    """
    frame = describe_facts(kb, facts)
    occurrences = np.bincount(np.concatenate([kb.train.s, kb.train.o]), minlength=len(kb.entities))
    golds = {"subject": facts.s, "object": facts.o}
    return pl.concat(
        frame.with_columns(
            direction=pl.lit(direction), frequency=pl.Series(_frequency(occurrences[golds[direction]]), dtype=pl.String)
        )
        for direction in DIRECTIONS
    )


def describe_facts(kb: TemporalKB, facts: Facts) -> pl.DataFrame:
    """A row a fact, with names and dates as text and the groups that do not depend on the direction."""
    begin_open, end_open = spans.is_open(facts.span)
    begin, end = (pl.Series(dates.write(side, kb.granularity), dtype=pl.String) for side in facts.span)
    return pl.DataFrame(
        {
            "fact": np.arange(len(facts)),
            "subject": kb.entities.names.gather(facts.s),
            "relation": kb.relations.names.gather(facts.r),
            "object": kb.entities.names.gather(facts.o),
            "begin": begin.zip_with(pl.Series(~begin_open), pl.Series([None], dtype=pl.String)),
            "end": end.zip_with(pl.Series(~end_open), pl.Series([None], dtype=pl.String)),
            "span": pl.Series(_span_length(kb, facts), dtype=pl.String),
            "class": pl.Series(relation_classes(kb)[facts.r], dtype=pl.String),
            "seen": pl.Series(np.where(_in_train(kb, facts), "seen triple", "new triple"), dtype=pl.String),
        }
    )


def _span_length(kb: TemporalKB, facts: Facts) -> Texts:
    instants = spans.volume(facts.span)
    years = instants / INSTANTS_A_YEAR[kb.granularity]
    kinds = ["open", "instant", f"up to {YEARS} years"]
    return np.select([np.isinf(instants), instants <= 1, years <= YEARS], kinds, f"over {YEARS} years")


def _in_train(kb: TemporalKB, facts: Facts) -> Bools:
    columns = ["s", "r", "o"]
    train, asked = (pl.DataFrame({name: getattr(part, name) for name in columns}) for part in (kb.train, facts))
    rows = asked.with_row_index().join(train.unique(), on=columns, how="semi")["index"].to_numpy()
    return np.isin(np.arange(len(facts)), rows)


def _frequency(facts: Ints) -> Texts:
    return np.select([facts == 0, facts < FEW, facts < MANY], ["unseen", "rare", "middling"], "frequent")


TOP = 10
"""So many spans are predicted for each fact."""


@dataclass(frozen=True, eq=False)
class Report:
    """What came out.

    queries    two rows a fact, one a direction, with a column of ranks for each filter (`describe_queries`)
    times      a row a fact with both ends known and decoder: predicted spans, best first, and how good they are
    baselines  the figures of link prediction of each baseline
    model      the title of the trained model; None for baselines alone and for scores from elsewhere
    """

    kb: str
    split: str
    protocol: Protocol
    queries: pl.DataFrame
    times: pl.DataFrame | None = None
    baselines: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    model: str | None = None

    def links(self, by: str | None = None) -> pl.DataFrame:
        """MRR, MR and HITS@k by filter and direction, and by one of `GROUPS` if it is named."""
        return link_figures(self.queries, by)

    def time_figures(self, by: str | None = None) -> pl.DataFrame:
        """TAC, IOU, gIOU, aeIOU and gaeIOU @1, @5, @10 by decoder, and by group; no rows without time prediction."""
        return pl.DataFrame() if self.times is None else time_figures(self.times, by)

    def per_query(self) -> pl.DataFrame:
        """Everything as one table: link queries, then time queries."""
        return self.queries if self.times is None else pl.concat([self.queries, self.times], how="diagonal")

    def as_dict(self, by: str | None = None) -> dict[str, Any]:
        """For JSON: fractions of 1, not percent; under `by` the figures of each group, if one is named."""
        by_filter = ["filter", "direction"]
        return {
            "model": self.model,
            "kb": self.kb,
            "split": self.split,
            "protocol": self.protocol.as_dict(),
            "link": nested(self.links(), by_filter),
            "baselines": {name: nested(figures, by_filter) for name, figures in self.baselines.items()},
            "time": {} if self.times is None else nested(self.time_figures(), ["decoder"]),
            **({} if by is None else {"by": self._groups(by)}),
        }

    def _groups(self, by: str) -> dict[str, Any]:
        has_times = self.times is not None and by in self.times.columns
        return {
            "link": nested(self.links(by), ["filter", by, "direction"]),
            "time": nested(self.time_figures(by), ["decoder", by]) if has_times else {},
        }


def link_task(
    kb: TemporalKB, split: str, timeline: Timeline, preset: str | Protocol = "paper", filter: str | None = "all"
) -> LinkPrediction:
    """The queries of a split under all filters, under one, or under the protocol's own (None)."""
    chosen = protocol(preset, None if filter == "all" else filter)
    return LinkPrediction(kb, kb.split(split), timeline, chosen, FILTERS if filter == "all" else (chosen.filter,))


def evaluate(task: LinkPrediction, scorer: EntityScorer, split: str, device: torch.device | None = None) -> Report:
    """Rank every query of the task, predict times if the scorer can, and put baselines beside it."""
    beside = evaluate_baselines(task, split)
    queries = beside.queries.with_columns(_ranks(task, scorer, device))
    times = None
    if predicts_times(scorer) and len(both_ends_known(task.facts)):
        times = evaluate_times(task.kb, task.facts, task.timeline, scorer, device)
    return replace(beside, queries=queries, times=times)


def evaluate_baselines(task: LinkPrediction, split: str) -> Report:
    """A report with the baselines alone: its queries have no ranks."""
    kb, described = task.kb, describe_queries(task.kb, task.facts)
    train = PlacedFacts.of(kb.train, task.timeline)
    baselines = {}
    for name, baseline in BASELINES.items():
        ranks = _ranks(task, baseline(train, len(kb.entities), len(kb.relations)), None)
        baselines[name] = link_figures(described.with_columns(ranks))
    return Report(kb.name, split, task.protocol, described, None, baselines)


def predicts_times(scorer: object) -> TypeGuard[TimeScorer]:
    """Whether the scorer can be asked for scores of instants, and they differ."""
    return callable(getattr(scorer, "times", None)) and getattr(scorer, "predicts_times", True)


def _ranks(task: LinkPrediction, scorer: EntityScorer, device: torch.device | None) -> list[pl.Series]:
    found = [task.ranks(scorer, direction, device) for direction in DIRECTIONS]
    return [pl.Series(rank_column(name), np.concatenate([ranks[name] for ranks in found])) for name in task.filters]


def evaluate_times(
    kb: TemporalKB, facts: Facts, timeline: Timeline, scorer: TimeScorer, device: torch.device | None = None
) -> pl.DataFrame:
    """Predicted spans of the facts with both ends known, by each decoder; thresholds are fitted on valid.

    The scorer is asked once for valid and once for the facts.
    """
    return predicted_spans(kb, facts, timeline, scorer, decoders(kb, timeline, scorer, device), device)


def predicted_spans(
    kb: TemporalKB,
    facts: Facts,
    timeline: Timeline,
    scorer: TimeScorer,
    ways: Mapping[str, Decoder],
    device: torch.device | None = None,
) -> pl.DataFrame:
    """A row for each way and fact with both ends known: the fact, its predicted spans, and how good they are."""
    described = describe_facts(kb, facts).filter(pl.col("begin").is_not_null(), pl.col("end").is_not_null())
    facts = both_ends_known(facts)
    queries = PlacedFacts.of(facts, timeline)
    tables = []
    found = predict_times(scorer, queries, timeline, ways, top=TOP, device=device)
    for name, (begins, ends) in found.items():
        scores = time_scores(facts.span, (begins, ends))
        tables.append(
            described.with_columns(
                pl.lit("time").alias("direction"),
                pl.lit(name).alias("decoder"),
                _spans_as_text(kb, begins, ends),
                *(pl.Series(metric, values) for metric, values in scores.items()),
            )
        )
    return pl.concat(tables)


def decoders(
    kb: TemporalKB, timeline: Timeline, scorer: TimeScorer, device: torch.device | None = None
) -> dict[str, Decoder]:
    """All ways to predict a span; those with thresholds only if valid can tell them."""
    told = len(both_ends_known(kb.valid)) > 0
    return ways_to_decode(kb, dev_values(scorer, kb.valid, timeline, device=device) if told else None)


def ways_to_decode(
    kb: TemporalKB,
    said: DevValues | None,
    rows: Bools | None = None,
    *,
    durations: Durations | None = None,
) -> dict[str, Decoder]:
    """All decoders by what dev facts said of thresholds, or those of its rows; none said, no thresholds.

    durations: those of train, if they are known already.
    """
    relations = len(kb.relations)
    found: dict[str, Decoder] = {}
    if said is not None:
        found |= {rule: said.thresholds(rule, relations, rows) for rule in RULES}
    return found | {"expected-aeiou": durations or fit_durations(kb.train, relations=relations)}


def _spans_as_text(kb: TemporalKB, begins: Ints, ends: Ints) -> pl.Series:
    """A list of {begin, end} a query, best first, with dates as the KB writes them."""
    flat = pl.DataFrame(
        {
            "query": np.repeat(np.arange(len(begins)), begins.shape[1]),
            "begin": dates.write(begins.ravel(), kb.granularity),
            "end": dates.write(ends.ravel(), kb.granularity),
        }
    )
    lists = flat.group_by("query", maintain_order=True).agg(pl.struct("begin", "end").alias("predicted"))
    return lists["predicted"]


Scores = Callable[[Direction, Ints, Ints, Ints, Ints], Any]
"""scores(direction, entity, relation, begin, end) → (n, entities); see `evaluate_scores`."""


@dataclass(frozen=True)
class _Function(DirectedScorer):
    """A function as a scorer."""

    scores: Scores
    timeline: Timeline

    def rows(self, direction: Direction, given: Tensor, r: Tensor, span: Span) -> Tensor:
        begin, end = (self.timeline.instants[side.cpu().numpy()] for side in span)
        return torch.as_tensor(self.scores(direction, given.cpu().numpy(), r.cpu().numpy(), begin, end))


def evaluate_scores(
    kb: TemporalKB, scores: Scores, *, split: str = "test", protocol: str | Protocol = "paper"
) -> Report:
    """Evaluate scores that come from elsewhere, such as a model of another library.

    `scores(direction, entity, relation, begin, end)` is asked some queries at a time and returns a row of scores a
    query, (n, entities), higher is likelier. `direction` says whether objects or subjects are asked for; the other
    arguments are integer arrays of shape (n,): the given entity and the relation as numbers of `kb.entities` and
    `kb.relations`, and the span as calendar instants (`kb.dates`), open ends closed at the ends of the timeline.

    The gold's score is taken from its row, so that it cannot be another one than the candidates are compared with.
    """
    timeline = kb.timeline("calendar")
    return evaluate(link_task(kb, split, timeline, protocol), _Function(scores, timeline), split)


RESAMPLES = 2000
CONFIDENCE = 0.95
BLOCK = 4_000_000
"""Numbers drawn at a time in the bootstrap: 32 MB."""


@dataclass(frozen=True)
class Comparison:
    """Mean values of two models on the same facts, and what can be said of their difference (second − first).

    The unit is the fact, not the query: the subject and the object query of a fact are not independent, so their values
    are averaged first.
    """

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


def compare_reports(reports: Mapping[str, Report], decoder: str, by_relation: bool) -> Comparisons:
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


def _values(report: Report, decoder: str) -> dict[str, pl.DataFrame]:
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
