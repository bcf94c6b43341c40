"""`timeplex train KB`: learn a model, and go on where it was cut off."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from timeplex.cli.show import DATA_DIR_OPTION, JSON_OPTION, print_json, progress, say, visible
from timeplex.text import counted

if TYPE_CHECKING:
    from timeplex.kb.facts import TemporalKB
    from timeplex.training.checkpoint import Listener, Progress
    from timeplex.training.loop import Trainer
    from timeplex.training.recipe import Recipe


def train(
    kb: str | None = typer.Argument(None, metavar="KB", help="What to learn from; not needed with --resume."),
    output: Path = typer.Option(..., "-o", "--output", metavar="RUN", help="The run folder."),
    model: str | None = typer.Option(None, help="A model (see: timeplex models), or path/to/file.py:name."),
    recipe: Path | None = typer.Option(None, help="A TOML file with all settings."),
    base: Path | None = typer.Option(
        None, metavar="RUN", help="Take the model of this run, and train the recipe's gadgets alone."
    ),
    resume: bool = typer.Option(False, "--resume", help="Go on where the run was cut off."),
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="Change a setting of the recipe."),
    device: str = typer.Option("auto", help="auto, cpu or cuda."),
    trackers: list[str] = typer.Option([], "--track", metavar="NAME", help="Log to tensorboard or mlflow, too."),
    data_dir: Path | None = DATA_DIR_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Train a model on a KB. With nothing but a KB, a recipe that suits its size is chosen.

    Ctrl-C is safe: it saves, and --resume goes on bit by bit as if nothing had happened.

    Example: timeplex train sample -o runs/sample
    """
    from timeplex.errors import InputError
    from timeplex.models.loading import names_file, own_models
    from timeplex.training.checkpoint import Stopped
    from timeplex.training.experiment import Experiment
    from timeplex.training.loop import Trainer
    from timeplex.training.run import RunFolder
    from timeplex.training.tracking import track

    tracking = track(trackers, output, _warn)
    if resume:
        if kb or recipe or settings or base or (model and not names_file(model)):
            raise InputError("A resumed run has its KB and its recipe.", "Give --resume and -o RUN alone.")
        own_models([model] if model else [])
        folder = RunFolder(output)
        if folder.is_finished:
            folder.tidy()
            raise InputError(f"{output} is finished.", "Nothing is left to do.")
        if not folder.is_begun:
            raise InputError(f"{output} is not a run that was begun.", "Start one with: timeplex train KB -o RUN")
        data, chosen = folder.kb(), folder.recipe()
        folder.check_checkpoint(Experiment(data, chosen))
    else:
        if kb is None:
            raise InputError("There is nothing to learn from.", "Give a KB, such as: timeplex train sample -o RUN")
        data, chosen = prepare(kb, data_dir, model, recipe, settings)
    with progress("preparing"):
        trainer = Trainer(data, chosen, output, device, base)
    if not as_json:
        _announce(trainer, len(RunFolder(output).trace()) if resume else 0, resume)
    try:
        with display(as_json) as listener:
            metrics = trainer.fit(listener, resume=resume, tracking=tracking)
    except Stopped as stopped:
        own = [f"--model {model}"] if model and names_file(model) else []
        again = " ".join(["timeplex train --resume -o", str(output), *own, *(f"--track {name}" for name in trackers)])
        say(f"Stopped after {trainer.state.step} steps. Go on with: {again}")
        raise typer.Exit(stopped.code) from None
    if "diverged" in metrics:
        _warn(metrics["diverged"])
    _report(trainer, metrics, output, as_json)


def prepare(
    kb: str, data_dir: Path | None, model: str | None, recipe: Path | None, settings: list[str]
) -> "tuple[TemporalKB, Recipe]":
    """The KB with dev facts, and the recipe that the options say."""
    from timeplex.sources import read
    from timeplex.training.defaults import recipe_for, with_dev

    with progress(f"reading {kb}") as report:
        found = read(kb, data_dir=data_dir, progress=report)
    data = with_dev(found)
    if data is not found:
        typer.echo("The KB has no dev facts: it was split at random, 8 : 1 : 1 (see: timeplex split).", err=True)
    return data, recipe_for(data, model, recipe, settings)


def _announce(trainer: "Trainer", done: int, resume: bool) -> None:
    """Say what will be trained, with what numbers, and about how long it takes, where so many epochs are done."""
    from timeplex.training.estimate import estimate

    recipe, kb = trainer.recipe, trainer.setup.kb
    dimension = recipe.options.get("dimension")
    say(
        f"{recipe.title} on {kb.name}: {len(kb.train):,} facts, {len(kb.entities):,} entities, "
        f"{len(trainer.setup.timeline):,} instants; dimension {dimension}, batch {recipe.batch_size}, "
        f"at most {counted(recipe.epochs, 'epoch')}, seed {recipe.seed}"
    )
    with progress("estimating how long it takes"):
        epoch, gadgets = estimate(trainer)
    if trainer.base is not None:
        learn = f"only the gadgets learn, about {duration(gadgets)}"
        say(f"The model is that of {trainer.base.path}; {learn} · Ctrl-C is safe")
        return
    if not resume:  # a resumed run keeps what it was begun with
        say(f"{trainer.precision.name}, because {trainer.precision.reason}")
    left = max(recipe.epochs - done, 0)
    needed = f"for at most {counted(left, 'epoch')} more" if done else "if all epochs are needed"
    then = f", then about {duration(gadgets)} for the gadgets" if recipe.gadgets else ""
    say(
        f"{trainer.model.parameter_count:,} parameters · about {duration(epoch)} an epoch, "
        f"{duration(epoch * left)} {needed}{then} · Ctrl-C is safe"
    )


def duration(seconds: float) -> str:
    """A length of time as a person would say it."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def display(quiet: bool) -> "Iterator[Listener | None]":
    """A live line on a terminal, a line an epoch elsewhere."""
    if quiet:
        yield None
    elif not sys.stderr.isatty():
        yield _print_epochs
    else:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("training", total=None)

            def listen(now: "Progress") -> None:
                done = (now.epoch - 1) * now.batches + now.batch
                bar.update(task, completed=done, total=now.epochs * now.batches, description=_line(now))

            yield listen


def _print_epochs(now: "Progress") -> None:
    if now.ended:
        typer.echo(visible(f"{_line(now)}  {now.seconds:.0f} s"), err=True)


def _line(now: "Progress") -> str:
    if now.doing:
        return f"{now.gadgets}: {now.doing}"
    dev = "" if now.dev is None else f"  dev MRR {100 * now.dev:.2f} (best {100 * (now.best or 0):.2f})"
    return f"{now.gadgets and now.gadgets + ': '}epoch {now.epoch}/{now.epochs}  loss {now.loss:.3f}{dev}"


def _warn(sentence: str) -> None:
    typer.echo(visible(f"warning: {sentence}"), err=True)


def _report(trainer: "Trainer", metrics: dict[str, Any], output: Path, as_json: bool) -> None:
    if as_json:
        print_json({**metrics, "run": str(output)})
        return
    dev = metrics["dev"]
    if dev:
        say(
            f"dev ({metrics['protocol']} protocol): MRR {100 * dev['mrr']:.2f}  HITS@1 {100 * dev['hits@1']:.2f}  "
            f"HITS@3 {100 * dev['hits@3']:.2f}  HITS@10 {100 * dev['hits@10']:.2f}"
        )
    seconds, gadgets = metrics["seconds"], metrics.get("phase2")
    if gadgets:
        before = f"MRR {100 * gadgets['base_dev']['mrr']:.2f} without gadgets, " if dev else ""
        say(f"{before}which learned for {duration(gadgets['seconds'])}")
        seconds += gadgets["seconds"]
    say(f"best epoch {metrics['best_epoch']} of {metrics['epochs']}, {duration(seconds)} in all. Saved in {output}.")
