"""The verbs that measure: `evaluate`, `compare`, `diagnose`, and `reproduce` for the paper's tables and figures."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from timeplex.cli import options
from timeplex.cli.show import duration, print_json, print_table, progress, say, training_display, visible
from timeplex.errors import InputError, Stopped
from timeplex.text import counted

if TYPE_CHECKING:
    import polars as pl

    from timeplex.api import Diagnosis
    from timeplex.evaluation.plots import Years
    from timeplex.evaluation.report import Report
    from timeplex.reproduce import Step


LINK_COLUMNS = ("mrr", "hits@1", "hits@3", "hits@10")
TIME_COLUMNS = ("aeiou@1", "aeiou@5", "aeiou@10", "gaeiou@1", "giou@1", "iou@1", "tac@1")


def evaluate(
    source: str = typer.Argument(..., metavar="RUN|KB", help="A run folder, or a KB for the baselines alone."),
    split: str = options.SPLIT,
    protocol: str = options.PROTOCOL,
    filter_: str = typer.Option("all", "--filter", help="all, none, ignore-time, exact-span or per-instant."),
    by: str | None = typer.Option(None, help="Break down by relation, span, class, seen or frequency."),
    per_query: Path | None = typer.Option(None, metavar="FILE.parquet", help="Write a row for every query."),
    models: list[str] = options.OWN_MODELS,
    device: str = options.DEVICE,
    data_dir: Path | None = options.DATA_DIR,
    as_json: bool = options.JSON,
) -> None:
    """Evaluate a trained model: link prediction under time-aware filters, time prediction, baselines beside them.

    Example: timeplex evaluate runs/yago11k --protocol published-code
    """
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
        _show_report(report, by)
        if per_query is not None:
            say(f"Every query is in {per_query}.")


def _show_report(report: "Report", by: str | None) -> None:
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


Row = dict[str, Any]
"""One comparison, as in `Comparisons.table`."""

HEADERS = ("facts", "first", "other", "difference", "95 % interval", "p")


def compare(
    runs: list[Path] = typer.Argument(
        ..., metavar="RUN RUN…", help="Run folders; the first is compared with the others."
    ),
    split: str = options.SPLIT,
    protocol: str = options.PROTOCOL,
    decoder: str = typer.Option("mean-mass", help="How spans are predicted: mean-mass, grid or expected-aeiou."),
    by_relation: bool = typer.Option(False, "--by-relation", help="Also for each relation."),
    latex: bool = typer.Option(False, "--latex", help="Print LaTeX tables."),
    models: list[str] = options.OWN_MODELS,
    device: str = options.DEVICE,
    as_json: bool = options.JSON,
) -> None:
    """Compare trained models on the same queries: MRR and aeIOU@1, with a paired t-test and a bootstrap interval.

    Example: timeplex compare runs/complex runs/timeplex --split valid
    """
    from timeplex import api

    with progress(f"evaluating {', '.join(str(run) for run in runs)}"):
        found = api.compare(
            *runs,
            split=split,
            protocol=protocol,
            decoder=decoder,
            by_relation=by_relation,
            device=device,
            model=models,
        )
    if as_json:
        print_json(found.as_dict())
        return
    if not latex:
        say(f"{found.kb}, {split}; protocol {found.protocol}; spans by {decoder}")
        say()
    for (metric, other), rows in found.table.group_by("metric", "other", maintain_order=True):
        title = f"{metric} (%): {runs[0]} against {other}"
        (_print_latex if latex else _print_comparison)(title, rows.to_dicts())


def _cells(row: Row) -> list[object]:
    interval = f"{100 * row['low']:+.2f} … {100 * row['high']:+.2f}"
    p = "< 0.0001" if row["p"] < 0.0001 else f"{row['p']:.4f}"
    return [row["facts"], 100 * row["first"], 100 * row["second"], f"{100 * row['difference']:+.2f}", interval, p]


def _print_comparison(title: str, rows: list[Row]) -> None:
    print_table(title, ["", *HEADERS], [[row["of"], *_cells(row)] for row in rows], decimals=2)


def _print_latex(title: str, rows: list[Row]) -> None:
    lines = [
        f"% {title}",
        r"\begin{tabular}{lrrrrrr}",
        r"\hline",
        " & ".join(["", "facts", "first", "other", "difference", r"95\,\% interval", "$p$"]) + r" \\ \hline",
    ]
    for row in rows:
        facts, first, second, *rest = _cells(row)
        texts = [f"{facts}", f"{first:.2f}", f"{second:.2f}", *(str(cell) for cell in rest)]
        cells = [text.replace("<", "$<$").replace("…", r"\ldots") for text in texts]
        lines.append(" & ".join([_escaped(row["of"]), *cells]) + r" \\")
    for line in [*lines, r"\hline", r"\end{tabular}"]:
        say(line)


def _escaped(name: str) -> str:
    return "".join(f"\\{letter}" if letter in "_%&#${}" else letter for letter in name)


def diagnose(
    runs: list[Path] = typer.Argument(..., metavar="RUN…", help="Run folders of models trained on one KB."),
    split: str = options.SPLIT,
    distances: Path | None = typer.Option(None, metavar="FILE", help="Draw distances of time embeddings (.png, .svg)."),
    across_time: Path | None = typer.Option(None, metavar="FILE", help="Draw the probability of --fact over time."),
    fact: tuple[str, str, str] | None = typer.Option(None, metavar="S R O", help="Subject, relation and object."),
    years: str | None = typer.Option(None, metavar="FROM..TO", help="The years that pictures show."),
    models: list[str] = options.OWN_MODELS,
    device: str = options.DEVICE,
    as_json: bool = options.JSON,
) -> None:
    """Show orderings of relations, how often top predictions break them, and pictures of time.

    Example: timeplex diagnose runs/yago11k --distances distances.png --years 1958..2017
    """
    from timeplex.evaluation.plots import check_picture

    if (across_time is None) != (fact is None):
        raise InputError("--across-time and --fact belong together.", "Give both, or none.")
    for picture in (distances, across_time):
        if picture is not None:
            check_picture(picture)
    window = _years(years)
    from timeplex import api

    with progress("asking for subjects"):
        found = api.diagnose(*runs, split=split, device=device, model=models)
    if as_json:
        print_json(found.as_dict())
    else:
        _show_diagnosis(found)
    if distances is not None:
        found.draw_distances(distances, window)
        typer.echo(visible(f"Distances of time embeddings are drawn in {distances}."), err=as_json)
    if across_time is not None and fact is not None:
        found.draw_across_time(across_time, fact, window)
        typer.echo(visible(f"Probabilities over time are drawn in {across_time}."), err=as_json)


def _years(text: str | None) -> "Years | None":
    if text is None:
        return None
    first, separator, last = text.partition("..")
    try:
        window = (int(first), int(last))
    except ValueError:
        window = (0, -1)
    if not separator or window[0] > window[1]:
        raise InputError(f"{text!r} are not years.", "Give the first and the last, such as 1958..2017.")
    return window


def _show_diagnosis(found: "Diagnosis") -> None:
    if not found.orderings:
        say("No relation comes before another regularly enough in train, so that none can be broken.")
        return
    relations = found.kb.relations
    rows = [[each.text(relations), 100 * each.confidence, each.cases, each.entities] for each in found.orderings]
    print_table("Orderings in train", ["ordering", "holds in %", "pairs of facts", "subjects"], rows)
    print_table(
        f"Broken by top subjects on {found.split}",
        ["model", "% of queries", "queries asked"],
        [[name, 100 * broken.share, broken.queries] for name, broken in found.violations.items()],
        decimals=2,
    )
    for name in found.violations:
        for sentence in found.examples(name):
            say(f"{name}: {sentence}")


def reproduce(
    tables: list[str] = typer.Option(
        [], "--table", metavar="NAME", help="link, time, ordering, filter, ablation, classes, params or stats."
    ),
    figures: list[str] = typer.Option([], "--figure", metavar="NAME", help="distance or across-time."),
    datasets: list[str] = typer.Option([], "--dataset", metavar="NAME", help="Only this data set."),
    models: list[str] = typer.Option([], "--model", metavar="NAME", help="Only this model."),
    seeds: int | None = typer.Option(None, min=1, help="How many seeds (else 3 for yago11k, 1 elsewhere)."),
    runs: Path = typer.Option(Path("runs"), metavar="DIR", help="Where run folders are, or will be."),
    results: Path = typer.Option(Path("results"), metavar="DIR", help="Where results are recorded."),
    recipes: Path | None = typer.Option(
        None, metavar="DIR", help="Your own recipes, DIR/<dataset>/<model>.toml (else those of timeplex)."
    ),
    docs: Path = typer.Option(Path("docs"), metavar="DIR", help="Where results.md and figures are written."),
    again: bool = typer.Option(False, "--again", help="Evaluate what is recorded once more."),
    train: bool = typer.Option(True, "--train/--no-train", help="Train what is missing, or only use finished runs."),
    device: str = options.DEVICE,
    data_dir: Path | None = options.DATA_DIR,
) -> None:
    """Regenerate the paper's tables and figures: train what is missing, evaluate, write docs/results.md.

    What is recorded in results/ is not done again; where nothing is, the results that come with timeplex are shown.
    Ctrl-C is safe: the same command goes on.

    Example: timeplex reproduce --table link --dataset yago11k
    """
    from timeplex import __version__
    from timeplex.reproduce import reproduce as regenerate

    try:
        done = regenerate(
            tables,
            figures,
            datasets,
            models,
            seeds=seeds,
            runs=runs,
            results=results,
            recipes=recipes,
            docs=docs,
            again=again,
            train=train,
            device=device,
            data_dir=data_dir,
            on_step=_tell,
            display=lambda: training_display(False),
        )
    except Stopped as stopped:
        say("Stopped. The same command goes on.")
        raise typer.Exit(stopped.code) from None
    for table in done.tables:
        for line in [*table.splitlines(), ""]:
            say(line)
    if done.shipped:
        say(f"Recorded with timeplex {__version__}. To train and measure here, give --again.")
    if done.page is not None:
        lacking = f" No result yet: {done.absent} of {counted(done.runs, 'run')}." if done.absent else ""
        say(f"{done.page} is written, with {counted(len(done.figures), 'figure')}.{lacking}")


def _tell(step: "Step") -> None:
    left = "" if step.left is None else f" (about {duration(step.left)} left for all, at the pace so far)"
    typer.echo(visible(f"{step.number} of {step.total}: {step.what}{left}"), err=True)
