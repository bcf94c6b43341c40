"""Records: means over seeds, one decoder for all of them, files whole or not at all."""

import json
from pathlib import Path

import pytest
from tests.reproduce.conftest import measured

from timeplex.errors import DamagedError, InputError
from timeplex.models import MODELS as REGISTERED
from timeplex.reproduce.records import (
    DATASETS,
    FIGURES,
    LATER,
    MODELS,
    TABLES,
    Cell,
    Request,
    Results,
    combine,
    figure,
    mean,
)


def test_means_are_taken_of_numbers_wherever_they_lie() -> None:
    parts = [{"a": {"b": 0.2, "n": 7}, "c": 1.0}, {"a": {"b": 0.4, "n": 7}, "c": 0.0}]
    assert mean(parts) == {"a": {"b": pytest.approx(0.3), "n": 7}, "c": 0.5}
    assert mean([{"a": 1.0, "old": 3.0}, {"a": 1.0}]) == {"a": 1.0}


def test_one_decoder_is_chosen_by_the_mean_over_seeds_on_dev() -> None:
    parts = {str(seed): measured("yago11k", "timeplex", seed) for seed in range(2)}
    for seed, (grid, ours) in enumerate([(0.5, 0.2), (0.1, 0.3)]):
        for decoder, value in (("mean-mass", 0.05), ("grid", grid), ("expected-aeiou", ours)):
            parts[str(seed)]["valid_decoders"][decoder]["aeiou@1"] = value
            parts[str(seed)]["decoders"][decoder]["aeiou@1"] = 1 - value  # test has no say
    found = combine("yago11k", "timeplex", parts)
    assert found["decoder"] == "grid"  # 0.3 against 0.25
    assert found["time"]["aeiou@1"] == pytest.approx(1 - 0.3)
    assert found["by_seed"]["1"]["time"] == found["by_seed"]["1"]["decoders"]["grid"]
    assert found["by_seed"]["1"]["classes"] == found["by_seed"]["1"]["decoder_classes"]["grid"]
    assert found["ablation"]["-rec"]["aeiou@1"] == found["ablation"]["-rec"]["decoders"]["grid"]


def test_seeds_are_added_one_by_one_or_put_in_place(tmp_path: Path) -> None:
    results = Results(tmp_path)
    for seed in (2, 0, 1, 0):
        results.add(Cell("yago11k", "timeplex", seed), measured("yago11k", "timeplex", seed))
    found = results.record("yago11k", "timeplex")
    assert found == combine(
        "yago11k", "timeplex", {str(seed): measured("yago11k", "timeplex", seed) for seed in range(3)}
    )
    assert found is not None
    assert found["seeds"] == [0, 1, 2]
    assert list(found["by_seed"]) == ["0", "1", "2"]
    assert found["command"] == "timeplex reproduce --dataset yago11k --model timeplex --again"
    assert results.has(Cell("yago11k", "timeplex", 1))
    assert not results.has(Cell("yago11k", "timeplex", 3))
    assert [path.name for path in (tmp_path / "yago11k").iterdir()] == ["timeplex.json"]


def test_a_model_without_times_has_none() -> None:
    found = combine("yago11k", "complex", {"0": measured("yago11k", "complex", 0)})
    assert not {"time", "decoder", "valid_time"} & found.keys()
    assert found["ordering"]["queries"] == 100


def test_figures_of_a_path() -> None:
    record = {"by_seed": {"0": {"a": {"b": 0.1}}, "1": {"a": {"b": 0.3}}}}
    found = figure(record, "a", "b")
    assert found is not None
    assert found[0] == pytest.approx(0.2)
    assert found[1] == pytest.approx(0.02**0.5)
    assert figure(record, "a", "c") is None
    assert figure(None, "a") is None
    assert figure({"by_seed": {"0": {"a": 1.0}}}, "a") == (1.0, None)


@pytest.mark.parametrize("text", ["{", "[1]", "\x00"])
def test_a_damaged_record_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "yago11k").mkdir()
    (tmp_path / "yago11k" / "ta.json").write_text(text)
    with pytest.raises(DamagedError, match=r"yago11k/ta\.json"):
        Results(tmp_path).record("yago11k", "ta")


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        Results(tmp_path / "file").write("yago11k/stats", {})


def test_records_are_json_that_others_read(tmp_path: Path) -> None:
    Results(tmp_path).add(Cell("icews14", "ta", 0), measured("icews14", "ta", 0))
    text = (tmp_path / "icews14" / "ta.json").read_text()
    assert text.endswith("}\n")
    assert json.loads(text)["test"]["published-code"].keys() == {"mrr", "hits@1", "hits@3", "hits@10"}


# Which runs are needed, and names that are wrong.


def test_everything_is_every_cell_but_those_for_later() -> None:
    cells = Request.of().cells()
    assert len(cells) == len(set(cells)) == 7 * 3 + 7 + 7 + 7 - len(LATER)
    assert Request.of().tables == tuple(TABLES)
    assert Request.of().figures == tuple(FIGURES)
    assert {cell.seed for cell in cells if cell.dataset == "yago11k"} == {0, 1, 2}
    assert {cell.seed for cell in cells if cell.dataset != "yago11k"} == {0}


def test_a_long_run_is_made_if_its_model_is_named() -> None:
    assert Cell("icews05-15", "ta", 0) not in Request.of(datasets=["icews05-15"]).cells()
    assert Request.of(datasets=["icews05-15"], models=["ta"]).cells() == [Cell("icews05-15", "ta", 0)]


def test_a_base_comes_before_what_needs_it() -> None:
    cells = Request.of().cells()
    for cell in cells:
        if cell.base is not None:
            assert cells.index(cell.base) < cells.index(cell)
    assert Cell("yago11k", "timeplex", 2).base == Cell("yago11k", "timeplex-base", 2)
    assert Cell("yago11k", "complex", 2).base is None


def test_a_table_alone_is_no_figure_and_needs_its_own_cells() -> None:
    request = Request.of(tables=["classes"])
    assert request.figures == ()
    assert [str(cell) for cell in request.cells() if cell.seed == 0] == [
        "tnt-complex on yago11k, seed 0",
        "timeplex on yago11k, seed 0",
    ]
    assert Request.of(figures=["distance"]).tables == ()
    assert Request.of(tables=["stats"]).cells() == []
    assert len(Request.of(tables=["link"], datasets=["icews14", "yago11k"], models=["ta"], seeds=2).cells()) == 4


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tables": ["lnk"]}, "There is no table 'lnk'. Did you mean 'link'? Use one of: link, time,"),
        ({"figures": ["picture"]}, "There is no figure 'picture'. Use one of: distance, across-time."),
        ({"datasets": ["YAGO11K"]}, "There is no data set 'YAGO11K'. Did you mean 'yago11k'?"),
        ({"models": ["transe"]}, "There is no model 'transe'."),
    ],
)
def test_wrong_names(wrong: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InputError) as error:
        Request.of(**wrong)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


def test_names_are_known_elsewhere() -> None:
    from timeplex.datasets.benchmarks import BENCHMARKS

    assert set(DATASETS) == set(BENCHMARKS)
    assert set(MODELS) - {"timeplex"} <= set(REGISTERED)
