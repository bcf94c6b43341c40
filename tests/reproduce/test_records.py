"""Records: means over seeds, one decoder for all of them, files whole or not at all."""

import json
from pathlib import Path

import pytest
from tests.reproduce.conftest import measured

from timeplex.errors import DamagedError, InputError
from timeplex.reproduce.records import Cell, Results, combine, figure, mean


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
