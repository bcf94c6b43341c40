"""`timeplex models` and `timeplex check-model NAME`: which models there are, and whether one keeps the laws."""

from pathlib import Path
from typing import Any

import typer

from timeplex.cli.options import DATA_DIR_OPTION, JSON_OPTION
from timeplex.cli.show import print_json, print_table, progress, say
from timeplex.text import counted


def models(
    kb: str | None = typer.Argument(None, metavar="[KB]", help="Count the parameters for this KB (else for YAGO11k)."),
    data_dir: Path | None = DATA_DIR_OPTION,
    as_json: bool = JSON_OPTION,
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
    as_json: bool = JSON_OPTION,
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
