"""What is missing is done, once; what was cut off goes on; what is recorded is left alone."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.evaluation.measures import fit_thresholds, predicted, time_metrics
from tests.reproduce.conftest import no_training

from timeplex import TemporalKB
from timeplex.errors import DamagedError, InputError
from timeplex.evaluation.protocol import PAPER, PUBLISHED_CODE
from timeplex.evaluation.ranking import PlacedFacts
from timeplex.evaluation.report import evaluate_times
from timeplex.evaluation.time_prediction import RULES, both_ends_known
from timeplex.kb.facts import Facts
from timeplex.reproduce import runner, tables
from timeplex.reproduce.records import FIGURES, Cell, Request
from timeplex.reproduce.runner import Step, Workspace, links, measure, ranks_of_test, run_missing, times
from timeplex.reproduce.tables import is_complete
from timeplex.training.checkpoint import Progress, Stopped
from timeplex.training.run import TrainedRun

COMPLEX = Request.of(tables=["link"], datasets=["icews14"], models=["complex"])
BOTH = Request.of(tables=["link", "ablation"], datasets=["icews14"], models=["timeplex"])


def record(dataset: str, model: str) -> dict:  # type: ignore[type-arg]
    return json.loads(Path("results", dataset, f"{model}.json").read_text())  # type: ignore[no-any-return]


def test_a_missing_cell_is_trained_and_recorded(workspace: Workspace) -> None:
    steps: list[Step] = []
    run_missing(COMPLEX, workspace, on_step=steps.append)
    cell = "complex on icews14, seed 0"
    assert [step.what for step in steps] == [f"{cell}: training", f"{cell}: evaluating"]
    assert [(step.number, step.total) for step in steps] == [(1, 1), (1, 1)]
    found = record("icews14", "complex")
    assert (found["dataset"], found["model"]) == ("icews14", "complex")
    assert found["seeds"] == [0]
    assert found["recipe"]["options"]["dimension"] == 4
    assert found["command"] == "timeplex reproduce --dataset icews14 --model complex --again"
    assert found["seconds"].keys() == {"0"}
    assert found["machine"]["threads"] >= 1
    for split in ("test", "valid"):
        assert found[split].keys() == {"published-code", "paper"}
        for each in found[split].values():
            assert each.keys() == {"mrr", "hits@1", "hits@3", "hits@10"}
            assert all(0 <= value <= 1 for value in each.values())
    assert "time" not in found


def test_the_dev_figures_are_those_of_the_training(workspace: Workspace) -> None:
    run_missing(COMPLEX, workspace)
    said = workspace.folder(Cell("icews14", "complex", 0)).metrics()["dev"]
    found = record("icews14", "complex")["valid"]["published-code"]
    assert found == pytest.approx({name: said[name] for name in found})


def test_what_is_recorded_is_not_trained_again(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    run_missing(COMPLEX, workspace)
    before = Path("results/icews14/complex.json").read_bytes()
    (Path("runs") / "icews14").rename("elsewhere")
    steps: list[Step] = []
    with no_training(monkeypatch):
        run_missing(COMPLEX, workspace, on_step=steps.append)
    assert steps == []
    assert Path("results/icews14/complex.json").read_bytes() == before


def test_again_evaluates_and_does_not_train(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    run_missing(COMPLEX, workspace)
    before = record("icews14", "complex")
    spoiled = {**before, "by_seed": {"0": {**before["by_seed"]["0"], "parameters": -1}}}
    Path("results/icews14/complex.json").write_text(json.dumps(spoiled))
    steps: list[Step] = []
    with no_training(monkeypatch):
        run_missing(COMPLEX, workspace, on_step=steps.append, again=True)
    assert [step.what for step in steps] == ["complex on icews14, seed 0: evaluating"]
    assert record("icews14", "complex") == before


def test_a_finished_run_is_only_evaluated(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    run_missing(COMPLEX, workspace)
    Path("results/icews14/complex.json").unlink()
    with no_training(monkeypatch):
        run_missing(COMPLEX, workspace)
    assert record("icews14", "complex")["seeds"] == [0]


def test_without_training_only_finished_runs_count(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[Step] = []
    with no_training(monkeypatch):
        run_missing(COMPLEX, workspace, on_step=steps.append, train=False)
    assert steps == []
    assert not Path("results/icews14/complex.json").exists()
    run_missing(COMPLEX, workspace)
    Path("results/icews14/complex.json").unlink()
    with no_training(monkeypatch):
        run_missing(COMPLEX, workspace, train=False)
    assert record("icews14", "complex")["seeds"] == [0]


def cut_off(workspace: Workspace, request: Request) -> None:
    """Train until the first epoch has ended, with a checkpoint, as Ctrl-C does."""
    trainers = []
    real = runner.Trainer

    def trainer(*arguments: object) -> object:
        trainers.append(real(*arguments))  # type: ignore[arg-type]
        return trainers[-1]

    def listen(now: Progress) -> None:
        trainers[-1].stop_asked = True

    from contextlib import nullcontext

    runner.Trainer = trainer  # type: ignore[assignment, misc]
    try:
        with pytest.raises(Stopped):
            run_missing(request, workspace, display=lambda: nullcontext(listen))
    finally:
        runner.Trainer = real  # type: ignore[misc]


def test_a_run_that_was_cut_off_goes_on(workspace: Workspace) -> None:
    cut_off(workspace, COMPLEX)
    folder = workspace.folder(Cell("icews14", "complex", 0))
    assert folder.is_begun
    assert not folder.is_finished
    assert (folder.path / "checkpoint" / "latest.json").is_file()
    steps: list[Step] = []
    run_missing(COMPLEX, workspace, on_step=steps.append)
    assert steps[0].what == "complex on icews14, seed 0: training goes on"
    resumed = record("icews14", "complex")
    whole = Workspace(Path("other-runs"), type(workspace.results)(Path("other")), workspace.recipes, device="cpu")
    run_missing(COMPLEX, whole)
    through = json.loads(Path("other/icews14/complex.json").read_text())
    assert resumed["test"] == through["test"]


def test_timeplex_takes_its_base(workspace: Workspace) -> None:
    steps: list[Step] = []
    run_missing(BOTH, workspace, on_step=steps.append)
    assert [step.what for step in steps] == [
        "timeplex-base on icews14, seed 0: training",
        "timeplex on icews14, seed 0: training",
        "timeplex on icews14, seed 0: evaluating",
    ]
    assert steps[-1].left is not None
    found = record("icews14", "timeplex")
    assert set(found["ablation"]) == {"-pair", "-rec", "-pair-rec"}
    assert found["decoder"] in found["decoders"]
    assert found["time"] == found["decoders"][found["decoder"]]
    assert found["time"].keys() >= {"aeiou@1", "aeiou@10", "giou@1", "iou@1", "tac@1"}
    assert found["valid_time"] == found["valid_decoders"][found["decoder"]]
    assert 0 <= found["ordering"]["share"] <= 1
    assert not Path("results/icews14/timeplex-base.json").exists()

    run_missing(Request.of(tables=["link"], datasets=["icews14"], models=["timeplex-base"]), workspace)
    base = record("icews14", "timeplex-base")
    bare = found["ablation"]["-pair-rec"]
    assert {name: bare[name] for name in base["test"]["published-code"]} == base["test"]["published-code"]
    assert bare["aeiou@1"] == base["decoders"][found["decoder"]]["aeiou@1"]


def test_models_are_compared_when_both_are_there(workspace: Workspace) -> None:
    run_missing(Request.of(tables=["link"], datasets=["icews14"], models=["tnt-complex"]), workspace)
    assert not Path("results/icews14/significance.json").exists()
    run_missing(Request.of(tables=["link"], datasets=["icews14"], models=["timeplex-base"]), workspace)
    found = json.loads(Path("results/icews14/significance.json").read_text())
    assert found["pairs"].keys() == {"timeplex-base against tnt-complex"}
    pair = found["pairs"]["timeplex-base against tnt-complex"]
    means = [record("icews14", model)["test"]["published-code"]["mrr"] for model in ("tnt-complex", "timeplex-base")]
    assert [pair["first"], pair["second"]] == pytest.approx(means)
    assert pair["difference"] == pytest.approx(means[1] - means[0])
    # By the ranks that are kept, so that no run is needed.
    for model in ("tnt-complex", "timeplex-base"):
        shutil.rmtree(workspace.folder(Cell("icews14", model, 0)).path)
    Path("results/icews14/significance.json").unlink()
    run_missing(Request.of(tables=["link"], datasets=["icews14"], models=["tnt-complex"]), workspace)
    assert json.loads(Path("results/icews14/significance.json").read_text()) == found


def test_the_ranks_of_models_that_are_compared_are_kept(workspace: Workspace) -> None:
    run_missing(Request.of(tables=["link"], datasets=["icews14"], models=["tnt-complex", "complex"]), workspace)
    assert workspace.results.ranks("icews14", "complex") is None
    kept = workspace.results.ranks("icews14", "tnt-complex")
    assert kept is not None
    mrr = (1 / kept["subject"] + 1 / kept["object"]).to_numpy().mean() / 2
    assert mrr == pytest.approx(record("icews14", "tnt-complex")["test"]["published-code"]["mrr"])
    assert len(kept) == len(workspace.kb("icews14").test)
    path = Path("results/icews14/ranks/tnt-complex.parquet")
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DamagedError, match="--again"):
        workspace.results.ranks("icews14", "tnt-complex")


def test_seeds(workspace: Workspace) -> None:
    request = Request.of(tables=["link"], datasets=["icews14"], models=["complex"], seeds=2)
    run_missing(request, workspace)
    found = record("icews14", "complex")
    assert found["seeds"] == [0, 1]
    assert found["command"] == "timeplex reproduce --dataset icews14 --model complex --seeds 2 --again"
    mrr = [found["by_seed"][seed]["test"]["published-code"]["mrr"] for seed in ("0", "1")]
    assert mrr[0] != mrr[1]
    assert found["test"]["published-code"]["mrr"] == pytest.approx(sum(mrr) / 2)
    assert found["by_seed"]["1"]["recipe"]["seed"] == 1


def test_sizes_are_counted_once(workspace: Workspace, small, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    request = Request.of(tables=["stats"], datasets=["yago11k"])
    run_missing(request, workspace)
    found = json.loads(Path("results/yago11k/stats.json").read_text())
    assert found["train"] == len(small.train)
    assert found["entities"] == len(small.entities)
    assert 0 < found["intervals"] < len(small)
    runner.read_kb.cache_clear()
    monkeypatch.setattr(runner, "read", None)
    run_missing(request, workspace)


def test_a_run_by_another_recipe_is_refused(workspace: Workspace) -> None:
    run_missing(COMPLEX, workspace)
    path = Path("recipes/icews14/complex.toml")
    path.write_text(path.read_text().replace("dimension = 4", "dimension = 6"))
    run_missing(COMPLEX, workspace)  # recorded: it does not matter
    with pytest.raises(
        InputError, match=r"seed 0 of results/icews14/complex.json was trained by another .*\(options\)"
    ):
        run_missing(Request.of(tables=["link"], datasets=["icews14"], models=["complex"], seeds=2), workspace)
    Path("results/icews14/complex.json").unlink()
    with pytest.raises(InputError, match=r"runs/icews14/complex-0 was trained by another recipe .*\(options\)"):
        run_missing(COMPLEX, workspace)


def test_a_folder_that_is_no_run_is_refused(workspace: Workspace) -> None:
    folder = Path("runs/icews14/complex-0")
    folder.mkdir(parents=True)
    (folder / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match="is not a run that was begun"):
        run_missing(COMPLEX, workspace)


def test_a_missing_recipe_is_said_before_anything_is_trained(workspace: Workspace) -> None:
    steps: list[Step] = []
    with pytest.raises(InputError, match=r"ta.toml does not exist"):
        run_missing(Request.of(tables=["link"], datasets=["icews14"]), workspace, on_step=steps.append)
    assert steps == []


def test_figures_grow_with_the_runs_that_are_there(
    workspace: Workspace, small: TemporalKB, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact = next((small.entities[s], small.relations[r], small.entities[o]) for s, r, o, _, _ in small.test)
    monkeypatch.setattr(tables, "BIRTHS", [fact])
    monkeypatch.setitem(tables.YEARS, "yago11k", (1900, 2020))
    both = {"figures": list(FIGURES), "datasets": ["yago11k"], "seeds": 1}
    run_missing(Request.of(**both, models=["timeplex-base"]), workspace)  # type: ignore[arg-type]
    distance = json.loads(Path("results/figures/distance.json").read_text())
    assert distance.keys() == {"yago11k"}
    assert len(distance["yago11k"]["gap"]) == len(distance["yago11k"]["distance"]) > 0
    first = json.loads(Path("results/figures/across-time.json").read_text())[" ".join(fact)]
    assert first["curves"].keys() == {"timeplex-base"}
    assert not is_complete(Request.of(**both), workspace.results)  # type: ignore[arg-type]

    run_missing(Request.of(**both, models=["tnt-complex", "timeplex"]), workspace)  # type: ignore[arg-type]
    then = json.loads(Path("results/figures/across-time.json").read_text())[" ".join(fact)]
    assert then["curves"].keys() == {"timeplex-base", "tnt-complex", "timeplex"}
    assert then["curves"]["timeplex-base"] == first["curves"]["timeplex-base"]
    assert sum(then["curves"]["timeplex"]["probability"]) == pytest.approx(1, abs=0.2)
    assert is_complete(Request.of(**both), workspace.results)  # type: ignore[arg-type]
    assert tables.draw(workspace.results, Path("pictures")) == list(FIGURES)


# Figures of a run: each by the plain way to get it.


CPU = torch.device("cpu")
TRAINED = {"epochs": 1, "best_epoch": 1, "parameters": 5, "machine": {}, "seconds": 2.0}


@pytest.fixture
def run(workspace: Workspace) -> TrainedRun:
    run_missing(Request.of(tables=["link"], datasets=["yago11k"], models=["timeplex-base"], seeds=1), workspace)
    return workspace.load(Cell("yago11k", "timeplex-base", 0))


def test_dev_thresholds_are_judged_by_other_facts(run: TrainedRun) -> None:
    kb, relations = run.kb, len(run.kb.relations)
    facts = both_ends_known(kb.valid)
    assert len(facts) > 20
    half = np.random.default_rng(0).permutation(len(facts)) % 2 == 0
    assert abs(int(half.sum()) - len(facts) / 2) <= 0.5
    found = times(run, CPU)["valid_decoders"]
    for rule in RULES:
        judged = []
        for mine in (half, ~half):
            way = fit_thresholds(run.scorer, facts[~mine], run.timeline, rule, relations=relations)
            asked = facts[mine]
            spans = predicted(run.scorer, PlacedFacts.of(asked, run.timeline), run.timeline, way)
            judged.append((len(asked), time_metrics(asked.span, spans)["aeiou@1"]))
        expected = sum(number * value for number, value in judged) / len(facts)
        assert found[rule]["aeiou@1"] == pytest.approx(expected)
    alike = evaluate_times(kb, kb.valid, run.timeline, run.scorer).filter(decoder="grid")["aeiou@1"].mean()
    assert isinstance(alike, float)
    assert alike >= found["grid"]["aeiou@1"]  # judged by the facts that it was fitted on


def test_test_figures_are_those_of_evaluate(run: TrainedRun) -> None:
    found = measure(run, TRAINED, ranks_of_test(run, CPU), CPU)
    table = evaluate_times(run.kb, run.kb.test, run.timeline, run.scorer)
    for decoder, figures in found["decoders"].items():
        mine = table.filter(decoder=decoder)
        assert figures["aeiou@10"] == pytest.approx(mine["aeiou@10"].mean())
        for name, value in found["decoder_classes"][decoder].items():
            assert value == pytest.approx(mine.filter(pl_class(name))["aeiou@1"].mean())
    assert found["test"]["paper"] == links(run, "test", PAPER, CPU)
    assert found["test"]["published-code"] == links(run, "test", PUBLISHED_CODE, CPU) == found["filters"]["per-instant"]
    assert found["filters"]["ignore-time"]["mrr"] >= found["filters"]["per-instant"]["mrr"]
    assert found["filters"]["per-instant"]["mrr"] >= found["filters"]["exact-span"]["mrr"]
    assert found["valid"]["published-code"] == links(run, "valid", PUBLISHED_CODE, CPU)
    assert found["ordering"]["queries"] == len(run.kb.test)


def pl_class(name: str):  # type: ignore[no-untyped-def]
    import polars as pl

    return pl.col("class") == name


def test_the_gadgets_time_is_part_of_the_whole(run: TrainedRun) -> None:
    found = measure(run, {**TRAINED, "phase2": {"seconds": 3.5}}, ranks_of_test(run, CPU), CPU)
    assert (found["seconds"], found["phase2_seconds"]) == (5.5, 3.5)


def test_events_have_no_times(run: TrainedRun, small: TemporalKB) -> None:
    from dataclasses import replace

    def events(facts: Facts) -> Facts:
        known = both_ends_known(facts)
        return replace(known, end=known.begin)

    kb = replace(small, splits={name: events(part) for name, part in small.splits.items()})
    setup = replace(run.setup, kb=kb)
    model = setup.new_model().train(False)
    of_events = TrainedRun(run.path, setup, model, {})
    found = measure(of_events, TRAINED, ranks_of_test(of_events, CPU), CPU)
    assert not {"ordering", "decoders", "ablation"} & found.keys()
