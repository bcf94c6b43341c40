"""`timeplex when RUN S R O`: when a fact held."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from timeplex.cli.evaluate import DEVICE_OPTION
from timeplex.cli.rank import RUN_ARGUMENT, about, calibrating, named, opened
from timeplex.cli.show import JSON_OPTION, MODEL_OPTION, print_json, say, sparkline
from timeplex.text import span

if TYPE_CHECKING:
    from timeplex.answers.trained import Trained
    from timeplex.evaluation.plots import Curve

COLUMNS = 60
"""The most bars that a curve has in the terminal."""

REASONS = 4
"""So many facts are told."""

INSTANTS = 9
"""A reason is compared at so many instants of the window."""


def when(
    run: Path = RUN_ARGUMENT,
    subject: str = typer.Argument(..., metavar="S", help="The subject."),
    relation: str = typer.Argument(..., metavar="R", help="The relation."),
    object_: str = typer.Argument(..., metavar="O", help="The object."),
    explain: bool = typer.Option(False, "--explain", help="Say which facts speak for that time."),
    plot: Path | None = typer.Option(None, metavar="FILE", help="Draw the curve over time (.png, .svg)."),
    models: list[str] = MODEL_OPTION,
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
    s, r, o = (int(each[0]) for each in trained.triples(subject, relation, object_))
    with calibrating(trained):
        found = trained.when(subject, relation, object_).row(0, named=True)
        curve = trained.curve(subject, relation, object_)
    facts = trained.kb.facts
    rows = facts.of_subject_relation(s, r)
    known = sorted({(begin, end) for _, _, target, begin, end in facts[rows] if target == o})
    window = _window(trained, curve, found, known)
    why = _reasons(trained, s, r, o, found["begin"], window) if explain else []
    if plot is not None:
        _draw(trained, curve, found, known, window, plot)
    if as_json:
        print_json({**about(trained, "when"), **found, **({"why": why} if explain else {}), **_points(curve, window)})
    else:
        _show(trained, found, curve, window, why)
        if plot is not None:
            say(f"The curve is drawn in {plot}.")


def _show(trained: "Trained", found: dict[str, Any], curve: "Curve", window: tuple[int, int], why: list[str]) -> None:
    say(f"({found['subject']}, {found['relation']}, {found['object']}) asked of {named(trained)}")
    say()
    say(f"most likely    {span(found['begin'], found['end'])}   probability {found['probability']:.2f}")
    say(f"80 % interval  {span(found['low'], found['high'])}   for the begin")
    say(f"known          {found['known'] or 'nothing'}")
    say()
    bars, width = _bars(curve, window)
    first, last = (_text(curve, instant) for instant in window)
    unit = curve.granularity if width == 1 else f"{width:,} {curve.granularity}s"
    say(f"  {sparkline(bars)}   a bar is a {unit}" if width == 1 else f"  {sparkline(bars)}   a bar is {unit}")
    say(f"  {first}{last:>{max(len(bars) - len(first), len(last) + 1)}}   {max(0.0, 1 - sum(bars)):.0%} lies outside")
    say()
    for number, reason in enumerate(why):
        say(f"{'        ' if number else 'because '}{reason}")
    say(trained.calibration.note("when"))


def _text(curve: "Curve", instant: int) -> str:
    from timeplex.kb import dates

    return dates.write([instant], curve.granularity)[0]


def _window(trained: "Trained", curve: "Curve", found: dict[str, Any], known: list[tuple[int, int]]) -> tuple[int, int]:
    """First and last calendar instant worth showing: span, interval and what is known, with a margin on either side."""
    from timeplex.kb import spans

    ends = [trained.asking.span(found[name])[0] for name in ("begin", "end", "low", "high")]
    ends += [each for span in known for each in span if each not in (spans.OPEN_BEGIN, spans.OPEN_END)]
    low, high = min(ends), max(ends)
    margin = max(5, (high - low + 1) // 4)
    return max(low - margin, int(curve.instants[0])), min(high + margin, int(curve.instants[-1]))


def _bars(curve: "Curve", window: tuple[int, int]) -> tuple[list[float], int]:
    """Probabilities of equally long parts of the window, and how many calendar instants a part has."""
    import numpy as np

    first, last = window
    width = -(-(last - first + 1) // COLUMNS)
    inside = (curve.instants >= first) & (curve.instants <= last)
    parts = -(-(last - first + 1) // width)
    bars = np.bincount((curve.instants[inside] - first) // width, curve.probability[inside], minlength=parts)
    return bars.tolist(), width


def _points(curve: "Curve", window: tuple[int, int]) -> dict[str, Any]:
    """The part of the curve in the window, for JSON."""
    from timeplex.kb import dates

    inside = (curve.instants >= window[0]) & (curve.instants <= window[1])
    written = dates.write(curve.instants[inside], curve.granularity)
    return {"curve": dict(zip(written, curve.probability[inside].tolist(), strict=True))}


def _reasons(trained: "Trained", s: int, r: int, o: int, begin: str, window: tuple[int, int]) -> list[str]:
    """The facts that speak for the begin of the span rather than for the rest of the window."""
    import numpy as np

    from timeplex.answers.explain import dating_reasons

    timeline = trained.timeline
    here = int(timeline.position([trained.asking.span(begin)[0]])[0])
    others = np.unique(np.linspace(*timeline.positions(window), INSTANTS).astype(int))
    return dating_reasons(trained, s, r, o, here, others[others != here].tolist(), REASONS)


def _draw(
    trained: "Trained",
    curve: "Curve",
    found: dict[str, Any],
    known: list[tuple[int, int]],
    window: tuple[int, int],
    path: Path,
) -> None:
    from timeplex.evaluation.plots import Prediction, when_picture
    from timeplex.kb import dates
    from timeplex.kb.dates import Granularity

    begin, end, low, high = (trained.asking.span(found[name])[0] for name in ("begin", "end", "low", "high"))
    title = f"{found['subject']}  {found['relation']}  {found['object']}"
    first, last = dates.coarsen(list(window), curve.granularity, Granularity.YEAR).tolist()
    when_picture(Prediction(title, curve, (begin, end), (low, high), known), path, (first, last))
