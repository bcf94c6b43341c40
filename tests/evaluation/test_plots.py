"""Pictures: they are there, they show something, and the same input gives the same bytes."""

import builtins
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from timeplex.errors import InputError
from timeplex.evaluation.plots import (
    Curve,
    Distances,
    FactAcrossTime,
    Prediction,
    across_time_picture,
    distance_picture,
    when_picture,
)
from timeplex.kb import spans
from timeplex.kb.dates import Granularity, day_number

YEARS = np.arange(1850, 2011)
GAPS = np.arange(1, 31)
DISTANCES = {
    "YAGO11k": Distances(GAPS, np.sqrt(GAPS), 60 - GAPS, Granularity.YEAR),
    "no $\\formula$": Distances(GAPS[:0], np.empty(0), GAPS[:0], Granularity.MONTH),  # no gap has enough pairs
}


def bump(middle: float, width: float) -> Curve:
    height = np.exp(-(((YEARS - middle) / width) ** 2))
    return Curve(YEARS, height / height.sum(), Granularity.YEAR)


def fact(gold: tuple[int, int], middle: float = 1960) -> FactAcrossTime:
    return FactAcrossTime("somebody wasBornIn $omewhere", gold, {"sure": bump(middle, 5), "vague": bump(1900, 90)})


DAYS = day_number([1969, 1969, 1970], [1, 7, 2], [1, 20, 3])
FACTS = {
    "event": fact((1969, 1969)),
    "span": fact((1950, 1990), middle=2008),
    "open end": fact((1995, spans.OPEN_END)),
    "open begin": fact((spans.OPEN_BEGIN, 1852)),
    "both open": fact((spans.OPEN_BEGIN, spans.OPEN_END)),
    "outside": fact((1700, 1710)),
    "one model": FactAcrossTime("only one", (1969, 1969), {"vague": bump(1900, 90)}),
    "days": FactAcrossTime(
        "by days", (int(DAYS[1]), int(DAYS[1])), {"sure": Curve(DAYS, np.array([0.1, 0.5, 0.4]), Granularity.DAY)}
    ),
    "months": FactAcrossTime(
        "by months", (1969 * 12, 1970 * 12), {"sure": Curve(np.array([23630]), np.ones(1), Granularity.MONTH)}
    ),
    "nothing in the window": FactAcrossTime(
        "nothing", (1969, 1969), {"sure": Curve(YEARS[:0], np.empty(0), Granularity.YEAR)}
    ),
}


def pixels(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    from matplotlib.image import imread

    return np.round(np.asarray(imread(path))[..., :3] * 255).astype(np.uint8)


def share_of(path: Path, colour: str) -> float:
    """How much of a picture has just this colour."""
    wanted = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)])
    return float((pixels(path) == wanted).all(-1).mean())


def test_distances_are_drawn(tmp_path: Path) -> None:
    distance_picture(DISTANCES, tmp_path / "distance.png")
    image = pixels(tmp_path / "distance.png")
    assert image.shape[1] > image.shape[0] > 400
    assert share_of(tmp_path / "distance.png", "#0072b2") > 0.0005
    assert 0.8 < share_of(tmp_path / "distance.png", "#ffffff") < 0.99


@pytest.mark.parametrize("name", FACTS)
def test_curves_are_drawn_whatever_the_gold_span(name: str, tmp_path: Path) -> None:
    across_time_picture([FACTS[name]], tmp_path / "across.png")
    assert 0.3 < share_of(tmp_path / "across.png", "#ffffff") < 0.99


def test_the_gold_span_is_shaded_as_far_as_it_is_known(tmp_path: Path) -> None:
    found = {}
    for name in ("event", "span", "open end", "outside"):
        across_time_picture([FACTS[name]], tmp_path / "across.png")
        found[name] = (share_of(tmp_path / "across.png", "#f3dc97"), share_of(tmp_path / "across.png", "#fcf6e3"))
    assert found["span"][0] > 10 * found["event"][0] > 0
    assert found["open end"][0] > 0
    assert found["open end"][1] > 0.01
    assert found["span"][1] == found["event"][1] == 0
    assert found["outside"] == (0, 0)


def test_each_model_has_its_row_and_colour(tmp_path: Path) -> None:
    facts = [FACTS["event"], FACTS["span"], FACTS["one model"]]
    across_time_picture(facts, tmp_path / "across.png")
    across_time_picture(facts[:1], tmp_path / "narrow.png")
    assert all(share_of(tmp_path / "across.png", colour) > 0.0005 for colour in ("#0072b2", "#d55e00"))
    assert pixels(tmp_path / "across.png").shape[1] > 2 * pixels(tmp_path / "narrow.png").shape[1]


@pytest.mark.parametrize("suffix", [".png", ".svg", ".SVG"])
def test_the_same_input_gives_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    for name in ("first", "second"):
        distance_picture(DISTANCES, tmp_path / f"{name} distance{suffix}")
        across_time_picture([FACTS["event"], FACTS["open end"]], tmp_path / f"{name} across{suffix}")
    for kind in ("distance", "across"):
        first, second = ((tmp_path / f"{name} {kind}{suffix}").read_bytes() for name in ("first", "second"))
        assert first == second
        assert first[:4] == (b"\x89PNG" if suffix == ".png" else b"<?xm")
        assert b"matplotlib.org" not in first
        assert b"dc:date" not in first


def test_settings_of_the_user_have_no_say_and_are_kept(tmp_path: Path) -> None:
    import matplotlib

    distance_picture(DISTANCES, tmp_path / "plain.svg")
    with matplotlib.rc_context({"font.size": 30, "axes.linewidth": 9, "svg.hashsalt": "mine"}):
        distance_picture(DISTANCES, tmp_path / "again.svg")
        assert matplotlib.rcParams["font.size"] == 30
    assert (tmp_path / "plain.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


def test_neither_pyplot_nor_a_window_is_needed(tmp_path: Path) -> None:
    code = f"""
import sys, numpy as np
from pathlib import Path
from timeplex.evaluation.plots import distance_picture
from timeplex.evaluation.plots import Distances
from timeplex.kb.dates import Granularity
assert "matplotlib" not in sys.modules
one = Distances(np.array([1]), np.array([1.0]), np.array([30]), Granularity.DAY)
distance_picture({{"one": one}}, Path({str(tmp_path / "one.png")!r}))
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "one.png").is_file()


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    real = builtins.__import__

    def missing(name, *rest):  # type: ignore[no-untyped-def]
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InputError, match=r"pip install 'timeplex\[plot\]'"):
        distance_picture(DISTANCES, tmp_path / "distance.png")


@pytest.mark.parametrize("name", ["picture.jpg", "picture"])
def test_another_format_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        distance_picture(DISTANCES, tmp_path / name)


def test_nothing_to_draw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to draw"):
        distance_picture({}, tmp_path / "picture.png")
    with pytest.raises(InputError, match="nothing to draw"):
        across_time_picture([], tmp_path / "picture.png")


def test_a_folder_is_made_and_a_place_that_cannot_be_one_is_an_input_error(tmp_path: Path) -> None:
    picture = tmp_path / "nowhere" / "picture.png"
    distance_picture(DISTANCES, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="cannot be written"):
        distance_picture(DISTANCES, picture / "picture.png")


@pytest.mark.parametrize(("known", "named"), [(0, []), (3, [1900, 1905, 1910]), (20, [1900, 1905, 1910])])
def test_many_known_spans_leave_room_for_the_curve(tmp_path: Path, known: int, named: list[int]) -> None:
    """Layout that fails is a warning, and an error in tests."""
    stated = [(1900 + 5 * number, 1902 + 5 * number) for number in range(known)]
    when_picture(
        Prediction("somebody wonPrize something", bump(1950, 9), (1948, 1952), 0.4, (1940, 1960), stated),
        tmp_path / "when.svg",
        (1890, 2000),
    )
    drawn = (tmp_path / "when.svg").read_text()
    assert [year for year in range(1900, 2000, 5) if f"{year}–{year + 2}" in drawn] == named
    assert ("and 17 more" in drawn) == (known == 20)
