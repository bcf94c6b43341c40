"""`timeplex evaluate RUN`: how good a trained model is, or what simple baselines reach on a KB."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from timeplex.cli.show import DATA_DIR_OPTION, JSON_OPTION, MODEL_OPTION, print_json, print_table, progress, say
from timeplex.text import counted

if TYPE_CHECKING:
    import polars as pl

    from timeplex.evaluation.report import Report

SPLIT_OPTION = typer.Option("test", "--split", help="Which facts are asked for: train, valid or test.")
PROTOCOL_OPTION = typer.Option("paper", "--protocol", help="How ranks are made: paper or published-code.")
DEVICE_OPTION = typer.Option("auto", help="auto, cpu or cuda.")

LINK_COLUMNS = ("mrr", "hits@1", "hits@3", "hits@10")
TIME_COLUMNS = ("aeiou@1", "aeiou@5", "aeiou@10", "gaeiou@1", "giou@1", "iou@1", "tac@1")


def evaluate(
    source: str = typer.Argument(..., metavar="RUN|KB", help="A run folder, or a KB for the baselines alone."),
    split: str = SPLIT_OPTION,
    protocol: str = PROTOCOL_OPTION,
    filter_: str = typer.Option("all", "--filter", help="all, none, ignore-time, exact-span or per-instant."),
    by: str | None = typer.Option(None, help="Break down by relation, span, class, seen or frequency."),
    per_query: Path | None = typer.Option(None, metavar="FILE.parquet", help="Write a row for every query."),
    models: list[str] = MODEL_OPTION,
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
    from timeplex.models.loading import own_models

    own_models(models)
    if per_query is not None:
        from timeplex.files import check_writable

        check_writable(per_query)
    with progress(f"evaluating {source}"):
        model, report = assess(source, split, protocol, filter_, device, data_dir)
    if per_query is not None:
        _write(report, per_query)
    if as_json:
        print_json({"model": model, **report.as_dict(), **({"by": _by_as_json(report, by)} if by else {})})
    else:
        _show(report, model, by)
        if per_query is not None:
            say(f"Every query is in {per_query}.")


def assess(
    source: str, split: str, protocol: str, filter_: str | None, device: str, data_dir: Path | None = None
) -> "tuple[str | None, Report]":
    """The name of the model (None for a KB) and how it does, under all filters, one, or the protocol's own (None)."""
    from timeplex.evaluation import protocol as protocols
    from timeplex.evaluation.filters import FILTERS
    from timeplex.evaluation.ranking import LinkPrediction
    from timeplex.evaluation.report import evaluate as evaluate_task
    from timeplex.evaluation.report import evaluate_baselines
    from timeplex.sources import read
    from timeplex.training.loop import choose_device
    from timeplex.training.run import RunFolder

    chosen = protocols.protocol(protocol, None if filter_ == "all" else filter_)
    filters = FILTERS if filter_ == "all" else (chosen.filter,)
    folder = RunFolder(Path(source))
    if not folder.is_begun:  # a KB folder has a manifest, too
        kb = read(source, data_dir=data_dir)
        task = LinkPrediction(kb, kb.split(split), kb.timeline("calendar"), chosen, filters)
        return None, evaluate_baselines(task, split)
    run = folder.load(choose_device(device))
    task = LinkPrediction(run.kb, run.kb.split(split), run.timeline, chosen, filters)
    return run.recipe.title, evaluate_task(task, run.scorer, split, choose_device(device))


def _write(report: "Report", path: Path) -> None:
    from io import BytesIO

    from timeplex.files import write_whole

    table = BytesIO()
    report.per_query().write_parquet(table)
    write_whole(path, table.getvalue())


def _by_as_json(report: "Report", by: str) -> dict[str, Any]:
    from timeplex.evaluation.metrics import nested

    times = report.time_figures(by) if report.times is not None and by in report.times.columns else None
    return {
        "link": nested(report.links(by), ["filter", by, "direction"]),
        "time": {} if times is None else nested(times, ["decoder", by]),
    }


def _show(report: "Report", model: str | None, by: str | None) -> None:
    facts = len(report.queries) // 2
    say(f"{model or 'baselines'} on {report.kb}, {report.split}: {counted(facts, 'fact')}, {2 * facts:,} queries")
    say(f"protocol {report.protocol}")
    say()
    if model:
        _show_links(report.links(), "filter", "Link prediction (%)")
        if by:
            here = report.links(by).filter(filter=report.protocol.filter, direction="both")
            _show_links(here, by, f"By {by}, {report.protocol.filter} filter (%)")
    _show_baselines(report, model)
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


def _show_baselines(report: "Report", model: str | None) -> None:
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
