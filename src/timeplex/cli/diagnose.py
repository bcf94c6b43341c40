"""`timeplex diagnose RUN…`: what models have learned of time, beyond ranks."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from timeplex.cli.options import DEVICE_OPTION, JSON_OPTION, OWN_MODELS_OPTION, SPLIT_OPTION
from timeplex.cli.show import print_json, print_table, progress, say, visible

if TYPE_CHECKING:
    from timeplex.api import Diagnosis
    from timeplex.evaluation.plots import Years


def diagnose(
    runs: list[Path] = typer.Argument(..., metavar="RUN…", help="Run folders of models trained on one KB."),
    split: str = SPLIT_OPTION,
    distances: Path | None = typer.Option(None, metavar="FILE", help="Draw distances of time embeddings (.png, .svg)."),
    across_time: Path | None = typer.Option(None, metavar="FILE", help="Draw the probability of --fact over time."),
    fact: tuple[str, str, str] | None = typer.Option(None, metavar="S R O", help="Subject, relation and object."),
    years: str | None = typer.Option(None, metavar="FROM..TO", help="The years that pictures show."),
    models: list[str] = OWN_MODELS_OPTION,
    device: str = DEVICE_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Show orderings of relations, how often top predictions break them, and pictures of time.

    Example: timeplex diagnose runs/yago11k --distances distances.png --years 1958..2017
    """
    from timeplex.errors import InputError
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
        _show(found)
    if distances is not None:
        found.draw_distances(distances, window)
        typer.echo(visible(f"Distances of time embeddings are drawn in {distances}."), err=as_json)
    if across_time is not None and fact is not None:
        found.draw_across_time(across_time, fact, window)
        typer.echo(visible(f"Probabilities over time are drawn in {across_time}."), err=as_json)


def _years(text: str | None) -> "Years | None":
    from timeplex.errors import InputError

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


def _show(found: "Diagnosis") -> None:
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
