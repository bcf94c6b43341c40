"""`timeplex explain` as a user calls it."""

import json
import shutil
from pathlib import Path

import pytest
from tests.answers.small_runs import folder, trained
from tests.cli.conftest import Timeplex


def question(row: int = 0) -> list[str]:
    """A training fact in words and the year of its begin."""
    kb = trained().kb
    s, r, o, begin, _ = next(iter(kb.train[row : row + 1]))
    return [kb.entities[s], kb.relations[r], kb.entities[o], "--at", str(begin)]


def test_parts_and_sentences(timeplex: Timeplex) -> None:
    ask = question()
    answer = timeplex("explain", folder("gadgets"), *ask, "--most", "1")
    assert answer.code == 0
    found = trained().explain(*ask[:3], at=ask[4])
    first, second, *lines = answer.out.splitlines()
    assert first.startswith(f"{found.question}, at {ask[4]}: score {found.score:.2f}, by timeplex-base + ")
    assert second == found.note
    for part in found.parts:
        assert any(line.split() == [*part.name.split(), f"{part.value:.2f}"] for line in lines)
    assert f"{found.reasons[0].part}: {found.reasons[0].sentence}" in lines
    left = len(found.reasons) - 1
    assert lines[-1] == f"{left} reason{'s' if left > 1 else ''} more: see them with --limit or --json"
    assert " more: see " not in timeplex("explain", folder("gadgets"), *ask, "--most", "1000").out


def test_json_of_a_subject(timeplex: Timeplex) -> None:
    ask = question()
    told = json.loads(timeplex("explain", folder("gadgets"), *ask, "--of", "subject", "--json", "--most", "2").out)
    assert set(told) == {
        *("run", "model", "kb", "question", "at", "score", "probability", "parts", "reasons", "note"),
    }
    assert told["score"] == pytest.approx(sum(part["value"] for part in told["parts"]))
    assert len(told["reasons"]) <= 2
    assert set(told["reasons"][0]) == {"part", "facts", "sentence"}
    expected = trained().explain(*ask[:3], at=ask[4], direction="subject")
    assert told["score"] == pytest.approx(expected.score)
    assert "neither object nor subject" in timeplex("explain", folder("gadgets"), *ask, "--of", "time").complaint()


def failures() -> dict[str, tuple[list[str], str]]:
    return {
        "entity": (["Nobody", *question()[1:]], "unknown entity 'Nobody'"),
        "relation": ([question()[0], "flewWith", *question()[2:]], "unknown relation 'flewWith'"),
        "date": ([*question()[:4], "soon"], "'soon' is not a date."),
        "no date": ([*question()[:4], ""], "No time is given."),
        "far date": ([*question()[:4], "9999"], "9999 is outside of the timeline"),
        "backwards": ([*question()[:4], "2001..1999"], "2001..1999 ends before it begins."),
    }


@pytest.mark.parametrize("case", ["entity", "relation", "date", "no date", "far date", "backwards"])
def test_questions_that_cannot_be_answered(timeplex: Timeplex, case: str) -> None:
    arguments, message = failures()[case]
    assert timeplex("explain", folder("gadgets"), *arguments).complaint().startswith(message)


@pytest.mark.parametrize("verb", ["explain", "fill", "discover"])
def test_runs_that_are_none(timeplex: Timeplex, verb: str) -> None:
    Path("t.csv").write_text("subject,relation,object,begin,end\na,r,b,1990,\n")
    rest = {"explain": question(), "fill": ["t.csv", "-o", "out.csv"], "discover": ["-o", "out.csv"]}[verb]

    def complaint(run: str) -> str:
        answer = timeplex(verb, run, *rest)
        assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
        return answer.err

    assert complaint("absent").startswith(
        "error: absent has no trained model: it is not a run folder. Use: timeplex train"
    )
    for copy in ("damaged", "flipped"):
        shutil.copytree(folder("gadgets"), copy)
    Path("damaged/MANIFEST.json").write_text("{")
    assert complaint("damaged").startswith("error: damaged")
    data = bytearray(Path("flipped/model.safetensors").read_bytes())
    data[-1] ^= 1
    Path("flipped/model.safetensors").write_bytes(data)
    assert "model.safetensors" in complaint("flipped")
    Path("flipped/MANIFEST.json").unlink()
    assert "its training is not finished" in complaint("flipped")
    assert not Path("out.csv").exists()


@pytest.mark.parametrize("verb", ["explain", "fill", "discover"])
def test_help_has_an_example(timeplex: Timeplex, verb: str) -> None:
    assert f"Example: timeplex {verb} " in timeplex(verb, "--help").out
