"""`timeplex reproduce`: the paper's tables and figures from real runs, with the published numbers beside ours."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from timeplex.cli.options import DATA_DIR_OPTION, DEVICE_OPTION
from timeplex.cli.show import duration, say, training_display, visible
from timeplex.text import counted

if TYPE_CHECKING:
    from timeplex.reproduce import Step


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
    from timeplex.errors import Stopped
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
