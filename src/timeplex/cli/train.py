"""The verbs that make models: `train` and `tune`; `models` and `check-model` tell what can be trained."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from timeplex.cli import options
from timeplex.cli.show import duration, print_json, print_table, progress, say, training_display, visible
from timeplex.errors import Stopped
from timeplex.text import counted

if TYPE_CHECKING:
    from timeplex.training.loop import Trainer
    from timeplex.training.tune import Trial


def train(
    kb: str | None = typer.Argument(None, metavar="KB", help="What to learn from; not needed with --resume."),
    output: Path = typer.Option(..., "-o", "--output", metavar="RUN", help="The run folder."),
    model: str | None = options.LEARNED_MODEL,
    recipe: Path | None = typer.Option(None, help="A recipe of timeplex by name (yago11k/timeplex), or a TOML file."),
    base: Path | None = typer.Option(
        None, metavar="RUN", help="Take the model of this run, and train the recipe's gadgets alone."
    ),
    resume: bool = typer.Option(False, "--resume", help="Go on where the run was cut off."),
    settings: list[str] = options.SETTINGS,
    patterns: bool = typer.Option(
        True, "--patterns/--no-patterns", help="Learn the patterns for answers now, or with the first question."
    ),
    device: str = options.DEVICE,
    trackers: list[str] = typer.Option([], "--track", metavar="NAME", help="Log to tensorboard or mlflow, too."),
    data_dir: Path | None = options.DATA_DIR,
    as_json: bool = options.JSON,
) -> None:
    """Train a model on a KB. With nothing but a KB, a recipe that suits its size is chosen.

    Then patterns are learned, which answers count beside the model's scores.
    Ctrl-C is safe: it saves, and --resume goes on bit by bit as if nothing had happened.

    Example: timeplex train sample -o runs/sample
    """
    from timeplex.api import trainer_for
    from timeplex.models.loading import names_file
    from timeplex.training.tracking import track

    tracking = track(trackers, output, _warn)
    data = kb if kb is None or resume else options.to_learn_from(kb, data_dir)
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
    if patterns:
        _learn_patterns(output, device)
    _report(trainer, metrics, output, as_json)


def _learn_patterns(output: Path, device: str) -> None:
    """Have what answers need ready; the run is finished, so that nothing is lost if this is stopped."""
    try:
        with progress(f"learning the patterns of {output}", "steps") as report:
            from timeplex.answers.trained import load

            load(output, device).learn(report)
    except KeyboardInterrupt:
        say(f"Stopped. The model is saved in {output}; its patterns are learned with the first question.")
        raise typer.Exit(130) from None


def _announce(trainer: "Trainer", resume: bool) -> None:
    """Say what will be trained, with what numbers, and about how long it takes."""
    from timeplex.training.loop import estimate

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


def tune(
    kb: str = options.KB,
    output: Path = typer.Option(..., "-o", "--output", metavar="DIR", help="Where the search is kept; it resumes."),
    trials: int = typer.Option(20, min=1, help="How many trials there are to be in all."),
    model: str | None = options.LEARNED_MODEL,
    recipe: Path | None = typer.Option(None, help="A recipe by name, or a TOML file, to start from."),
    settings: list[str] = options.SETTINGS,
    search: str = typer.Option("all", help="all: every range at once; paper: the paper's two stages."),
    data_dir: Path | None = options.DATA_DIR,
    as_json: bool = options.JSON,
) -> None:
    """Search for the settings that do best on dev. Cut off, the same command goes on.

    Example: timeplex tune sample --model complex --trials 10 -o search --set epochs=10
    """
    from timeplex import api

    data = options.to_learn_from(kb, data_dir)
    bar = ExitStack()  # closed while a line is printed: on a terminal the two would write over each other

    def listen(trial: "Trial") -> None:
        bar.close()
        values = "  ".join(f"{key} {value:.4g}" for key, value in trial.settings.items())
        say(f"trial {trial.number + 1}: dev MRR {100 * trial.mrr:.2f}  {values}")
        bar.enter_context(progress("trying other settings"))

    bar.enter_context(progress("trying settings"))
    try:
        best = api.tune(
            data,
            output,
            trials=trials,
            model=model,
            recipe=recipe,
            settings=settings,
            search=search,
            on_progress=None if as_json else listen,
        )
    except (Stopped, KeyboardInterrupt) as stopped:  # the latter between two trials
        bar.close()
        say("Stopped. The same command goes on.")
        raise typer.Exit(stopped.code if isinstance(stopped, Stopped) else 130) from None
    finally:
        bar.close()
    if as_json:
        print_json({"best": best.model_dump(), "folder": str(output)})
        return
    say(f"The best recipe is in {output / 'best.json'}.")


def models(
    kb: str | None = typer.Argument(None, metavar="[KB]", help="Count the parameters for this KB (else for YAGO11k)."),
    data_dir: Path | None = options.DATA_DIR,
    as_json: bool = options.JSON,
) -> None:
    """List the models and gadgets: the formula, the options with their defaults, how many numbers a model would learn.

    Example: timeplex models sample
    """
    from timeplex.api import list_models

    with progress("counting"):
        found = list_models(kb, data_dir=data_dir)
    if as_json:
        print_json({**found, "kb": kb or "yago11k"})
        return
    table = [[row["name"], row["parameters"], row["summary"], _written(row["options"])] for row in found["models"]]
    print_table("Models", ["name", "parameters", "what it is", "options"], table)
    table = [[row["name"], row["summary"], _written(row["options"])] for row in found["gadgets"]]
    print_table("Gadgets, which a recipe adds to a model", ["name", "what it is", "options"], table)
    entities = counted(found["entities"], "entity", "entities")
    relations, instants = counted(found["relations"], "relation"), counted(found["instants"], "instant")
    say(f"Parameters for {kb or 'the size of yago11k'}: {entities}, {relations} and their inverses, {instants}.")
    say("Your own model is one class in a file: check it with timeplex check-model path/to/file.py:name")


def check_model(
    name: str = typer.Argument(..., metavar="NAME", help="A model's name, or path/to/file.py:name for your own."),
    examples: int = typer.Option(25, "--examples", min=1, help="How many random worlds each law is tried in."),
    seed: int = typer.Option(0, "--seed", min=0, help="Decides which worlds."),
    as_json: bool = options.JSON,
) -> None:
    """Try the laws that every model must keep on a model, with all its options. Exit code 1 if one is broken.

    Example: timeplex check-model timeplex-base
    """
    import torch

    from timeplex.models.loading import named_model
    from timeplex.testing.models import LAWS, variants
    from timeplex.testing.models import check_model as check_laws

    torch.set_num_threads(1)  # the tables are so small that a second thread only costs
    model = named_model(name)
    options = variants(model)
    with progress(f"checking {name}"):
        results = check_laws(model, options, examples, seed)
    broken = [result for result in results if not result.passed]
    if as_json:
        laws = [{"law": result.law, "passed": result.passed, "message": result.message} for result in results]
        tried = {"examples": max(examples, len(options)), "variants": len(options)}
        print_json({"model": name, **tried, "passed": not broken, "laws": laws})
    else:
        table = [[result.law, "pass" if result.passed else "FAIL", _first_line(LAWS[result.law])] for result in results]
        print_table(f"Laws of {name}", ["law", "", "what it says"], table)
        for result in broken:
            say(f"{result.law}: {result.message}.")
        worlds = counted(max(examples, len(options)), "world")
        verdict = f"{counted(len(broken), 'law')} broken" if broken else "All laws hold"
        say(f"{verdict} in {worlds} with {counted(len(options), 'set')} of options.")
    if broken:
        raise typer.Exit(1)


def _first_line(documented: object) -> str:
    return (documented.__doc__ or "").strip().partition("\n")[0]


def _written(options: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items())
