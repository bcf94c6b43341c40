"""The page: it agrees with the records, every table and figure can be made, and no number is lost on the way."""

import json
import re
from pathlib import Path

import pytest
from tests.reproduce.conftest import measured

from timeplex.datasets.benchmarks import BENCHMARKS
from timeplex.reproduce import tables
from timeplex.reproduce.records import DATASETS, FIGURES, MODELS, TABLES, Cell, Request, Results, published
from timeplex.reproduce.tables import is_complete

ROOT = Path(__file__).parents[2]


def test_the_page_agrees_with_the_records() -> None:
    written = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    expected = tables.text(Results(ROOT / "results"))
    assert written == expected, "docs/results.md is not that of results/. Run: timeplex reproduce --no-train"


def test_the_recorded_runs_are_those_of_the_recipes() -> None:
    from timeplex.training import recipe as recipes

    results = Results(ROOT / "results")
    for dataset in DATASETS:
        for model in MODELS:
            record = results.record(dataset, model)
            for seed, part in (record or {"by_seed": {}})["by_seed"].items():
                recipe = recipes.read(f"{dataset}/{model}").with_settings([f"seed={seed}"])
                assert recipes.parse(part["recipe"], f"{dataset}/{model}") == recipe, f"{dataset}/{model}, seed {seed}"


def test_the_recorded_comparisons_are_of_the_recorded_runs() -> None:
    results = Results(ROOT / "results")
    for dataset in DATASETS:
        recorded = results.read(f"{dataset}/significance")
        assert recorded is not None
        assert recorded["pairs"] == results.comparisons(dataset)


def test_figures_of_dev_in_the_text_are_recorded() -> None:
    """Wherever the page says "61.6 after 32 epochs", a recorded run or trial had that on dev then."""
    known = set()
    for path in (ROOT / "results" / "search").glob("*.jsonl"):
        for run in map(json.loads, path.read_text().splitlines()):
            known |= {
                (f"{100 * run['dev']['mrr']:.1f}", str(run[key])) for key in ("epochs", "best_epoch") if key in run
            }
    for dataset in DATASETS:
        for model in MODELS:
            for run in (Results(ROOT / "results").record(dataset, model) or {"by_seed": {}})["by_seed"].values():
                dev = f"{100 * run['valid']['published-code']['mrr']:.1f}"
                known |= {(dev, str(run[key])) for key in ("epochs", "best_epoch")}
    text = " ".join((ROOT / "docs" / "results.md").read_text(encoding="utf-8").split())
    told = set(re.findall(r"(\d\d\.\d) after (\d+)", text))
    assert len(told) >= 3
    assert told <= known


def rows(markdown: str) -> list[list[str]]:
    """The cells of all tables, without headers' underlines."""
    lines = [line for line in markdown.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_table_is_full_when_nothing_is_missing(results: Results) -> None:
    for name, table in tables.ALL.items():
        cells = [cell for row in rows(table(results)) for cell in row]
        if name not in ("time", "ablation"):  # the paper has no aeIOU@10, and no ablation of WIKIDATA12k
            assert tables.NONE not in cells, name
        assert len(cells) > 10
    assert set(tables.ALL) == set(TABLES)
    text = tables.text(results)
    assert "Nothing is missing" in text
    assert "[[" not in text
    assert "Not there yet" not in text


def test_the_ablation_has_rows_for_the_gadgets_of_the_run(results: Results) -> None:
    of_one = measured("wikidata12k", "timeplex", 0)
    of_one["ablation"] = {"-rec": of_one["ablation"]["-rec"]}
    results.add(Cell("wikidata12k", "timeplex", 0), of_one)
    yago, wikidata = tables.ablation(results).split("**WIKIDATA12k**")
    assert [row[0] for row in rows(yago)] == ["", "TimePlex", "− Pair", "− Rec", "− Pair − Rec"]
    assert [row[0] for row in rows(wikidata)] == ["", "TimePlex", "− Rec"]


def test_every_table_can_be_made_of_nothing(tmp_path: Path) -> None:
    empty = Results(tmp_path)
    assert empty.is_empty
    text = tables.text(empty)
    assert "[[" not in text
    assert "figures/" not in text
    for dataset in DATASETS:
        assert f"`timeplex reproduce --dataset {dataset}`" in text
    assert "No two of these models have been run yet." in text


def test_links_stand_beside_the_paper(results: Results) -> None:
    text = tables.link(results).split(f"**{BENCHMARKS['yago11k'].title}**")[1]
    row = next(row for row in rows(text) if row[0] == "TimePlex")
    mrr = [100 * measured("yago11k", "timeplex", seed)["test"]["published-code"]["mrr"] for seed in range(3)]
    mean = sum(mrr) / 3
    deviation = (sum((value - mean) ** 2 for value in mrr) / 2) ** 0.5
    assert row[1:4] == [f"{mean:.2f} ± {deviation:.2f}", "23.64", f"{mean - 23.64:+.2f}"]
    hits = [100 * measured("yago11k", "timeplex", seed)["test"]["published-code"]["hits@10"] for seed in range(3)]
    assert row[7].startswith(f"{sum(hits) / 3:.2f} ± ")
    assert {row[0] for row in rows(text)} >= {"TA (ComplEx)", "HyTE", "ComplEx"}  # the scorer that a recipe chose
    assert row[8] == "36.71"
    other = [100 * measured("yago11k", "timeplex", seed)["test"]["paper"]["mrr"] for seed in range(3)]
    assert row[-1].startswith(f"{sum(other) / 3:.2f}")


def test_one_seed_has_no_deviation(results: Results) -> None:
    text = tables.link(results).split(f"**{BENCHMARKS['icews14'].title}**")[1]
    value = 100 * measured("icews14", "complex", 0)["test"]["published-code"]["mrr"]
    assert next(row for row in rows(text) if row[0] == "ComplEx")[1] == f"{value:.2f}"


def test_the_decoder_of_the_paper_and_ours_are_apart(results: Results) -> None:
    text = tables.time(results).split(f"**{BENCHMARKS['wikidata12k'].title}**")[1]
    at = next(number for number, row in enumerate(rows(text)) if row[0] == "**TimePlex**")
    paper, *ours = rows(text)[at : at + 4]
    assert paper[1:3] == ["the paper", "26.36"]
    found = measured("wikidata12k", "timeplex", 0)
    best = max(found["valid_decoders"], key=lambda name: found["valid_decoders"][name]["aeiou@1"])
    for row, (decoder, figures_) in zip(ours, found["decoders"].items(), strict=True):
        assert row[1].startswith(decoder)
        assert row[1].endswith("←") == (decoder == best)
        assert row[2] == f"{100 * figures_['aeiou@1']:.2f}"
        assert row[-1] == f"{100 * found['valid_decoders'][decoder]['aeiou@1']:.2f}"


def test_the_ablation_has_each_row(results: Results) -> None:
    text = tables.ablation(results).split(f"**{BENCHMARKS['wikidata12k'].title}**")[1]
    found = measured("wikidata12k", "timeplex", 0)
    row = next(row for row in rows(text) if row[0] == "− Rec")
    assert row[1] == f"{100 * found['ablation']['-rec']['mrr']:.2f}"
    assert row[10] == f"{100 * found['ablation']['-rec']['decoders']['mean-mass']:.2f}"
    full = next(row for row in rows(text) if row[0] == "TimePlex")
    assert full[1] == f"{100 * found['test']['published-code']['mrr']:.2f}"
    assert full[10] == f"{100 * found['decoders']['mean-mass']['aeiou@1']:.2f}"


def test_a_missing_seed_and_model_are_named(results: Results) -> None:
    import json

    path = results.folder / "yago11k" / "hyte.json"
    record = json.loads(path.read_text())
    del record["by_seed"]["2"]
    path.write_text(json.dumps(record))
    (results.folder / "icews14" / "ta.json").unlink()
    text = tables.missing(results)
    assert "- YAGO11k: HyTE (seed 2). `timeplex reproduce --dataset yago11k --model hyte`" in text
    assert "- ICEWS14: TA. `timeplex reproduce --dataset icews14 --model ta`" in text
    assert "Left for later" not in text


def test_long_runs_without_a_result_are_named(results: Results) -> None:
    (results.folder / "icews05-15" / "ta.json").unlink()
    assert tables.missing(results) == (
        "Nothing is missing: every cell has its result. Left for later, because they take hours: "
        "TA on ICEWS05-15 (`timeplex reproduce --dataset icews05-15 --model ta`)."
    )


def test_a_table_can_be_about_some_data_sets(results: Results) -> None:
    for name, table in tables.ALL.items():
        whole, of_yago = table(results), table(results, ("yago11k",))
        others = [tables.title(dataset) for dataset in TABLES[name][0] if dataset != "yago11k"]
        assert not any(other in of_yago for other in others), name
        assert of_yago == whole if not others else len(of_yago) < len(whole)


def test_figures_are_drawn_from_records_alone(results: Results, tmp_path: Path) -> None:
    assert tables.draw(results, tmp_path / "figures") == list(FIGURES)
    for name in FIGURES:
        assert (tmp_path / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / "figures" / f"{name}.svg").read_text()
        assert f"(figures/{name}.png)" in tables.text(results)
    births = rows(tables.births(results))
    assert births[1][:4] == ["Shin Ae-ra wasBornIn South Korea", "1969", "1950", "1967"]


def test_a_part_of_a_figure_is_said_to_be_missing(results: Results) -> None:
    found = results.read("figures/distance")
    assert found is not None
    del found["yago11k"]
    results.write("figures/distance", found)
    assert "Not there yet: YAGO11k (`timeplex reproduce --figure distance`)." in tables.text(results)
    assert not tables.shows("distance", found, Cell("yago11k", "timeplex-base", 0))


def test_published_numbers_are_whole() -> None:
    """Every number that a table asks of the paper is there, but for what the paper has not."""
    for name in ("link", "filter"):
        datasets, models = TABLES[name]
        for dataset in datasets:
            assert set(published()[name][dataset]) == set(models)
            assert all(set(each) == set(tables.LINK) for each in published()[name][dataset].values())
    for name in ("time", "ordering", "classes"):
        assert {dataset: set(of) for dataset, of in published()[name].items()} == {
            dataset: set(TABLES[name][1]) for dataset in TABLES[name][0]
        }
    assert published()["ablation"]["yago11k"]["timeplex"]["mrr"] == published()["link"]["yago11k"]["timeplex"]["mrr"]
    assert (
        published()["ablation"]["yago11k"]["-pair-rec"].items()
        >= published()["link"]["yago11k"]["timeplex-base"].items()
    )


def test_the_paper_on_this_machine_has_these_numbers() -> None:
    source = ROOT.parent / "shared" / "paper" / "timeplex-emnlp2020.tex"
    if not source.is_file():
        pytest.skip("the paper is not on this machine")
    stated = {float(each) for each in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", source.read_text())}

    def numbers(values: object) -> list[float]:
        if isinstance(values, dict):
            return [number for each in values.values() for number in numbers(each)]
        return [float(values)] if isinstance(values, int | float) else []

    assert [number for number in numbers(published()) if number not in stated] == []


def test_what_is_missing_is_seen(results: Results) -> None:
    assert is_complete(Request.of(), results)
    for name in ("icews14/ta", "icews14/stats", "yago11k/significance", "figures/distance"):
        path = results.folder / f"{name}.json"
        text = path.read_text()
        path.unlink()
        assert not is_complete(Request.of(), results)
        assert is_complete(Request.of(tables=["classes"]), results)
        path.write_text(text)
    assert not is_complete(Request.of(seeds=4), results)
    compared = results.read("icews14/significance")
    assert compared is not None
    compared["pairs"].popitem()
    results.write("icews14/significance", compared)
    assert not is_complete(Request.of(), results)


def test_a_comparison_with_an_older_run_does_not_count(results: Results) -> None:
    name, *others = results.comparisons("icews14")
    first, second = reversed(name.split(" against "))
    assert "Not compared yet" not in tables.significance(results)
    anew = measured("icews14", second, 0)
    anew["test"]["published-code"]["mrr"] += 0.0001
    results.add(Cell("icews14", second, 0), anew)
    left = results.comparisons("icews14")
    assert name not in left
    assert set(left) == {other for other in others if second not in other.split(" against ")}
    assert not is_complete(Request.of(tables=["link"]), results)
    told = tables.significance(results)
    pair = f"ICEWS14: {MODELS[second]} against {MODELS[first]}"
    assert f"| {pair} |" not in told
    assert f"- {pair}. `timeplex reproduce --dataset icews14 --model {first} --model {second} --again`" in told
