"""`timeplex reproduce` as a user calls it."""
# ruff: noqa: F401, F811 - fixtures are imported by their names

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Timeplex
from tests.reproduce.conftest import results, small, workspace

from timeplex import __version__
from timeplex.reproduce import tables
from timeplex.reproduce.records import TABLES, Results
from timeplex.reproduce.runner import Workspace

RESULTS = Path(__file__).parents[2] / "results"
ONE = ("reproduce", "--dataset", "icews14", "--model", "complex", "--device", "cpu", "--recipes", "recipes")


def test_from_nothing_to_a_page(timeplex: Timeplex, workspace: Workspace) -> None:
    answer = timeplex(*ONE, "--table", "link")
    assert answer.code == 0, answer.err
    assert "1 of 1: complex on icews14, seed 0: training" in answer.err
    assert "epoch 2/2" in answer.err
    assert "| ComplEx | " in answer.out
    assert "**ICEWS14**" in answer.out
    assert "**YAGO11k**" not in answer.out
    assert answer.out.endswith("docs/results.md is written, with 0 figures.\n")
    mrr = json.loads(Path("results/icews14/complex.json").read_text())["test"]["published-code"]["mrr"]
    assert f"| ComplEx | {100 * mrr:.2f} | 45.50 |" in Path("docs/results.md").read_text()

    again = timeplex(*ONE, "--table", "link")
    assert (again.code, again.err) == (0, "")
    assert again.out == answer.out


def test_nothing_is_missing(timeplex: Timeplex, results: Results) -> None:
    before = time.monotonic()
    answer = timeplex("reproduce")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "docs/results.md is written, with 2 figures.\n"
    assert Path("docs/results.md").read_text() == tables.text(results)
    assert Path("docs/figures/distance.svg").is_file()
    assert time.monotonic() - before < 60


def test_nothing_is_missing_and_torch_is_not_needed(results: Results) -> None:
    script = (
        "import sys\n"
        "from timeplex.cli.main import run\n"
        "sys.argv = ['timeplex', 'reproduce']\n"
        "try:\n    run()\nexcept SystemExit as leaving:\n    assert not leaving.code\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_without_training_what_is_missing_is_counted(timeplex: Timeplex, workspace: Workspace) -> None:
    assert timeplex(*ONE, "--table", "link").code == 0
    answer = timeplex("reproduce", "--dataset", "icews14", "--table", "link", "--no-train")
    assert answer.code == 0
    assert answer.err == ""
    assert "No result yet: 6 of 7 runs." in answer.out


def test_no_results_and_no_runs(timeplex: Timeplex) -> None:
    complaint = timeplex("reproduce", "--no-train", "--table", "link").complaint()
    assert complaint == "results has no results, and runs no finished run to evaluate. Leave out --no-train to train."
    assert not Path("docs").exists()


def test_no_data(timeplex: Timeplex, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    from timeplex.errors import DownloadError
    from timeplex.reproduce import runner

    def fail(*_: object, **__: object) -> None:
        raise DownloadError("icews14 could not be fetched.", "Check the network.")

    monkeypatch.setattr(runner, "read", fail)
    answer = timeplex(*ONE, "--table", "link")
    assert answer.code == 2
    assert answer.err.splitlines()[-1] == "error: icews14 could not be fetched. Check the network."
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("option", "name", "said"),
    [
        ("--table", "lnk", "Did you mean 'link'?"),
        ("--figure", "fig", "Use one of: distance, across-time."),
        ("--dataset", "yago", "Did you mean 'yago11k'?"),
        ("--model", "timeplexx", "Did you mean 'timeplex'?"),
    ],
)
def test_wrong_names(timeplex: Timeplex, option: str, name: str, said: str) -> None:
    complaint = timeplex("reproduce", option, name).complaint()
    assert repr(name) in complaint
    assert said in complaint


def test_no_recipes(timeplex: Timeplex) -> None:
    complaint = timeplex(*ONE).complaint()
    assert "recipes/icews14/complex.toml does not exist" in complaint


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an installed wheel, which has the results of the repository."""
    monkeypatch.setattr("timeplex.reproduce.records.SHIPPED", RESULTS)


@pytest.mark.parametrize("table", TABLES)
def test_where_nothing_is_recorded_the_shipped_results_are_shown(
    timeplex: Timeplex, shipped: None, own_place: Path, table: str
) -> None:
    answer = timeplex("reproduce", "--table", table)
    assert (answer.code, answer.err) == (0, "")
    assert tables.ALL[table](Results(RESULTS)) in answer.out
    assert answer.out.endswith(f"Recorded with timeplex {__version__}. To train and measure here, give --again.\n")
    assert list(own_place.iterdir()) == []


def test_the_page_of_the_shipped_results(timeplex: Timeplex, shipped: None) -> None:
    answer = timeplex("reproduce")
    assert (answer.code, answer.err) == (0, "")
    assert Path("docs/results.md").read_bytes() == (RESULTS.parent / "docs" / "results.md").read_bytes()
    assert not Path("results").exists()


def test_shipped_results_do_not_stand_in_for_ones_own(timeplex: Timeplex, shipped: None, workspace: Workspace) -> None:
    assert timeplex(*ONE, "--table", "link").code == 0
    mrr = json.loads(Path("results/icews14/complex.json").read_text())["test"]["published-code"]["mrr"]
    answer = timeplex("reproduce", "--dataset", "icews14", "--table", "link", "--no-train")
    assert f"| ComplEx | {100 * mrr:.2f} | 45.50 |" in answer.out
    assert "No result yet: 6 of 7 runs." in answer.out


def test_a_table_without_runs_of_a_model(timeplex: Timeplex) -> None:
    complaint = timeplex("reproduce", "--table", "classes", "--model", "ta").complaint()
    assert complaint.startswith("No table or figure that is asked for needs such a run.")


def test_an_interrupt_is_exit_130_and_said(
    timeplex: Timeplex,
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from timeplex.training.checkpoint import Stopped
    from timeplex.training.loop import Trainer

    def stop(*_: object, **__: object) -> None:
        raise Stopped

    monkeypatch.setattr(Trainer, "fit", stop)
    answer = timeplex(*ONE, "--table", "link")
    assert answer.code == 130
    assert answer.out == "Stopped. The same command goes on.\n"
