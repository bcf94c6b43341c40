"""`timeplex evaluate RUN`: how good a trained model is, or what simple baselines reach on a KB."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from timeplex.cli.options import (
    DATA_DIR_OPTION,
    DEVICE_OPTION,
    JSON_OPTION,
    OWN_MODELS_OPTION,
    PROTOCOL_OPTION,
    SPLIT_OPTION,
)
from timeplex.cli.show import print_json, print_table, progress, say
from timeplex.text import counted

if TYPE_CHECKING:
    import polars as pl

    from timeplex.evaluation.report import Report

LINK_COLUMNS = ("mrr", "hits@1", "hits@3", "hits@10")
TIME_COLUMNS = ("aeiou@1", "aeiou@5", "aeiou@10", "gaeiou@1", "giou@1", "iou@1", "tac@1")


def evaluate(
    source: str = typer.Argument(..., metavar="RUN|KB", help="A run folder, or a KB for the baselines alone."),
    split: str = SPLIT_OPTION,
    protocol: str = PROTOCOL_OPTION,
    filter_: str = typer.Option("all", "--filter", help="all, none, ignore-time, exact-span or per-instant."),
    by: str | None = typer.Option(None, help="Break down by relation, span, class, seen or frequency."),
    per_query: Path | None = typer.Option(None, metavar="FILE.parquet", help="Write a row for every query."),
    models: list[str] = OWN_MODELS_OPTION,
    device: str = DEVICE_OPTION,
    data_dir: Path | None = DATA_DIR_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Evaluate a trained model: link prediction under time-aware filters, time prediction, baselines beside them.

    Example: timeplex evaluate runs/yago11k --protocol published-code
    """
    from timeplex.errors import InputError
    from timeplex.evaluation.report import GROUPS

    if by is not None and by not in GROUPS:
        raise InputError(f"There is no breakdown by {by!r}.", f"Use one of: {', '.join(GROUPS)}.")
    if per_query is not None and per_query.suffix != ".parquet":
        raise InputError(
            f"{per_query} is not a .parquet file.", "The queries are written as Parquet: give FILE.parquet."
        )
    from timeplex import api
    from timeplex.files import check_writable
    from timeplex.kb.store import write_frame

    if per_query is not None:
        check_writable(per_query)
    with progress(f"evaluating {source}"):
        report = api.evaluate(
            source, split=split, protocol=protocol, filter=filter_, device=device, data_dir=data_dir, model=models
        )
    if per_query is not None:
        write_frame(report.per_query(), per_query)
    if as_json:
        print_json(report.as_dict(by))
    else:
        _show(report, by)
        if per_query is not None:
            say(f"Every query is in {per_query}.")


def _show(report: "Report", by: str | None) -> None:
    model = report.model
    facts = len(report.queries) // 2
    say(f"{model or 'baselines'} on {report.kb}, {report.split}: {counted(facts, 'fact')}, {2 * facts:,} queries")
    say(f"protocol {report.protocol}")
    say()
    if model:
        _show_links(report.links(), "filter", "Link prediction (%)")
        if by:
            here = report.links(by).filter(filter=report.protocol.filter, direction="both")
            _show_links(here, by, f"By {by}, {report.protocol.filter} filter (%)")
    _show_baselines(report)
    if report.times is not None:
        known = counted(report.times["fact"].n_unique(), "fact")
        _show_times(report, None, f"Time prediction, {known} with both ends known (%)")
        if report.split == "valid":
            say("The thresholds of mean-mass and grid were fitted on these very facts.")
        if by and by in report.times.columns:
            _show_times(report, by, f"Time prediction by {by} (%)")


def _show_links(figures: "pl.DataFrame", label: str, title: str) -> None:
    rows = [
        [row[label], row["direction"], row["queries"], *_percent(row, LINK_COLUMNS), row["mr"]]
        for row in figures.iter_rows(named=True)
    ]
    print_table(title, [label, "asked for", "queries", *_headers(LINK_COLUMNS), "mean rank"], rows, decimals=2)


def _show_baselines(report: "Report") -> None:
    model = report.model
    tables = {**({model: report.links()} if model else {}), **report.baselines}
    rows = []
    for name, figures in tables.items():
        row = figures.filter(filter=report.protocol.filter, direction="both").row(0, named=True)
        rows.append([name, *_percent(row, LINK_COLUMNS), row["mr"]])
    title = (
        f"Beside baselines, {report.protocol.filter} filter (%)" if model else f"{report.protocol.filter} filter (%)"
    )
    print_table(title, ["", *_headers(LINK_COLUMNS), "mean rank"], rows, decimals=2)


def _show_times(report: "Report", by: str | None, title: str) -> None:
    rows = [
        [row["decoder"], *([row[by]] if by else []), row["facts"], *_percent(row, TIME_COLUMNS)]
        for row in report.time_figures(by).iter_rows(named=True)
    ]
    print_table(title, ["decoder", *([by] if by else []), "facts", *_headers(TIME_COLUMNS)], rows, decimals=2)


def _percent(row: dict[str, Any], names: tuple[str, ...]) -> list[float]:
    return [100 * row[name] for name in names]


def _headers(names: tuple[str, ...]) -> list[str]:
    return [name.replace("iou", "IOU") if "iou" in name else name.upper() for name in names]
