"""`timeplex rank` as a user calls it."""

import json
import shutil
from pathlib import Path

import pytest
from tests.answers import small_runs

import timeplex as package
from timeplex.kb import spans


@pytest.fixture(scope="module")
def run() -> Path:
    return small_runs.folder("gadgets")


@pytest.fixture(scope="module")
def fact(run: Path) -> tuple[str, str, str, str]:
    """A test fact with names, and its time."""
    trained = small_runs.trained("gadgets")
    kb, seen = trained.kb, trained.asking.seen
    for s, r, o, begin, end in kb.test:
        if seen[s] and seen[o] and begin != spans.OPEN_BEGIN and end != spans.OPEN_END and end > begin:
            return kb.entities[s], kb.relations[r], kb.entities[o], f"{begin}..{end}"
    raise AssertionError


def test_rank_objects(timeplex, run: Path, fact) -> None:  # type: ignore[no-untyped-def]
    s, r, _, at = fact
    answer = timeplex("rank", run, "--subject", s, "--relation", r, "--at", at, "-k", "4")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    model = "timeplex-base + recurrence + pair"
    assert lines[0] == f"({s}, {r}, ?) at {at.replace('..', '–')}, asked of {model} on synthetic-900-0 ({run})"
    assert lines[2].split() == ["rank", "object", "probability", "known"]
    assert [line.split()[0] for line in lines[4:8]] == ["1", "2", "3", "4"]
    assert lines[-1].startswith("A probability is the share of such answers that were right, by 180 facts")
    assert "why" not in answer.out


def test_rank_subjects_as_json(timeplex, run: Path, fact) -> None:  # type: ignore[no-untyped-def]
    _, r, o, at = fact
    command = ["rank", run, "--object", o.upper().replace(" ", "_"), "--relation", r.upper(), "--at", at, "--json"]
    found = json.loads(timeplex(*command).out)
    begin, end = at.split("..")
    assert found["question"] == {"subject": None, "relation": r, "object": o, "at": [begin, end]}
    assert found["run"] == str(run)
    assert found["calibration"]["dev_facts"] == 180
    assert 0 <= found["calibration"]["measured"]["rank@1"]["after"] <= 1
    expected = package.load(run).rank(object=o, relation=r, at=at).drop("query").to_dicts()
    assert [row["id"] for row in found["answers"]] == [row["id"] for row in expected]
    assert found["answers"][0].keys() == {"rank", "entity", "id", "probability", "known"}
    hidden = json.loads(timeplex(*command, "--hide-known", "-k", "100").out)["answers"]
    assert all(row["known"] is None or row["known"].endswith("(another time)") for row in hidden)
    shown = json.loads(timeplex(*command, "-k", "100").out)["answers"]
    assert any(row["known"] is not None and not row["known"].endswith("(another time)") for row in shown)


def test_what_is_known_is_no_news(timeplex, run: Path, fact) -> None:  # type: ignore[no-untyped-def]
    s, r, _, at = fact
    command = ["rank", run, "--subject", s, "--relation", r, "--at", at, "-k", "50"]
    warning = "The KB states an answer for that time already. "
    assert warning in timeplex(*command).out
    assert warning not in timeplex(*command, "--hide-known").out


def test_rank_with_reasons(timeplex, run: Path, fact) -> None:  # type: ignore[no-untyped-def]
    s, r, _, at = fact
    command = ["rank", run, "--subject", s, "--relation", r, "--at", at, "-k", "3", "--explain"]
    found = json.loads(timeplex(*command, "--json").out)
    out = timeplex(*command).out
    for row in found["answers"]:
        assert all(reason in out for reason in row["why"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--object": "x"}, "Both a subject and an object are given. Give one of them: the other one is asked for."),
        ({"--subject": None}, "Neither a subject nor an object is given."),
        ({"-k": "0"}, "0 answers cannot be given. Let k be at least 1."),
        ({"-k": "-3"}, "-3 answers cannot be given."),
        ({"--at": "1200"}, "1200 is outside of the timeline, which runs from "),
        ({"--at": "2010..1990"}, "2010..1990 ends before it begins."),
        ({"--at": "whenever"}, "'whenever' is not a date."),
        ({"--relation": "isFondOf"}, "unknown relation 'isFondOf'"),
        ({"--subject": "Nobody at all"}, "unknown entity 'Nobody at all'"),
        ({"--device": "abacus"}, "'abacus' is not a device."),
    ],
)
def test_mistakes_are_one_sentence(timeplex, run: Path, fact, changes, message) -> None:  # type: ignore[no-untyped-def]
    options = {"--subject": fact[0], "--relation": fact[1], "--at": fact[3]} | changes
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    before = sorted(path.name for path in run.iterdir())
    assert message in timeplex("rank", run, *words).complaint()
    assert sorted(path.name for path in run.iterdir()) == before


def test_a_near_name_is_told(timeplex, run: Path, fact) -> None:  # type: ignore[no-untyped-def]
    wrong = fact[0][:2] + fact[0][3:]
    complaint = timeplex("rank", run, "--subject", wrong, "--relation", fact[1], "--at", fact[3]).complaint()
    assert complaint.startswith(f"unknown entity '{wrong}'; did you mean '") or "may be" in complaint


def test_what_is_no_run(timeplex, run: Path, fact, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    words = ["--subject", fact[0], "--relation", fact[1], "--at", fact[3]]
    answer = timeplex("rank", "nowhere", *words)
    assert (answer.code, answer.out) == (2, "")
    complaint = "nowhere has no trained model: it is not a run folder. Use: timeplex train KB -o RUN"
    assert answer.err == f"error: {complaint}\n"
    (tmp_path / "file").write_text("")
    assert timeplex("rank", "file", *words).complaint().startswith("file has no suffix that says how to read it.")
    damaged = tmp_path / "damaged"
    shutil.copytree(run, damaged)
    (damaged / "MANIFEST.json").write_text("{")
    assert "MANIFEST.json is not JSON" in timeplex("rank", damaged, *words).complaint()
    shutil.copy(run / "MANIFEST.json", damaged)
    with (damaged / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x55")
    assert "model.safetensors has been changed or damaged" in timeplex("rank", damaged, *words).complaint()
    (damaged / "model.safetensors").unlink()
    assert "model.safetensors is missing" in timeplex("rank", damaged, *words).complaint()


def test_a_kb_with_few_dev_facts_says_that_probabilities_are_raw(timeplex, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    rows = [f"e{number},knows,e{number % 7},{1990 + number % 9},{1995 + number % 9}" for number in range(60)]
    (tmp_path / "facts.csv").write_text("\n".join(["subject,relation,object,begin,end", *rows]))
    train = ["train", "facts.csv", "-o", "run", "--model", "timeplex-base", *small_runs.FAST]
    assert timeplex(*train).code == 0
    answer = timeplex("rank", "run", "--object", "e1", "--relation", "knows", "--at", "1999")
    assert answer.code == 0, answer.err
    assert "Probabilities are not calibrated: the KB has too few facts" in answer.out


def test_a_plain_kb_is_asked_without_training(timeplex, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    years = range(1900, 1980, 4)
    lines = ["subject,relation,object,begin,end"]
    lines += [f"head {n}-{year},governs,land {n},{year},{year + 3}" for n in range(8) for year in years]
    table = tmp_path / "heads.csv"
    table.write_text("\n".join([*lines, ""]))
    command = ["rank", table, "--object", "Land_3", "--relation", "governs", "--at", "1950..1951", "-k", "3"]
    found = json.loads(timeplex(*command, "--explain", "--json").out)
    assert (found["model"], found["kb"]) == ("patterns", "heads")
    first, *others = found["answers"]
    assert (first["id"], first["probability"], first["known"]) == ("head 3-1948", None, "1948–1951")
    assert all(0 <= row["probability"] <= 1 for row in others)
    assert first["why"] == []
    assert all("than for the average entity: " in row["why"][-1] for row in others)
    answer = timeplex(*command)
    assert answer.out.startswith("(?, governs, land 3) at 1950–1951, asked of the patterns of heads\n")
    assert "1948–1951" in answer.out
    unknown = timeplex(*command[:2], "--object", "land 99", "--relation", "governs")
    assert (unknown.code, unknown.out) == (2, "")
