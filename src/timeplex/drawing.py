"""Small pictures of time as HTML and SVG: tracks on one axis, a curve, columns, neighbours.

Nothing in them runs or is loaded, every text is escaped, and all lengths across are shares of the width, so that text
keeps its size on a screen of any width. Colours come from `STYLE`, which a page has once: it knows light and dark.

    place of an instant t on an axis from first to last = (t − first) / (last + 1 − first)

An instant has a width: a fact of 1990 goes from the place of 1990 to that of 1991.
"""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from timeplex.text import visible

Kind = Literal["known", "proposed", "suspicious", "asked", "faint"]
KINDS: dict[str, str] = {
    "known": "stated",
    "proposed": "proposed",
    "suspicious": "suspicious",
    "asked": "in question",
    "faint": "elsewhere",
}
"""How each kind of bar is told to those who do not see it."""

STYLE = """
.tp { --tp-ink: #1b2128; --tp-muted: #57616c; --tp-line: #d9dde2; --tp-soft: #eef0f3; --tp-known: #2a5f9e;
  --tp-proposed: #7a3fb0; --tp-suspicious: #b3361c; --tp-asked: #0b6f63; --tp-band: #2a5f9e2e; color: var(--tp-ink); }
@media (prefers-color-scheme: dark) { .tp { --tp-ink: #e8eaed; --tp-muted: #a3adb8; --tp-line: #363d46;
  --tp-soft: #262c34; --tp-known: #7fb2ef; --tp-proposed: #c59bf2; --tp-suspicious: #ff9478; --tp-asked: #5fd0bf;
  --tp-band: #7fb2ef38; } }
.tp svg { display: block; width: 100%; overflow: visible; }
.tp text { font: 12px/1 system-ui, sans-serif; fill: var(--tp-muted); font-variant-numeric: tabular-nums; }
.tp .grid { stroke: var(--tp-line); stroke-width: 1; }
.tp .base { stroke: var(--tp-muted); stroke-width: 1; }
.tp .known { fill: var(--tp-known); stroke: var(--tp-known); }
.tp .proposed { fill: var(--tp-proposed); stroke: var(--tp-proposed); }
.tp .suspicious { fill: var(--tp-suspicious); stroke: var(--tp-suspicious); }
.tp .asked { fill: var(--tp-asked); stroke: var(--tp-asked); }
.tp .faint { fill: var(--tp-muted); stroke: var(--tp-muted); }
.tp .bar { stroke-width: 1.5; }
.tp .proposed.bar, .tp .asked.bar { fill-opacity: .15; stroke-dasharray: 4 3; }
.tp .faint.bar { fill-opacity: .45; stroke: none; }
.tp .tail { stroke-width: 2; stroke-opacity: .55; }
.tp .curve { fill: var(--tp-band); stroke: var(--tp-known); stroke-width: 2; vector-effect: non-scaling-stroke; }
.tp .edge { fill: none; stroke: var(--tp-line); stroke-width: 1.5; vector-effect: non-scaling-stroke; }
.tp .interval { fill: var(--tp-asked); fill-opacity: .1; }
.tp .guide { stroke: var(--tp-ink); stroke-width: 1; stroke-dasharray: 2 3; }
.tp .mark circle { fill: var(--tp-ink); stroke: none; }
.tp .mark text { fill: var(--tp-soft); font-weight: 600; font-size: 11px; }
.tp .mark.outside circle { fill: var(--tp-soft); stroke: var(--tp-ink); stroke-width: 1.5; }
.tp .mark.outside text { fill: var(--tp-ink); }
.tp .mark.outside:hover text, .tp .mark.outside:focus-visible text, .tp .mark.outside.lit text { fill: var(--tp-soft); }
.tp .mark:hover circle, .tp .mark:focus-visible circle, .tp .mark.lit circle { fill: var(--tp-proposed); }
.tp .column { fill: var(--tp-known); }
.tp .column.quiet { fill: var(--tp-line); }
.tp-tracks { list-style: none; margin: 0; padding: 0; }
.tp-tracks > li { display: grid; grid-template-columns: minmax(0, 19rem) minmax(0, 1fr); gap: 0 1rem; }
.tp-tracks > li > .what { padding: .3rem 0; overflow-wrap: anywhere; line-height: 1.3; }
.tp-tracks > li > .what small { color: var(--tp-muted); font-variant-numeric: tabular-nums; white-space: nowrap; }
.tp-tracks > .axis > .what { padding: 0; }
.tp-tracks > li { overflow: clip; }
.tp-tracks > li > svg { align-self: center; }
.tp-tracks .flag { color: var(--tp-suspicious); font-weight: 600; white-space: nowrap; }
@media (max-width: 40rem) {
  .tp-tracks > li { grid-template-columns: minmax(0, 1fr); padding-bottom: .3rem; }
  .tp-tracks > li > svg { overflow: clip; overflow-clip-margin: 6px; }
  .tp-tracks > .axis { padding: 0; }
}
.tp-graph { display: grid; align-items: center;
  grid-template-columns: minmax(0, 1fr) minmax(1.5rem, 5rem) auto minmax(1.5rem, 5rem) minmax(0, 1fr); }
.tp-graph.one { grid-template-columns: auto minmax(1.5rem, 5rem) minmax(0, 1fr); }
.tp-graph.one:has(.from) { grid-template-columns: minmax(0, 1fr) minmax(1.5rem, 5rem) auto minmax(0, 1fr); }
.tp-graph ul { list-style: none; margin: 0; padding: 0; }
.tp-graph li { height: 38px; display: flex; flex-direction: column; justify-content: center; line-height: 1.25; }
.tp-graph li > * { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; max-width: 100%; }
.tp-graph .from li { text-align: right; align-items: flex-end; }
.tp-graph small { color: var(--tp-muted); }
.tp-graph .centre { max-width: 9rem; padding: .5rem .75rem; text-align: center; border: 2px solid var(--tp-known);
  border-radius: .5rem; font-weight: 600; overflow-wrap: anywhere; }
@media (max-width: 40rem) { .tp-graph .centre { max-width: 5.5rem; padding: .35rem; font-size: .85rem; }
  .tp-graph li { font-size: .85rem; } }
"""


def escape(text: object) -> str:
    """A text of anyone's making as HTML: what acts on a screen, or is not seen, is written out."""
    return html.escape(visible(text))


def attributes(**given: object) -> str:
    """` name="value"` of each that is not None or empty; `class_` is `class`, `aria_label` is `aria-label`."""
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in given.items()
        if value not in (None, "")
    )


@dataclass(frozen=True)
class Axis:
    """The instants from a first to a last, and those that are written below it."""

    first: int
    last: int
    ticks: Sequence[tuple[int, str]] = ()

    def place(self, instant: float) -> float:
        """Where an instant begins, in per cent; what lies outside is at the edge."""
        share = (instant - self.first) / (self.last + 1 - self.first)
        return round(100 * min(max(share, 0.0), 1.0), 3)

    def extent(self, begin: int | None, end: int | None) -> tuple[float, float]:
        """From where to where a span goes, in per cent; an open end goes to the edge."""
        low = 0.0 if begin is None else self.place(begin)
        return low, max(low, 100.0 if end is None else self.place(end + 1))

    def has(self, begin: int | None, end: int | None) -> bool:
        """Whether some of a span is to be seen."""
        return (begin is None or begin <= self.last) and (end is None or end >= self.first)


@dataclass(frozen=True)
class Bar:
    """A fact on an axis: None is an open end. `label` is HTML, which the caller has escaped; `told` is plain text."""

    label: str
    begin: int | None
    end: int | None
    told: str
    kind: Kind = "known"
    id: str = ""


def tracks(bars: Sequence[Bar], axis: Axis, title: str) -> str:
    """A row a fact: what it says, and its span on an axis that all share."""
    rows = [
        f'<li class="axis"><span class="what"></span>{_axis(axis)}</li>',
        *(
            f'<li{attributes(id=bar.id, class_=bar.kind)}><span class="what">{bar.label}</span>{_track(bar, axis)}</li>'
            for bar in bars
        ),
    ]
    return f'<div class="tp"><ol class="tp-tracks"{attributes(aria_label=title)}>{"".join(rows)}</ol></div>'


def _axis(axis: Axis) -> str:
    texts = []
    for instant, written in axis.ticks:
        place = axis.place(instant)
        anchor = "start" if place < 4 else "end" if place > 94 else "middle"
        texts.append(f'<text x="{place}%" y="14" text-anchor="{anchor}">{escape(written)}</text>')
    return f'<svg height="20" aria-hidden="true">{"".join(texts)}</svg>'


def _grid(axis: Axis, low: str = "0", high: str = "100%") -> str:
    return "".join(
        f'<line class="grid" x1="{place}%" x2="{place}%" y1="{low}" y2="{high}"/>'
        for place in (axis.place(instant) for instant, _ in axis.ticks)
    )


def _track(bar: Bar, axis: Axis) -> str:
    told = attributes(aria_label=f"{KINDS[bar.kind]}: {bar.told}")
    lines = _grid(axis, "-300", "300")  # the row cuts them off
    return f'<svg role="img" height="24"{told}>{lines}{_span(bar.begin, bar.end, bar.kind, axis)}</svg>'


def _span(begin: int | None, end: int | None, kind: str, axis: Axis, y: str = "50%") -> str:
    """The bar of a span, centred at y: a dot for an instant, a thin tail where an end is open."""
    if (begin is None and end is None) or not axis.has(begin, end):
        return ""
    if begin is not None and begin == end:
        middle = (axis.place(begin) + axis.place(begin + 1)) / 2
        return f'<circle class="{kind} bar" cx="{middle:.3f}%" cy="{y}" r="5"/>'
    low, high = axis.extent(begin, end)
    if begin is None or end is None:
        known = high if begin is None else low
        instant = end if begin is None else begin
        inside = instant is not None and axis.first <= instant <= axis.last
        dot = f'<circle class="{kind} bar" cx="{known}%" cy="{y}" r="5"/>' if inside else ""
        return f'<line class="{kind} tail" x1="{low}%" x2="{high}%" y1="{y}" y2="{y}"/>{dot}'
    width = round(max(high - low, 0.4), 3)
    bar = f'<rect class="{kind} bar" x="{low}%" y="-5" width="{width}%" height="10" rx="3"/>'
    return f'<svg y="{y}" class="lane">{bar}</svg>'


@dataclass(frozen=True)
class Mark:
    """A piece of evidence at an instant, with its number, and the id of the sentence that says it."""

    instant: int
    number: int
    sentence: str
    told: str


HIGH = 190
"""Pixels from the top of a curve to its base."""


def curve(
    points: Sequence[tuple[int, float]],
    axis: Axis,
    title: str,
    *,
    span: tuple[int, int] | None = None,
    interval: tuple[int, int] | None = None,
    known: Sequence[tuple[int | None, int | None]] = (),
    marks: Sequence[Mark] = (),
) -> str:
    """How likely each instant is, with the likeliest span below it, the interval behind it, and what is known.

    The path carries the points as `data-points` (instant, probability), for who wants to read them under the mouse.
    """
    most = max((value for _, value in points), default=0.0) or 1.0
    places = [(axis.place(instant + 0.5), round(100 * (1 - 0.94 * value / most), 3)) for instant, value in points]
    line = " ".join(f"{x},{y}" for x, y in places)
    area = f"{places[0][0]},100 {line} {places[-1][0]},100" if places else ""
    lanes = ([("asked", *span)] if span else []) + [("known", *each) for each in known]
    height = HIGH + 26 + 16 * len(lanes) + (30 if marks else 0)
    parts = [_grid(axis, "0", str(HIGH))]
    if interval:
        low, high = axis.extent(*interval)
        parts.append(f'<rect class="interval" x="{low}%" y="0" width="{round(high - low, 3)}%" height="{HIGH}"/>')
    parts.append(
        f'<svg height="{HIGH}" viewBox="0 0 100 100" preserveAspectRatio="none">'
        f'<polygon class="curve" points="{area}"/></svg>'
    )
    parts.append(f'<line class="base" x1="0" x2="100%" y1="{HIGH}" y2="{HIGH}"/>')
    parts.append(f'<svg y="{HIGH}">{_ticks(axis)}</svg>')
    parts += [
        _span(begin, end, kind, axis, str(HIGH + 32 + 16 * number)) for number, (kind, begin, end) in enumerate(lanes)
    ]
    parts += _marks(marks, axis, height - 14)
    shown = attributes(data_first=axis.first, data_last=axis.last, data_high=HIGH)
    role = 'role="group"' if marks else 'role="img"'
    head = f'<svg {role} height="{height}"{attributes(aria_label=title)}{shown}>'
    return f'<div class="tp tp-curve">{head}{"".join(parts)}</svg></div>'


def _ticks(axis: Axis) -> str:
    return _axis(axis).replace('<svg height="20" aria-hidden="true">', "").removesuffix("</svg>")


def _marks(marks: Sequence[Mark], axis: Axis, y: int) -> list[str]:
    """Numbers in circles that lead to their sentences; where one would cover another it stands beside it.

    What lies outside of the axis stands at its edge, as a ring.
    """
    made, taken = list[str](), list[float]()
    for mark in sorted(marks, key=lambda each: each.instant):
        place, outside = max(1.5, axis.place(mark.instant + 0.5)), not axis.has(mark.instant, mark.instant)
        while any(abs(place - other) < 6 for other in taken):
            place += 1.0
        if place > 98.5:
            place = min([97.0, *(other - 6 for other in taken if other > 80)])
        taken.append(place)
        label = attributes(href=f"#{mark.sentence}", aria_label=f"Reason {mark.number}: {mark.told}")
        at = f'<svg x="{place:.2f}%" y="{y}">'
        number = f'<circle r="10"/><text y="4" text-anchor="middle">{mark.number}</text>'
        kind = "mark outside" if outside else "mark"
        made.append(f'<a class="{kind}"{label}>{at}{number}</svg></a>')
    return made


def columns(values: Sequence[tuple[str, int, str]], title: str, most_labels: int = 8) -> str:
    """Columns of counts side by side: (label, number, what is said of it)."""
    if not values:
        return ""
    most, wide = max(number for _, number, _ in values) or 1, 100 / len(values)
    every = -(-len(values) // most_labels)
    parts = []
    for at, (label, number, told) in enumerate(values):
        high = round(110 * number / most, 2) if number else 0.0
        high = max(high, 1.5) if number else high
        parts.append(
            f'<rect class="column" x="{at * wide + wide * 0.08:.3f}%" width="{wide * 0.84:.3f}%" y="{120 - high:.2f}" '
            f'height="{high:.2f}"><title>{escape(told)}</title></rect>'
        )
        if at % every == 0:
            anchor, place = ("start", at * wide) if at == 0 else ("middle", (at + 0.5) * wide)
            if place < 95:
                parts.append(f'<text x="{place:.2f}%" y="138" text-anchor="{anchor}">{escape(label)}</text>')
    base = '<line class="base" x1="0" x2="100%" y1="120" y2="120"/>'
    return (
        f'<div class="tp"><svg role="img" height="144"{attributes(aria_label=title)}>{"".join(parts)}{base}</svg></div>'
    )


@dataclass(frozen=True)
class Neighbour:
    """What stands beside an entity: a link, its name and how they are related, all plain texts."""

    name: str
    href: str
    how: str


def neighbours(centre: str, arriving: Sequence[Neighbour], leaving: Sequence[Neighbour], title: str) -> str:
    """An entity in the middle, on the left what points at it, on the right what it points at."""
    sides = (("from", arriving), ("to", leaving))
    lists, edges = (
        [_listed(side, some) for side, some in sides],
        [_edges(len(some), side == "from") for side, some in sides],
    )
    middle = f'<span class="centre"><bdi>{escape(centre)}</bdi></span>'
    parts = (lists[0], edges[0], middle, edges[1], lists[1])
    sides_there = "both" if arriving and leaving else "one"
    return f'<div class="tp tp-graph {sides_there}" role="group"{attributes(aria_label=title)}>{"".join(parts)}</div>'


def _listed(side: str, some: Iterable[Neighbour]) -> str:
    rows = "".join(
        f"<li><a{attributes(href=each.href, title=each.name)}><bdi>{escape(each.name)}</bdi></a>"
        f"<small{attributes(title=each.how)}>{escape(each.how)}</small></li>"
        for each in some
    )
    return f'<ul class="{side}">{rows}</ul>' if rows else ""


def _edges(number: int, arriving: bool) -> str:
    """Lines from the rows of a list to its middle."""
    if not number:
        return ""
    paths = []
    for row in range(number):
        y, middle = 38 * row + 19, 19 * number
        start, stop = (y, middle) if arriving else (middle, y)
        paths.append(f'<path class="edge" d="M0,{start} C50,{start} 50,{stop} 100,{stop}"/>')
    view = f'viewBox="0 0 100 {38 * number}" preserveAspectRatio="none"'
    return f'<svg height="{38 * number}" {view} aria-hidden="true">{"".join(paths)}</svg>'
