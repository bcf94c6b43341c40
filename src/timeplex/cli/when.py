"""`timeplex when RUN S R O`: when a fact held."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from timeplex.cli.options import DEVICE_OPTION, JSON_OPTION, OWN_MODELS_OPTION, RUN_ARGUMENT, calibrating, opened
from timeplex.cli.show import about, named, print_json, say, sparkline
from timeplex.text import span

if TYPE_CHECKING:
    from timeplex.answers.single import WhenAnswer

COLUMNS = 60
"""The most bars that a curve has in the terminal."""


def when(
    run: Path = RUN_ARGUMENT,
    subject: str = typer.Argument(..., metavar="S", help="The subject."),
    relation: str = typer.Argument(..., metavar="R", help="The relation."),
    object_: str = typer.Argument(..., metavar="O", help="The object."),
    explain: bool = typer.Option(False, "--explain", help="Say which facts speak for that time."),
    plot: Path | None = typer.Option(None, metavar="FILE", help="Draw the curve over time (.png, .svg)."),
    models: list[str] = OWN_MODELS_OPTION,
    device: str = DEVICE_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Say when a fact held, if it did: the most likely span, how sure that is, and the curve over time.

    The probability is that of the span to overlap the true one; the begin lies in the interval in 80 % of all cases.

    Example: timeplex when runs/sample "Angela Merkel" headOfGovernment Germany --plot when.png
    """
    from timeplex.evaluation.plots import check_picture

    if plot is not None:
        check_picture(plot)
    trained = opened(run, device, models)
    from timeplex.answers.single import WhenAnswer

    trained.triples(subject, relation, object_)  # an unknown name is told before the calibration, which takes long
    with calibrating(trained):
        found = WhenAnswer(trained, subject, relation, object_)
    why = found.reasons() if explain else []
    if plot is not None:
        found.draw(plot)
    if as_json:
        reasons = {"why": why} if explain else {}
        print_json({**about(trained, "when"), **found.row, **reasons, "curve": found.points()})
    else:
        _show(found, why)
        if plot is not None:
            say(f"The curve is drawn in {plot}.")


def _show(found: "WhenAnswer", why: list[str]) -> None:
    trained, row = found.trained, found.row
    say(f"({row['subject']}, {row['relation']}, {row['object']}) asked of {named(trained)}")
    say()
    say(f"most likely    {span(row['begin'], row['end'])}   probability {row['probability']:.2f}")
    say(f"80 % interval  {span(row['low'], row['high'])}   for the begin")
    say(f"known          {row['known'] or 'nothing'}")
    say()
    bars, width = found.bars(COLUMNS)
    first, last = found.edges
    unit = found.curve.granularity
    say(f"  {sparkline(bars)}   a bar is {f'a {unit}' if width == 1 else f'{width:,} {unit}s'}")
    say(f"  {first}{last:>{max(len(bars) - len(first), len(last) + 1)}}   {max(0.0, 1 - sum(bars)):.0%} lies outside")
    say()
    for number, reason in enumerate(why):
        say(f"{'        ' if number else 'because '}{reason}")
    say(trained.calibration.note("when"))
