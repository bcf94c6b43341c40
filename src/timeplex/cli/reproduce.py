"""`timeplex reproduce`: the paper's tables and figures from real runs, with the published numbers beside ours."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from timeplex.cli.evaluate import DEVICE_OPTION
from timeplex.cli.show import DATA_DIR_OPTION, say, visible
from timeplex.text import counted

if TYPE_CHECKING:
    from timeplex.reproduce.plan import Request
    from timeplex.reproduce.records import Results
    from timeplex.reproduce.runner import Step


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
    device: str = DEVICE_OPTION,
    data_dir: Path | None = DATA_DIR_OPTION,
) -> None:
    """Regenerate the paper's tables and figures: train what is missing, evaluate, write docs/results.md.

    What is recorded in results/ is not done again; where nothing is, the results that come with timeplex are shown.
    Ctrl-C is safe: the same command goes on.

    Example: timeplex reproduce --table link --dataset yago11k
    """
    from timeplex import __version__
    from timeplex.errors import InputError
    from timeplex.reproduce import figures as pictures
    from timeplex.reproduce.plan import Request
    from timeplex.reproduce.records import SHIPPED, Results
    from timeplex.reproduce.tables import ALL, is_complete, write

    request, recorded = Request.of(tables, figures, datasets, models, seeds), Results(results)
    if not request.cells() and "stats" not in request.tables:
        raise InputError("No table or figure that is asked for needs such a run.", "Leave out --model or --dataset.")
    shipped = not (again or recipes) and recorded.is_empty and is_complete(request, Results(SHIPPED))
    if shipped:
        recorded = Results(SHIPPED)
    elif again or not is_complete(request, recorded):
        _run(request, recorded, runs, recipes, data_dir, device, again=again, train=train)
    if recorded.is_empty:
        raise InputError(
            f"{results} has no results, and {runs} no finished run to evaluate.", "Leave out --no-train to train."
        )
    for name in request.tables if tables else ():
        for line in [*ALL[name](recorded, request.datasets).splitlines(), ""]:
            say(line)
    if shipped:
        say(f"Recorded with timeplex {__version__}. To train and measure here, give --again.")
        if not request.figures:  # a page about everything, in the middle of somebody's folder, was not asked for
            return
    drawn = pictures.draw(recorded, docs / "figures")
    path = write(recorded, docs)
    absent = sum(not recorded.has(cell) for cell in request.cells())
    lacking = f" No result yet: {absent} of {counted(len(request.cells()), 'run')}." if absent else ""
    say(f"{path} is written, with {counted(len(drawn), 'figure')}.{lacking}")


def _run(
    request: "Request",
    recorded: "Results",
    runs: Path,
    recipes: Path | None,
    data_dir: Path | None,
    device: str,
    *,
    again: bool,
    train: bool,
) -> None:
    from timeplex.cli.train import display
    from timeplex.reproduce.runner import Workspace, run_missing
    from timeplex.training.checkpoint import Stopped
    from timeplex.training.recipe import SHIPPED

    workspace = Workspace(runs, recorded, recipes or SHIPPED, data_dir, device)
    try:
        run_missing(request, workspace, again=again, train=train, on_step=_tell, display=lambda: display(False))
    except Stopped as stopped:
        say("Stopped. The same command goes on.")
        raise typer.Exit(stopped.code) from None


def _tell(step: "Step") -> None:
    from timeplex.cli.train import duration

    left = "" if step.left is None else f" (about {duration(step.left)} left for all, at the pace so far)"
    typer.echo(visible(f"{step.number} of {step.total}: {step.what}{left}"), err=True)
