"""`timeplex train KB`: learn a model, and go on where it was cut off."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from timeplex.cli.options import (
    DATA_DIR_OPTION,
    DEVICE_OPTION,
    JSON_OPTION,
    LEARNED_MODEL_OPTION,
    SETTINGS_OPTION,
    to_learn_from,
)
from timeplex.cli.show import duration, print_json, progress, say, training_display, visible
from timeplex.text import counted

if TYPE_CHECKING:
    from timeplex.training.loop import Trainer


def train(
    kb: str | None = typer.Argument(None, metavar="KB", help="What to learn from; not needed with --resume."),
    output: Path = typer.Option(..., "-o", "--output", metavar="RUN", help="The run folder."),
    model: str | None = LEARNED_MODEL_OPTION,
    recipe: Path | None = typer.Option(None, help="A recipe of timeplex by name (yago11k/timeplex), or a TOML file."),
    base: Path | None = typer.Option(
        None, metavar="RUN", help="Take the model of this run, and train the recipe's gadgets alone."
    ),
    resume: bool = typer.Option(False, "--resume", help="Go on where the run was cut off."),
    settings: list[str] = SETTINGS_OPTION,
    device: str = DEVICE_OPTION,
    trackers: list[str] = typer.Option([], "--track", metavar="NAME", help="Log to tensorboard or mlflow, too."),
    data_dir: Path | None = DATA_DIR_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Train a model on a KB. With nothing but a KB, a recipe that suits its size is chosen.

    Ctrl-C is safe: it saves, and --resume goes on bit by bit as if nothing had happened.

    Example: timeplex train sample -o runs/sample
    """
    from timeplex.api import trainer_for
    from timeplex.errors import Stopped
    from timeplex.models.loading import names_file
    from timeplex.training.tracking import track

    tracking = track(trackers, output, _warn)
    data = kb if kb is None or resume else to_learn_from(kb, data_dir)
    with progress("preparing"):
        trainer = trainer_for(data, output, model, recipe, settings, base, resume, device)
    if not as_json:
        _announce(trainer, resume)
    try:
        with training_display(as_json) as on_progress:
            metrics = trainer.fit(on_progress, resume=resume, tracking=tracking)
    except Stopped as stopped:
        own = [f"--model {model}"] if model and names_file(model) else []
        again = " ".join(["timeplex train --resume -o", str(output), *own, *(f"--track {name}" for name in trackers)])
        say(f"Stopped after {trainer.state.step} steps. Go on with: {again}")
        raise typer.Exit(stopped.code) from None
    if "diverged" in metrics:
        _warn(metrics["diverged"])
    _report(trainer, metrics, output, as_json)


def _announce(trainer: "Trainer", resume: bool) -> None:
    """Say what will be trained, with what numbers, and about how long it takes."""
    from timeplex.training.estimate import estimate

    done = len(trainer.run.trace()) if resume and trainer.run is not None else 0
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
