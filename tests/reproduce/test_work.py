"""What is missing is done, once; what was cut off goes on; what is recorded is left alone."""

import json
import shutil
from pathlib import Path

import pytest
from tests.reproduce.conftest import Heard, no_training

from timeplex import TemporalKB
from timeplex.errors import DamagedError, InputError
from timeplex.reproduce import figures, work
from timeplex.reproduce.plan import FIGURES, Cell, Wish
from timeplex.reproduce.tables import is_complete
from timeplex.reproduce.work import Audience, Workshop, do
from timeplex.training.checkpoint import Progress, Stopped

COMPLEX = Wish.of(tables=["link"], datasets=["icews14"], models=["complex"])
BOTH = Wish.of(tables=["link", "ablation"], datasets=["icews14"], models=["timeplex"])


def record(dataset: str, model: str) -> dict:  # type: ignore[type-arg]
    return json.loads(Path("results", dataset, f"{model}.json").read_text())  # type: ignore[no-any-return]


def test_a_missing_cell_is_trained_and_recorded(workshop: Workshop) -> None:
    heard = Heard()
    do(COMPLEX, workshop, heard)
    assert heard.doing == ["complex on icews14, seed 0: training", "complex on icews14, seed 0: evaluating"]
    assert [(step.number, step.total) for step in heard.steps] == [(1, 1), (1, 1)]
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


def test_the_dev_figures_are_those_of_the_training(workshop: Workshop) -> None:
    do(COMPLEX, workshop, Heard())
    said = workshop.folder(Cell("icews14", "complex", 0)).metrics()["dev"]
    found = record("icews14", "complex")["valid"]["published-code"]
    assert found == pytest.approx({name: said[name] for name in found})


def test_what_is_recorded_is_not_trained_again(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    do(COMPLEX, workshop, Heard())
    before = Path("results/icews14/complex.json").read_bytes()
    (Path("runs") / "icews14").rename("elsewhere")
    heard = Heard()
    with no_training(monkeypatch):
        do(COMPLEX, workshop, heard)
    assert heard.steps == []
    assert Path("results/icews14/complex.json").read_bytes() == before


def test_again_evaluates_and_does_not_train(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    do(COMPLEX, workshop, Heard())
    before = record("icews14", "complex")
    spoiled = {**before, "by_seed": {"0": {**before["by_seed"]["0"], "parameters": -1}}}
    Path("results/icews14/complex.json").write_text(json.dumps(spoiled))
    heard = Heard()
    with no_training(monkeypatch):
        do(COMPLEX, workshop, heard, again=True)
    assert heard.doing == ["complex on icews14, seed 0: evaluating"]
    assert record("icews14", "complex") == before


def test_a_finished_run_is_only_evaluated(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    do(COMPLEX, workshop, Heard())
    Path("results/icews14/complex.json").unlink()
    with no_training(monkeypatch):
        do(COMPLEX, workshop, Heard())
    assert record("icews14", "complex")["seeds"] == [0]


def test_without_training_only_finished_runs_count(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    with no_training(monkeypatch):
        do(COMPLEX, workshop, heard, train=False)
    assert heard.steps == []
    assert not Path("results/icews14/complex.json").exists()
    do(COMPLEX, workshop, Heard())
    Path("results/icews14/complex.json").unlink()
    with no_training(monkeypatch):
        do(COMPLEX, workshop, Heard(), train=False)
    assert record("icews14", "complex")["seeds"] == [0]


def cut_off(workshop: Workshop, wish: Wish) -> None:
    """Train until the first epoch has ended, with a checkpoint, as Ctrl-C does."""
    trainers = []
    real = work.Trainer

    def trainer(*arguments: object) -> object:
        trainers.append(real(*arguments))  # type: ignore[arg-type]
        return trainers[-1]

    def listen(now: Progress) -> None:
        trainers[-1].stop_asked = True

    from contextlib import nullcontext

    work.Trainer = trainer  # type: ignore[assignment, misc]
    try:
        with pytest.raises(Stopped):
            do(wish, workshop, Audience(lambda step: None, lambda: nullcontext(listen)))
    finally:
        work.Trainer = real  # type: ignore[misc]


def test_a_run_that_was_cut_off_goes_on(workshop: Workshop) -> None:
    cut_off(workshop, COMPLEX)
    folder = workshop.folder(Cell("icews14", "complex", 0))
    assert folder.is_begun
    assert not folder.is_finished
    assert (folder.path / "checkpoint" / "latest.json").is_file()
    heard = Heard()
    do(COMPLEX, workshop, heard)
    assert heard.doing[0] == "complex on icews14, seed 0: training goes on"
    resumed = record("icews14", "complex")
    whole = Workshop(Path("other-runs"), type(workshop.results)(Path("other")), workshop.recipes, device="cpu")
    do(COMPLEX, whole, Heard())
    through = json.loads(Path("other/icews14/complex.json").read_text())
    assert resumed["test"] == through["test"]


def test_timeplex_takes_its_base(workshop: Workshop) -> None:
    heard = Heard()
    do(BOTH, workshop, heard)
    assert heard.doing == [
        "timeplex-base on icews14, seed 0: training",
        "timeplex on icews14, seed 0: training",
        "timeplex on icews14, seed 0: evaluating",
    ]
    assert heard.steps[-1].left is not None
    found = record("icews14", "timeplex")
    assert set(found["ablation"]) == {"-pair", "-rec", "-pair-rec"}
    assert found["decoder"] in found["decoders"]
    assert found["time"] == found["decoders"][found["decoder"]]
    assert found["time"].keys() >= {"aeiou@1", "aeiou@10", "giou@1", "iou@1", "tac@1"}
    assert found["valid_time"] == found["valid_decoders"][found["decoder"]]
    assert 0 <= found["ordering"]["share"] <= 1
    assert not Path("results/icews14/timeplex-base.json").exists()

    do(Wish.of(tables=["link"], datasets=["icews14"], models=["timeplex-base"]), workshop, Heard())
    base = record("icews14", "timeplex-base")
    bare = found["ablation"]["-pair-rec"]
    assert {name: bare[name] for name in base["test"]["published-code"]} == base["test"]["published-code"]
    assert bare["aeiou@1"] == base["decoders"][found["decoder"]]["aeiou@1"]


def test_models_are_compared_when_both_are_there(workshop: Workshop) -> None:
    do(Wish.of(tables=["link"], datasets=["icews14"], models=["tnt-complex"]), workshop, Heard())
    assert not Path("results/icews14/significance.json").exists()
    do(Wish.of(tables=["link"], datasets=["icews14"], models=["timeplex-base"]), workshop, Heard())
    found = json.loads(Path("results/icews14/significance.json").read_text())
    assert found["pairs"].keys() == {"timeplex-base against tnt-complex"}
    pair = found["pairs"]["timeplex-base against tnt-complex"]
    means = [record("icews14", model)["test"]["published-code"]["mrr"] for model in ("tnt-complex", "timeplex-base")]
    assert [pair["first"], pair["second"]] == pytest.approx(means)
    assert pair["difference"] == pytest.approx(means[1] - means[0])
    # By the ranks that are kept, so that no run is needed.
    for model in ("tnt-complex", "timeplex-base"):
        shutil.rmtree(workshop.folder(Cell("icews14", model, 0)).path)
    Path("results/icews14/significance.json").unlink()
    do(Wish.of(tables=["link"], datasets=["icews14"], models=["tnt-complex"]), workshop, Heard())
    assert json.loads(Path("results/icews14/significance.json").read_text()) == found


def test_the_ranks_of_models_that_are_compared_are_kept(workshop: Workshop) -> None:
    do(Wish.of(tables=["link"], datasets=["icews14"], models=["tnt-complex", "complex"]), workshop, Heard())
    assert workshop.results.ranks("icews14", "complex") is None
    kept = workshop.results.ranks("icews14", "tnt-complex")
    assert kept is not None
    mrr = (1 / kept["subject"] + 1 / kept["object"]).to_numpy().mean() / 2
    assert mrr == pytest.approx(record("icews14", "tnt-complex")["test"]["published-code"]["mrr"])
    assert len(kept) == len(workshop.kb("icews14").test)
    path = Path("results/icews14/ranks/tnt-complex.parquet")
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DamagedError, match="--again"):
        workshop.results.ranks("icews14", "tnt-complex")


def test_seeds(workshop: Workshop) -> None:
    wish = Wish.of(tables=["link"], datasets=["icews14"], models=["complex"], seeds=2)
    do(wish, workshop, Heard())
    found = record("icews14", "complex")
    assert found["seeds"] == [0, 1]
    assert found["command"] == "timeplex reproduce --dataset icews14 --model complex --seeds 2 --again"
    mrr = [found["by_seed"][seed]["test"]["published-code"]["mrr"] for seed in ("0", "1")]
    assert mrr[0] != mrr[1]
    assert found["test"]["published-code"]["mrr"] == pytest.approx(sum(mrr) / 2)
    assert found["by_seed"]["1"]["recipe"]["seed"] == 1


def test_sizes_are_counted_once(workshop: Workshop, small, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    wish = Wish.of(tables=["stats"], datasets=["yago11k"])
    do(wish, workshop, Heard())
    found = json.loads(Path("results/yago11k/stats.json").read_text())
    assert found["train"] == len(small.train)
    assert found["entities"] == len(small.entities)
    assert 0 < found["intervals"] < len(small)
    work._read.cache_clear()
    monkeypatch.setattr(work, "read", None)
    do(wish, workshop, Heard())


def test_a_run_by_another_recipe_is_refused(workshop: Workshop) -> None:
    do(COMPLEX, workshop, Heard())
    path = Path("recipes/icews14/complex.toml")
    path.write_text(path.read_text().replace("dimension = 4", "dimension = 6"))
    do(COMPLEX, workshop, Heard())  # recorded: it does not matter
    with pytest.raises(
        InputError, match=r"seed 0 of results/icews14/complex.json was trained by another .*\(options\)"
    ):
        do(Wish.of(tables=["link"], datasets=["icews14"], models=["complex"], seeds=2), workshop, Heard())
    Path("results/icews14/complex.json").unlink()
    with pytest.raises(InputError, match=r"runs/icews14/complex-0 was trained by another recipe .*\(options\)"):
        do(COMPLEX, workshop, Heard())


def test_a_folder_that_is_no_run_is_refused(workshop: Workshop) -> None:
    folder = Path("runs/icews14/complex-0")
    folder.mkdir(parents=True)
    (folder / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match="is not a run that was begun"):
        do(COMPLEX, workshop, Heard())


def test_a_missing_recipe_is_said_before_anything_is_trained(workshop: Workshop) -> None:
    heard = Heard()
    with pytest.raises(InputError, match=r"ta.toml does not exist"):
        do(Wish.of(tables=["link"], datasets=["icews14"]), workshop, heard)
    assert heard.steps == []


def test_figures_grow_with_the_runs_that_are_there(
    workshop: Workshop, small: TemporalKB, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact = next((small.entities[s], small.relations[r], small.entities[o]) for s, r, o, _, _ in small.test)
    monkeypatch.setattr(figures, "BIRTHS", [fact])
    monkeypatch.setitem(figures.YEARS, "yago11k", (1900, 2020))
    both = {"figures": list(FIGURES), "datasets": ["yago11k"], "seeds": 1}
    do(Wish.of(**both, models=["timeplex-base"]), workshop, Heard())  # type: ignore[arg-type]
    distance = json.loads(Path("results/figures/distance.json").read_text())
    assert distance.keys() == {"yago11k"}
    assert len(distance["yago11k"]["gap"]) == len(distance["yago11k"]["distance"]) > 0
    first = json.loads(Path("results/figures/across-time.json").read_text())[" ".join(fact)]
    assert first["curves"].keys() == {"timeplex-base"}
    assert not is_complete(Wish.of(**both), workshop.results)  # type: ignore[arg-type]

    do(Wish.of(**both, models=["tnt-complex", "timeplex"]), workshop, Heard())  # type: ignore[arg-type]
    then = json.loads(Path("results/figures/across-time.json").read_text())[" ".join(fact)]
    assert then["curves"].keys() == {"timeplex-base", "tnt-complex", "timeplex"}
    assert then["curves"]["timeplex-base"] == first["curves"]["timeplex-base"]
    assert sum(then["curves"]["timeplex"]["probability"]) == pytest.approx(1, abs=0.2)
    assert is_complete(Wish.of(**both), workshop.results)  # type: ignore[arg-type]
    assert figures.draw(workshop.results, Path("pictures")) == list(FIGURES)
