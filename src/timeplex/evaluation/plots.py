"""Pictures of diagnostics, as PNG or SVG by the file's suffix. Needs the `plot` extra.

The same input gives the same bytes: no date is written into a file, and no setting of the user has a say.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from timeplex.errors import InputError
from timeplex.files import check_writable, write_whole
from timeplex.kb import dates, spans
from timeplex.kb.dates import Granularity
from timeplex.patterns.relation_classes import INSTANTS_A_YEAR
from timeplex.text import visible
from timeplex.typing import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType


Years = tuple[int, int]
"""First and last year of a window, both inclusive."""


@dataclass(frozen=True)
class Distances:
    """Mean distance of the embeddings of instants that are `gap` apart, over `pairs` pairs: arrays of shape (gaps,)."""

    gap: Ints
    distance: Floats
    pairs: Ints
    granularity: Granularity


@dataclass(frozen=True)
class Curve:
    """Probabilities of instants of a window, shape (m,) each; what is missing to 1 lies outside the window."""

    instants: Ints
    probability: Floats
    granularity: Granularity


INK, FAINT = "#333333", "#c8c8c8"
GOLD, GOLD_PALE, GOLD_DARK = "#f3dc97", "#fcf6e3", "#8a6d00"
LONGEST, LONGEST_BESIDE = 80, 30
"""Titles and names beside a picture are cut there: longer ones would leave no room for what is drawn."""

LISTED = 3
"""So many known spans are named in a legend."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""Told apart with any kind of colour vision (the palette of Okabe and Ito)."""

STYLE: "dict[RcKeyType, Any]" = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that the picture is the same everywhere
    "font.size": 9,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#eeeeee",
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "svg.hashsalt": "timeplex",
}
METADATA: dict[str, dict[str, Any]] = {".png": {"Software": None}, ".svg": {"Date": None, "Creator": None}}
"""What is left out of a file, by the suffixes that can be written."""


@dataclass(frozen=True)
class FactAcrossTime:
    """A fact with the curves of several models; an end of the gold span may be open, an unknown fact has none."""

    title: str
    gold: tuple[int, int] | None
    curves: Mapping[str, Curve]


def distance_picture(panels: Mapping[str, Distances], path: Path) -> None:
    """Distance of time embeddings against the gap between the instants (the paper's figure 2), one panel a title."""
    with _drawing(path, 1, len(panels), (3.3, 2.6)) as (_, grid):
        for axes, (title, found) in zip(grid[0], panels.items(), strict=True):
            axes.plot(found.gap, found.distance, color=COLOURS[0], linewidth=1, alpha=0.35)
            axes.scatter(found.gap, found.distance, s=11, color=COLOURS[0], linewidths=0)
            axes.set_title(_called(title), pad=9)
            axes.set_xlabel(f"gap between instants ({found.granularity}s)")
            # From 0 on, so that a slope looks as steep as it is.
            axes.set(xlim=(0, None), ylim=(0, 1.08 * found.distance.max(initial=0) or 1))
            axes.locator_params(axis="y", nbins=5)
            axes.yaxis.grid(True)
        grid[0][0].set_ylabel("mean L2 distance")


def across_time_picture(facts: Sequence[FactAcrossTime], path: Path, years: Years = (1850, 2010)) -> None:
    """How likely models find each date of a fact (the paper's figure 3): a column a fact, a row a model.

    The gold span is shaded; a dot with its date marks the likeliest instant of the window. All models of a column have
    one scale, so that a sure model looks sure and a vague one vague.
    """
    names = list(dict.fromkeys(name for fact in facts for name in fact.curves))
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    with _drawing(path, len(names), len(facts), (3.9, 1.25)) as (figure, grid):
        for fact, column in zip(facts, grid.T, strict=True):
            highest = max((float(curve.probability.max(initial=0)) for curve in fact.curves.values()), default=0)
            for name, axes in zip(names, column, strict=True):
                axes.set(xlim=(years[0], years[1]), ylim=(0, 1.2 * highest or 1))
                axes.tick_params(labelbottom=axes is column[-1])
                if name in fact.curves:
                    if fact.gold is not None:
                        _draw_gold(axes, fact.gold, fact.curves[name].granularity, named=axes is column[0])
                    _draw_curve(axes, fact.curves[name], colours[name])
            column[0].set_title(_called(fact.title), pad=18)
            column[-1].set_xlabel("year")
        for name, axes in zip(names, grid[:, -1], strict=True):
            axes.annotate(
                _called(name, LONGEST_BESIDE), (1.03, 0.5), xycoords="axes fraction", va="center", color=colours[name]
            )
        figure.supylabel("Pr(t | s, r, o)", fontsize=9)


@dataclass(frozen=True)
class Prediction:
    """A predicted span, how likely it overlaps the true one, and the interval for its begin, in calendar instants.

    `known` are spans that are stated; the predicted one is then that of a further time.
    """

    title: str
    curve: Curve
    span: tuple[int, int]
    probability: float
    interval: tuple[int, int]
    known: Sequence[tuple[int, int]] = ()


def when_picture(found: Prediction, path: Path, years: Years) -> None:
    """When a fact held: Pr(t), the likely span, the interval for its begin, and what is known already."""
    granularity, probability = found.curve.granularity, found.curve.probability
    when = _in_years(found.curve.instants, granularity)
    half = 0.5 / INSTANTS_A_YEAR[granularity]
    edges = {
        name: _in_years(np.array(span), granularity) + np.array([-half, half])
        for name, span in (("span", found.span), ("interval", found.interval))
    }
    inside = (when >= years[0]) & (when < years[1] + 1)
    highest = float(probability[inside].max(initial=0)) or 1.0
    with _drawing(path, 1, 1, (5.6, 2.3)) as (_, grid):
        axes = grid[0][0]
        axes.set(xlim=(years[0] - 0.5, years[1] + 1.5 - 2 * half), ylim=(0, 1.25 * highest))
        text = dates.write_spans([found.interval], granularity)[0]
        axes.axvspan(*edges["interval"], color=COLOURS[0], alpha=0.09, linewidth=0, label=f"80 % for the begin: {text}")
        texts = _listed(dates.write_spans(found.known, granularity))
        for number, known in enumerate(found.known):
            label = "_" if number else f"known: {texts}"  # what begins with an underscore is not in the legend
            _draw_gold(axes, known, granularity, named=False, label=label)
        axes.plot(when, probability, color=COLOURS[0], linewidth=1.1)
        axes.fill_between(when, probability, color=COLOURS[0], alpha=0.12, linewidth=0)
        text = dates.write_spans([found.span], granularity)[0]
        height = [1.1 * highest] * 2
        label = f"{'a further time' if found.known else 'most likely'}: {text}, probability {found.probability:.2f}"
        axes.plot(edges["span"], height, color=COLOURS[1], linewidth=4, solid_capstyle="butt", label=label)
        axes.set_title(_called(found.title), pad=9)
        axes.set_xlabel("year")
        axes.set_ylabel(f"share of each {granularity}")
        axes.locator_params(axis="x", integer=True, nbins=8)
        axes.locator_params(axis="y", nbins=5)
        axes.yaxis.grid(True)
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0))


def _called(name: str, most: int = LONGEST) -> str:
    """A name as it stands in a picture."""
    shown = visible(name)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _listed(texts: list[str]) -> str:
    """Texts below each other, few enough for a legend."""
    more = len(texts) - LISTED
    return "\n".join([*texts[:LISTED], *([f"and {more} more"] if more > 0 else [])])


def _draw_curve(axes: "Axes", curve: Curve, colour: str) -> None:
    """A curve, and its peak with the date."""
    when = _in_years(curve.instants, curve.granularity)
    axes.plot(when, curve.probability, color=colour, linewidth=1.1)
    axes.fill_between(when, curve.probability, color=colour, alpha=0.12, linewidth=0)
    if len(when) == 0:
        return
    peak = int(curve.probability.argmax())
    place = (float(when[peak]), float(curve.probability[peak]))
    low, high = axes.get_xlim()
    side = -1 if place[0] > low + 0.8 * (high - low) else 1  # to the left where there is no room on the right
    axes.scatter(*place, s=16, color=colour, linewidths=0, zorder=3)
    axes.annotate(
        dates.write(curve.instants[[peak]], curve.granularity)[0],
        place,
        xytext=(side * 6, 1),
        textcoords="offset points",
        ha="left" if side > 0 else "right",
        color=colour,
        fontsize=8,
    )


def _draw_gold(axes: "Axes", gold: tuple[int, int], granularity: Granularity, *, named: bool, label: str = "") -> None:
    """The gold span as a band over its instants, pale up to the edge where it is open; if named, dates above."""
    low, high = axes.get_xlim()
    half = 0.5 / INSTANTS_A_YEAR[granularity]
    known = [instant for instant in gold if instant not in (spans.OPEN_BEGIN, spans.OPEN_END)]
    ends = _in_years(np.array(known, np.int64), granularity).tolist()
    if len(ends) < 2:
        begin = low if gold[0] == spans.OPEN_BEGIN else ends[0]
        end = high if gold[1] == spans.OPEN_END else ends[0]
        axes.axvspan(begin, end, color=GOLD_PALE, linewidth=0, zorder=0, label="" if ends else label)
    if ends:
        # The edge keeps a day visible in a window of a century.
        axes.axvspan(ends[0] - half, ends[-1] + half, color=GOLD, linewidth=1, zorder=0, label=label)
    if named:
        middle = (ends[0] + ends[-1]) / 2 if ends else (low + high) / 2
        place = (min(max(middle, low), high) - low) / (high - low)
        axes.annotate(
            f"gold {dates.write_spans([gold], granularity)[0]}",
            (place, 1),
            xycoords="axes fraction",
            xytext=(0, 3),
            textcoords="offset points",
            ha="left" if place < 0.15 else "right" if place > 0.85 else "center",
            fontsize=8,
            color=GOLD_DARK,
        )


def _in_years(instants: Ints, granularity: Granularity) -> Floats:
    """Where instants lie on an axis of years."""
    year = dates.coarsen(instants, granularity, Granularity.YEAR)
    if granularity is Granularity.YEAR:
        return year.astype(np.float64)
    start = dates.day_number(year, 1, 1) if granularity is Granularity.DAY else year * 12
    within: Floats = (instants - start) / np.ceil(INSTANTS_A_YEAR[granularity])
    return year + within


def check_picture(path: Path) -> None:
    """Refuse a file that cannot become a picture, before work begins."""
    if path.suffix.lower() not in METADATA:
        raise InputError(f"{path} is no picture.", f"Let its name end with {' or '.join(METADATA)}.")
    check_writable(path)


@contextmanager
def _drawing(
    path: Path, rows: int, columns: int, size: tuple[float, float]
) -> Iterator[tuple["Figure", "np.ndarray[Any, Any]"]]:
    """A figure of rows × columns panels, each of the given size in inches, that is saved when all is drawn."""
    check_picture(path)
    suffix = path.suffix.lower()
    if rows == 0 or columns == 0:
        raise InputError("There is nothing to draw.", "Give at least one panel.")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("matplotlib is not installed.", "Install it with: pip install 'timeplex[plot]'") from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        figure = Figure(figsize=(0.9 + columns * size[0], 0.8 + rows * size[1]), layout="constrained", dpi=200)
        figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)  # type: ignore[union-attr, call-arg]
        yield figure, figure.subplots(rows, columns, squeeze=False)
        drawn = BytesIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a box stands for it in the picture
            warnings.filterwarnings("ignore", "constrained_layout not applied")  # names are too wide: they overlap
            figure.savefig(drawn, format=suffix[1:], metadata=METADATA[suffix])
        write_whole(path, drawn.getvalue())
