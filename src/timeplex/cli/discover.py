"""`timeplex discover RUN -o OUT`: facts that are likely true and not in the KB."""

from pathlib import Path

import typer

from timeplex.cli.options import (
    DEVICE_OPTION,
    FORMULAS_OPTION,
    JSON_OPTION,
    OWN_MODELS_OPTION,
    RUN_ARGUMENT,
    calibrating,
    opened,
)
from timeplex.cli.show import print_json, print_table, progress, say
from timeplex.errors import InputError
from timeplex.text import counted


def discover(
    run: Path = RUN_ARGUMENT,
    output: Path = typer.Option(..., "-o", "--output", metavar="OUT", help="A .csv, .tsv, .jsonl or .parquet file."),
    relation: list[str] = typer.Option([], "--relation", help="Only this relation; may be given several times."),
    min_probability: float = typer.Option(0.1, "--min-probability", "--min-prob", help="The least probability."),
    limit: int = typer.Option(1000, "--limit", "--most", help="How many facts to keep, the best ones."),
    show: int = typer.Option(5, "--show", min=0, help="How many to print."),
    models: list[str] = OWN_MODELS_OPTION,
    formulas: bool = FORMULAS_OPTION,
    device: str = DEVICE_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Find facts that are likely true and that the KB does not state, best first, each with dates and a reason.

    The probability is learned from dev facts, which the model has not seen: the share of such proposals that were among
    them. Facts that are true but stated nowhere counted as wrong, so it is rather too low than too high.

    Example: timeplex discover runs/sample -o found.csv --relation headOfGovernment
    """
    from timeplex.files import check_writable
    from timeplex.kb.readers import check_format
    from timeplex.kb.store import write_frame

    check_format(output)
    check_writable(output)
    trained = opened(run, device, models)
    if output.resolve().is_relative_to(run.resolve()):
        raise InputError(f"{output} lies in the run folder.", "Choose another place with -o.")
    with calibrating(trained):
        proposals = trained.proposals  # so that it is not fitted under the next bar
    with progress(f"searching {trained.kb.name}", "entities") as report:
        found = trained.discover(relation=relation, min_probability=min_probability, limit=limit, on_progress=report)
    write_frame(found, output, formulas=formulas)
    if as_json:
        facts = {"found": len(found), "file": str(output), "facts": found[: min(show, len(found))].to_dicts()}
        print_json({"run": str(run), "calibration": proposals.model_dump(include={"facts", "measured"}), **facts})
        return
    if show and len(found):
        shown = found.drop("reason").head(min(show, len(found)))
        print_table("", shown.columns, shown.rows(), decimals=3)
    say(proposals.note(len(trained.kb.facts)))
    say(f"{counted(len(found), 'fact')} with a probability of at least {min_probability:g}, saved in {output}.")
