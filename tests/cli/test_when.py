"""`timeplex when` as a user calls it."""

import errno
import json
from pathlib import Path

import pytest
from tests.cli.test_rank import fact, run  # noqa: F401

import timeplex as package
from timeplex.cli.show import sparkline


def test_when_prints_span_interval_and_curve(timeplex, run: Path, fact) -> None:  # type: ignore[no-untyped-def]  # noqa: F811
    answer = timeplex("when", run, *fact[:3])
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    found = package.load(run).when(*fact[:3]).row(0, named=True)
    span = lambda *ends: ends[0] if ends[0] == ends[1] else "–".join(ends)  # noqa: E731
    assert lines[0] == f"({', '.join(fact[:3])}) asked of timeplex-base + recurrence + pair on synthetic-900-0 ({run})"
    assert lines[2] == f"stated         {found['known']}"
    assert lines[3] == f"a further time {span(found['begin'], found['end'])}   probability {found['probability']:.2f}"
    assert lines[4] == f"80 % interval  {span(found['low'], found['high'])}   for the begin"
    assert set(lines[6].split("   ")[0].strip()) <= set("▁▂▃▄▅▆▇█")
    assert "█" in lines[6]
    years = lines[7].split()
    assert int(years[0]) <= int(found["low"]) <= int(found["high"]) <= int(years[1])
    assert lines[7].endswith("lies outside")
    assert "because" not in answer.out
    assert lines[-1].startswith("A probability is the share of such spans that overlap the true one, by ")


def test_when_as_json_with_reasons_and_a_picture(timeplex, run: Path, fact, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]  # noqa: F811
    answer = timeplex("when", run, *(name.lower() for name in fact[:3]), "--explain", "--json", "--plot", "when.png")
    found = json.loads(answer.out)
    expected = package.load(run).when(*fact[:3]).row(0, named=True)
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert found["calibration"]["measured"]["span overlaps gold"]["after"] < 0.5
    assert found["why"]
    assert 0 < sum(found["curve"].values()) <= 1 + 1e-9
    assert (tmp_path / "when.png").read_bytes().startswith(b"\x89PNG")
    again = timeplex("when", run, *fact[:3], "--explain", "--plot", "when.svg")
    assert again.out.endswith("The curve is drawn in when.svg.\n")
    assert f"because {found['why'][0]}" in again.out
    drawn = (tmp_path / "when.svg").read_text()
    for words in ("80 % for the begin", "a further time", "known", fact[0]):
        assert words in drawn
    assert sorted(path.name for path in tmp_path.iterdir()) == ["when.png", "when.svg"]


def test_a_fact_that_is_not_known(timeplex, run: Path, fact) -> None:  # type: ignore[no-untyped-def]  # noqa: F811
    answer = timeplex("when", run, fact[2], fact[1], fact[2], "--plot", "new.svg")
    assert "known          nothing" in answer.out
    assert "known" not in Path("new.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plot", "when.pdf"], "when.pdf is no picture. Let its name end with .png or .svg."),
        (["--plot", "/dev/null/when.png"], "/dev/null/when.png cannot be written: Not a directory."),
        (["--device", "abacus"], "'abacus' is not a device."),
    ],
)
def test_mistakes_are_one_sentence(timeplex, run: Path, fact, arguments, message, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]  # noqa: F811
    assert message in timeplex("when", run, *fact[:3], *arguments).complaint()
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_not_there(timeplex, run: Path, fact) -> None:  # type: ignore[no-untyped-def]  # noqa: F811
    assert "unknown entity 'nobody here'" in timeplex("when", run, "nobody here", *fact[1:3]).complaint()
    assert "unknown relation 'likes'" in timeplex("when", run, fact[0], "likes", fact[2]).complaint()
    nowhere = timeplex("when", "nowhere", *fact[:3])
    assert (nowhere.code, nowhere.out) == (2, "")
    assert "it is not a run folder" in nowhere.err


def test_a_full_disk_leaves_nothing(  # type: ignore[no-untyped-def]
    timeplex,
    run: Path,  # noqa: F811
    fact,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("timeplex.files.os.fsync", full)
    monkeypatch.setattr("timeplex.cli.options.LONG", 1e9)  # on a busy machine one would be told what takes so long
    complaint = timeplex("when", run, *fact[:3], "--plot", "when.png").complaint()
    assert complaint == "when.png cannot be written: No space left on device. Free some space, and repeat the command."
    assert list(tmp_path.iterdir()) == []


def test_sparklines() -> None:
    assert sparkline([0.0, 0.5, 1.0, 0.124]) == "▁▅█▁"
    assert sparkline([0.0, 0.0]) == "▁▁"
    assert sparkline([]) == ""


TABLE = "\n".join(
    f"{who},governs,Atlantis,{begin},{begin + 5}\n{who},bornIn,Atlantis,{begin - 50},{begin - 50}"
    for who, begin in ((f"King {number}", 1800 + 5 * number) for number in range(40))
    if begin != 1900
)


def test_when_of_a_plain_table_needs_no_training(timeplex, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Of the one king of whom only the birth is known: his predecessor's end and his successor's begin say it."""
    rows = f"subject,relation,object,begin,end\n{TABLE}\nKing 20,bornIn,Atlantis,1850,1850\n"
    (tmp_path / "kings.csv").write_text(rows)
    answer = timeplex("when", "kings.csv", "king 20", "governs", "Atlantis", "--explain")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[0] == "(King 20, governs, Atlantis) asked of the patterns of kings"
    assert lines[2].startswith("most likely    1900–1905   probability ")
    assert lines[4] == "known          nothing"
    assert "King 19 governs Atlantis ended 1900" in answer.out
    stated = timeplex("when", "kings.csv", "King 7", "governs", "Atlantis", "--json")
    assert json.loads(stated.out)["known"] == "1835–1840"
    assert (
        timeplex("when", "kings.csv", "King 7", "governs", "Atlantis").out.splitlines()[2] == "stated         1835–1840"
    )


def test_when_of_what_is_neither_run_nor_kb(timeplex) -> None:  # type: ignore[no-untyped-def]
    answer = timeplex("when", "nowhere", "Ada", "bornIn", "London")
    assert answer.code == 2
    assert "it is not a run folder" in answer.err
