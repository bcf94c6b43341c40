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
    assert (answer.code, answer.err) == (0, "")
    found = trained().explain(*ask[:3], at=ask[4])
    first = answer.out.splitlines()[0]
    assert first.startswith(f"{found.question}, at {ask[4]}: score {found.score:.3f}, by timeplex-base + ")
    for part in found.parts:
        assert any(line.split() == [*part.name.split(), f"{part.value:.3f}"] for line in answer.out.splitlines())
    assert f"{found.reasons[0].value:+.3f}  {found.reasons[0].gadget}  {found.reasons[0].sentence}\n" in answer.out
    left = len(found.reasons) - 1
    assert answer.out.endswith(f"{left} reason{'s' if left > 1 else ''} more: see them with --limit or --json\n")
    assert found.reasons[1].sentence not in answer.out


def test_all_reasons(timeplex: Timeplex) -> None:
    answer = timeplex("explain", folder("gadgets"), *question(), "--most", "1000")
    assert " more: see " not in answer.out


def test_json(timeplex: Timeplex) -> None:
    ask = question()
    answer = timeplex("explain", folder("gadgets"), *ask, "--json", "--most", "2")
    told = json.loads(answer.out)
    assert set(told) == {"run", "model", "kb", "question", "at", "score", "parts", "reasons", "note"}
    assert told["score"] == pytest.approx(sum(part["value"] for part in told["parts"]))
    assert len(told["reasons"]) == 2
    assert set(told["reasons"][0]) == {"gadget", "side", "fact", "gap", "value", "sentence"}


def test_a_span_and_a_model_without_gadgets(timeplex: Timeplex) -> None:
    *ask, year = question()
    answer = timeplex("explain", folder("plain"), *ask, f"{year}..{int(year) + 2}")
    assert f"\nThe span {year}–{int(year) + 2} is explained at its begin, {year}.\n" in answer.out
    assert answer.out.endswith("No training fact stands behind the score by itself: it is the model's alone.\n")


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
    assert f"Example: timeplex {verb} runs/" in timeplex(verb, "--help").out
