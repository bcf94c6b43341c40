"""Pictures: every text in them is text, and places on the axis are what the formula says."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import strategies
from tests.builders import kb_of

import timeplex
from timeplex import drawing
from timeplex.drawing import Axis, Bar, Mark, Neighbour
from timeplex.kb import dates
from timeplex.kb.dates import Granularity

INSTANTS = st.integers(-3000, 3000)
OPEN = st.none() | INSTANTS


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    first, last = sorted(draw(st.tuples(INSTANTS, INSTANTS)))
    return Axis(first, last, dates.ticks(first, last, Granularity.YEAR))


@st.composite
def spans(draw: st.DrawFn) -> tuple[int | None, int | None]:
    begin, end = draw(st.tuples(OPEN, OPEN))
    return (end, begin) if begin is not None and end is not None and begin > end else (begin, end)


def parsed(picture: str) -> ElementTree.Element:
    """The picture as XML, which is stricter than HTML."""
    return ElementTree.fromstring(picture)


def check_names(root: ElementTree.Element) -> None:
    assert {each.tag for each in root.iter()} <= {
        *("div", "ol", "ul", "li", "span", "small", "a", "bdi", "svg", "rect", "line", "circle", "text", "title"),
        *("polygon", "path"),
    }
    for each in root.iter():
        assert not any(name == "style" or name.startswith("on") for name in each.attrib)


@given(axes(), st.lists(st.tuples(strategies.names(), spans(), st.sampled_from(list(drawing.KINDS))), max_size=4))
def test_tracks_are_well_formed_and_have_a_row_a_bar(axis: Axis, some: list[tuple]) -> None:  # type: ignore[type-arg]
    bars = [Bar(drawing.escape(name), begin, end, name, kind) for name, (begin, end), kind in some]
    root = parsed(drawing.tracks(bars, axis, "<title>"))
    check_names(root)
    rows = root.findall("./ol/li")[1:]
    assert len(rows) == len(bars)
    for row, bar in zip(rows, bars, strict=True):
        drawn = [each for each in row.iter() if "bar" in each.get("class", "") or "tail" in each.get("class", "")]
        seen = axis.has(bar.begin, bar.end) and (bar.begin, bar.end) != (None, None)
        assert bool(drawn) == seen


@given(axes(), INSTANTS)
def test_places_are_those_of_the_formula(axis: Axis, instant: int) -> None:
    assert 0 <= axis.place(instant) <= 100
    if axis.first <= instant <= axis.last:
        expected = 100 * (instant - axis.first) / (axis.last + 1 - axis.first)
        assert axis.place(instant) == pytest.approx(expected, abs=0.001)
        low, high = axis.extent(instant, instant)
        assert high - low == pytest.approx(100 / (axis.last + 1 - axis.first), abs=0.002)


@given(st.sampled_from(list(Granularity)), st.integers(-50_000, 50_000), st.integers(0, 60_000), st.integers(2, 12))
def test_ticks_are_few_round_and_inside(granularity: Granularity, first: int, wide: int, most: int) -> None:
    found = dates.ticks(first, first + wide, granularity, most)
    assert len(found) <= most + 1
    assert all(first <= instant <= first + wide for instant, _ in found)
    written = dates.write([instant for instant, _ in found], granularity)
    assert all(full.startswith(text) for full, (_, text) in zip(written, found, strict=True))
    if granularity is not Granularity.DAY and wide >= 12 * 5 and wide < 60_000 / 2 and most >= 4:
        assert len(found) >= 1


@given(axes(), st.lists(st.floats(0, 1), min_size=1, max_size=50), strategies.names(), spans())
def test_a_curve_is_well_formed(
    axis: Axis, values: list[float], name: str, span: tuple[int | None, int | None]
) -> None:
    points = [(axis.first + at, value) for at, value in enumerate(values)]
    marks = [Mark(axis.first + at, at, f"reason-{at}", name) for at in range(5)]
    picture = drawing.curve(
        points, axis, name, span=(axis.first, axis.last), interval=(axis.first, axis.last), known=[span], marks=marks
    )
    root = parsed(picture)
    check_names(root)
    assert [each.get("href") for each in root.iter("a")] == [f"#reason-{at}" for at in range(5)]
    numbers = [float(each) for each in re.findall(r"-?[\d.]+", root.find(".//polygon").get("points", ""))]  # type: ignore[union-attr]
    assert all(0 <= number <= 100 for number in numbers)


def test_marks_of_one_instant_stand_side_by_side() -> None:
    marks = [Mark(1990, at, f"reason-{at}", "x") for at in range(4)]
    picture = drawing.curve([(1980, 0.5), (2000, 0.5)], Axis(1980, 2000), "x", marks=marks)
    places = [float(each.removesuffix("%")) for each in re.findall(r'<svg x="([^"]+)"', picture)]
    assert len(places) == 4
    assert all(later - earlier >= 5 for earlier, later in zip(sorted(places), sorted(places)[1:], strict=False))


@given(st.lists(st.tuples(strategies.names(), st.integers(0, 10**6)), max_size=30))
def test_columns_and_neighbours_are_well_formed(some: list[tuple[str, int]]) -> None:
    if some:
        root = parsed(drawing.columns([(name, number, name) for name, number in some], "<b>"))
        check_names(root)
        high = [float(each.get("height", "")) for each in root.iter("rect")]
        numbers = [number for _, number in some]
        assert high[numbers.index(max(numbers))] == max(high)
        assert all(tall > 0 for tall, number in zip(high, numbers, strict=True) if number)
    neighbours = [Neighbour(name, f"/entity?id={number}", name) for name, number in some]
    root = parsed(drawing.neighbours("<i>", neighbours, neighbours[:1], "<b>"))
    check_names(root)
    assert len(list(root.iter("a"))) == len(some) + len(some[:1])
    assert len(list(root.iter("path"))) == len(some) + len(some[:1])


def test_notebooks_show_kbs_and_findings() -> None:
    odd = "<img src=x onerror=alert(1)>"
    kb = kb_of([(0, 0, 1, 1900 + at, 1900 + at) for at in range(5)], [odd, "z"], ["r"], name=odd)
    for shown in (kb._repr_html_(), timeplex.audit(kb)._repr_html_()):
        assert "<img" not in shown
        assert "&lt;img" in shown


def test_the_page_of_the_audit_draws_the_facts_involved() -> None:
    from timeplex.auditing.page import page

    findings = timeplex.audit(timeplex.read("sample"))
    shown = page(findings)
    assert shown.count('<ol class="tp-tracks"') > findings.suspicious * 0.9
    both = [row for row, others in findings.involved().items() if others]
    assert both
