"""`timeplex explain RUN S R O --at T`: why a fact has its score, in parts and in sentences."""

from pathlib import Path

import typer

from timeplex.cli.options import DEVICE_OPTION, JSON_OPTION, OWN_MODELS_OPTION, RUN_ARGUMENT, opened
from timeplex.cli.show import named, print_json, print_table, say
from timeplex.text import counted


def explain(
    run: Path = RUN_ARGUMENT,
    subject: str = typer.Argument(..., help="The subject: an id or a label."),
    relation: str = typer.Argument(..., help="The relation."),
    object_: str = typer.Argument(..., metavar="OBJECT", help="The object."),
    at: str = typer.Option(..., metavar="DATE|FROM..TO", help="The time; a span is explained at its begin."),
    limit: int = typer.Option(5, "--limit", "--most", min=0, help="How many reasons to show."),
    models: list[str] = OWN_MODELS_OPTION,
    device: str = DEVICE_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Explain a score: its parts, which sum to it, and the training facts behind them.

    Higher scores are likelier; only scores of one question can be compared. A reason says whether its fact fits what
    the training facts of the same relations have in common.

    Example: timeplex explain runs/sample "Angela Merkel" headOfGovernment Germany --at 2005
    """
    trained = opened(run, device, models)
    found = trained.explain(subject, relation, object_, at=at)
    if as_json:
        about = {"run": str(run), "model": trained.run.recipe.title, "kb": trained.kb.name}
        print_json({**about, **found.as_dict(), "reasons": found.as_dict()["reasons"][:limit]})
        return
    say(f"{found.question}, at {found.at}: score {found.score:.3f}, by {named(trained)}")
    if found.note:
        say(found.note)
    print_table("", ["part", "value"], [[part.name, part.value] for part in found.parts], decimals=3)
    for reason in found.reasons[:limit]:
        say(f"{reason.value:+.3f}  {reason.gadget}  {reason.sentence}")
    if not found.reasons:
        say("No training fact stands behind the score by itself: it is the model's alone.")
    elif len(found.reasons) > limit:
        say(f"{counted(len(found.reasons) - limit, 'reason')} more: see them with --limit or --json")
