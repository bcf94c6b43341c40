"""`timeplex models` and `timeplex check-model`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Timeplex

WRONG = Path(__file__).parents[1] / "models" / "wrong_model.py"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """No model is left behind, and torch has its threads again."""
    import torch

    from timeplex.models import MODELS

    before, threads = dict(MODELS), torch.get_num_threads()
    yield
    MODELS.clear()
    MODELS.update(before)
    torch.set_num_threads(threads)


def test_lists_all_models_and_gadgets(timeplex: Timeplex) -> None:
    from timeplex.gadgets import GADGETS
    from timeplex.models import MODELS

    answer = timeplex("models")
    assert (answer.code, answer.err) == (0, "")
    first_words = {line.split()[0] for line in answer.out.splitlines() if line.strip()}
    assert {*MODELS, *GADGETS} <= first_words
    assert "Parameters for the size of yago11k: 10,623 entities, 10 relations and their inverses, 380 " in answer.out


def test_counts_parameters_as_the_paper_does(timeplex: Timeplex) -> None:
    answer = json.loads(timeplex("models", "--json").out)
    assert (answer["kb"], answer["entities"], answer["relations"], answer["instants"]) == ("yago11k", 10_623, 10, 380)
    rows = {row["name"]: row for row in answer["models"]}
    # 2d (|E| + |T| + 4 |R|) and 2d (|E| + |T| + 6 |R|)
    assert rows["tnt-complex"]["parameters"] == 400 * (10_623 + 380 + 4 * 10)
    assert rows["timeplex-base"]["parameters"] == 400 * (10_623 + 380 + 6 * 10)
    assert rows["timeplex-base"]["options"]["form"] in ("paper", "published-code")
    assert rows["transe"]["summary"] == "φ(s, r, o) = −‖s + r − o‖ₚ with real vectors."


def test_counts_parameters_for_a_kb(timeplex: Timeplex, careers: Path) -> None:
    from timeplex.models.loading import model_class
    from timeplex.sources import read
    from timeplex.training.experiment import Experiment
    from timeplex.training.recipe import Recipe

    answer = json.loads(timeplex("models", careers, "--json").out)
    kb = read(str(careers))
    assert (answer["entities"], answer["relations"]) == (len(kb.entities), len(kb.relations))
    for row in answer["models"]:
        setup = Experiment(kb, Recipe(model=row["name"]))
        assert row["parameters"] == setup.new_model().parameter_count
        assert row["options"] == model_class(row["name"]).options_type().model_dump()
    assert f"Parameters for {careers}: " in timeplex("models", careers).out


def test_an_unknown_kb(timeplex: Timeplex) -> None:
    assert "'no-such-kb'" in timeplex("models", "no-such-kb").complaint()


def test_a_model_that_keeps_the_laws(timeplex: Timeplex) -> None:
    answer = timeplex("check-model", "transe", "--examples", "2")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.count(" pass ") == 11
    assert "FAIL" not in answer.out
    assert answer.out.endswith("All laws hold in 2 worlds with 2 sets of options.\n")


@pytest.mark.parametrize("name", ["wrong-times", "wrong-subjects"])
def test_a_wrong_model_in_a_file(timeplex: Timeplex, name: str) -> None:
    answer = timeplex("check-model", f"{WRONG}:{name}", "--examples", "3")
    assert (answer.code, answer.err) == (1, "")
    lines = [line.split() for line in answer.out.splitlines() if " FAIL " in line]
    assert ["agreement", "FAIL"] in [line[:2] for line in lines]
    assert "score_at" in answer.out
    assert " differ by " in answer.out
    assert " broken in " in answer.out


def test_json(timeplex: Timeplex) -> None:
    answer = timeplex("check-model", f"{WRONG}:wrong-times", "--examples", "3", "--seed", "7", "--json")
    assert (answer.code, answer.err) == (1, "")
    told = json.loads(answer.out)
    assert (told["passed"], told["examples"], told["variants"]) == (False, 3, 1)
    laws = {law["law"]: law for law in told["laws"]}
    assert not laws["agreement"]["passed"]
    assert "seed 7" in laws["agreement"]["message"]
    assert laws["saving"] == {"law": "saving", "passed": True, "message": ""}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 / 0", "failed with ZeroDivisionError"),
        ("def broken(:", "failed with SyntaxError"),
        ("x = 1", "registers no model 'mine'"),
    ],
)
def test_a_broken_file_is_exit_2(timeplex: Timeplex, text: str, reason: str) -> None:
    Path("own.py").write_text(text)
    assert reason in timeplex("check-model", "own.py:mine").complaint()


def test_an_unknown_model_is_exit_2(timeplex: Timeplex) -> None:
    assert "Did you mean 'transe'?" in timeplex("check-model", "trans").complaint()
    assert "none.py does not exist" in timeplex("check-model", "none.py:mine").complaint()


def test_a_model_that_raises_fails_the_laws_and_not_the_command(timeplex: Timeplex) -> None:
    Path("own.py").write_text(
        "from timeplex.models import register\n"
        "from timeplex.models.static import DistMult\n"
        "@register('mine')\n"
        "class Mine(DistMult):\n"
        "    '''Raises.'''\n"
        "    def score_at(self, s, r, o, t):\n"
        "        raise KeyError('nothing here')\n"
    )
    answer = timeplex("check-model", "own.py:mine", "--examples", "1")
    assert (answer.code, answer.err) == (1, "")
    assert "it raises KeyError: 'nothing here'" in answer.out


def test_the_installed_command(installed: Timeplex) -> None:
    answer = installed("check-model", f"{WRONG}:wrong-subjects", "--examples", "1")
    assert (answer.code, answer.err) == (1, "")
