"""The numbers in the documents are those of the data: the sample's size, the table of benchmarks."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import timeplex
from timeplex.datasets.benchmarks import BENCHMARKS
from timeplex.evaluation.metrics import METRICS
from timeplex.evaluation.protocol import FILTERS
from timeplex.models import MODELS

ROOT = Path(__file__).parents[1]


def test_size_of_the_sample() -> None:
    stated = re.search(r"the ([\d,]+) real facts", (ROOT / "README.md").read_text())
    assert stated is not None
    assert int(stated[1].replace(",", "")) == len(timeplex.read("sample"))


def test_table_of_benchmarks() -> None:
    """`tests/kb/test_benchmarks.py` compares the figures of `BENCHMARKS` with the files."""
    lines = [line for line in (ROOT / "docs" / "data.md").read_text().splitlines() if line.startswith("|")]
    table = {cells[0]: cells[1:] for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)}
    names = next(cells for cells in table.values() if "yago11k" in cells)
    for position, name in enumerate(names):
        benchmark = BENCHMARKS[name]
        expected = {
            **{split: f"{number:,}" for split, number in benchmark.facts.items()},
            "entities (all splits)": f"{benchmark.entities:,}",
            "relations": f"{benchmark.relations:,}",
            "granularity": str(benchmark.granularity),
        }
        assert {key: table[key][position] for key in expected} == expected


def test_table_of_time_metrics() -> None:
    """The worked values of docs/evaluation.md: 1967 for 1969, [1999, 2001] and [1900, 2001] for [2002, 2005]."""
    cases = (((1969, 1969), (1967, 1967)), ((2002, 2005), (1999, 2001)), ((2002, 2005), (1900, 2001)))
    text = (ROOT / "docs" / "evaluation.md").read_text()
    for name, metric in METRICS.items():
        row = re.search(rf"^\| `{name}` \|(.*)\|$", text, re.MULTILINE)
        assert row is not None
        stated = [float(cell) for cell in row[1].split("|")[1:]]
        assert stated == [round(float(metric(gold, predicted)), 3) for gold, predicted in cases]


def test_ranks_of_the_french_assembly() -> None:
    """The ranks that the page works out are those of tests/evaluation/test_link_prediction.py."""
    text = (ROOT / "docs" / "evaluation.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| .* \| ([\d.]+) \|$", text, re.MULTILINE)
    stated = {name: rank for name, rank in rows if name in FILTERS}
    assert stated == {"none": "5", "ignore-time": "1", "exact-span": "4", "per-instant": "3.25"}


def recorded(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ROOT / "results" / "search" / name).read_text().splitlines()]


def test_first_figures_of_models() -> None:
    text = (ROOT / "docs" / "models.md").read_text()
    stated = {
        name: (mrr, hits)
        for name, mrr, hits in re.findall(r"^\| `?([a-z -]+?)`? \| ([\d.]+) \| ([\d.]+) \|", text, re.MULTILINE)
    }
    runs = recorded("yago11k-models.jsonl")
    figures = {run["model"]: run["dev"] for run in runs}
    baselines = json.loads((ROOT / "results" / "baselines" / "yago11k-valid.json").read_text())["baselines"]
    frequent = baselines["most frequent"]["per-instant"]["both"]
    figures["most frequent answer"] = frequent
    assert stated == {name: (f"{100 * of['mrr']:.2f}", f"{100 * of['hits@10']:.2f}") for name, of in figures.items()}
    ours = {name for name, model in MODELS.items() if model.__module__.startswith("timeplex.")}
    assert set(figures) - {"most frequent answer"} == ours
    assert all(run["dev"]["mrr"] > frequent["mrr"] for run in runs)


SEARCHES = sorted(path.name for path in (ROOT / "results" / "search").glob("*.jsonl"))


@pytest.mark.parametrize("name", SEARCHES)
def test_recorded_searches_can_be_repeated(name: str) -> None:
    """The command of every trial names a recipe that is there, with settings it takes and as many epochs as it had."""
    from timeplex.training import recipe as recipes

    for run in recorded(name):
        words = run["command"].split()
        assert words[:3] == ["timeplex", "train", run["dataset"]]
        settings = [word for before, word in pairwise(words) if before == "--set"]
        recipe = recipes.read(words[words.index("--recipe") + 1]).with_settings(settings)
        assert recipe.seed == run["seed"], run["command"]
        assert run.get("epochs", 1) <= recipe.epochs, run["command"]


def test_precision_and_form() -> None:
    text = (ROOT / "docs" / "models.md").read_text()
    precision = {run["precision"]: 100 * run["dev"]["mrr"] for run in recorded("yago11k-precision.jsonl")}
    assert abs(precision["bfloat16"] - precision["float32"]) <= 0.3
    form = {run["settings"]["options.form"]: 100 * run["dev"]["mrr"] for run in recorded("wikidata12k-form.jsonl")}
    for value in (*precision.values(), *form.values()):
        assert f"{value:.2f}" in text


def test_frequent_negatives() -> None:
    text = " ".join((ROOT / "docs" / "models.md").read_text().split())
    runs = [run for run in recorded("icews14-timeplex-base.jsonl") if "epochs=10" in run["settings"]]
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for run in runs:
        settings = dict(setting.split("=") for setting in run["settings"])
        if "n3" not in settings:
            found[int(settings.get("frequent", 0)), int(settings.get("negatives", 0))] = run
    told = {
        (1500, 700): "reaches dev MRR {mrr} in ten epochs, {seconds} s on one thread",
        (0, 0): "with all entities {mrr}, {seconds} s on two",
        (800, 400): "with 800 and 400 it reaches {mrr}",
        (0, 1500): "with 1,500 drawn ones that stand for themselves alone, {mrr}",
    }
    assert set(found) == set(told)
    for key, sentence in told.items():
        seconds = f"{found[key]['seconds']:.0f}"
        assert sentence.format(mrr=f"{100 * found[key]['dev']['mrr']:.2f}", seconds=seconds) in text
    assert (found[1500, 700]["machine"]["threads"], found[0, 0]["machine"]["threads"]) == (1, 2)


def test_forms_of_gadgets() -> None:
    text = (ROOT / "docs" / "models.md").read_text()
    runs = {" ".join(run["settings"]): run for run in recorded("yago11k-gadgets.jsonl")}
    rows = {
        "": "the recipe: recurrence as in the paper, pair as in the published code, both trained together",
        "phase2.together=false": "each trained alone (`phase2.together=false`)",
        "gadgets.recurrence.form=published-code": "recurrence as in the published code",
        "gadgets.pair.form=paper": "pair as in the paper",
        "gadgets.pair.form=paper gadgets.pair.weight=30": "pair as in the paper, κ = 30",
    }
    assert set(rows) == set(runs)
    for settings, row in rows.items():
        assert f"| {row} | {100 * runs[settings]['dev']['mrr']:.2f} |" in text
        assert f"| the base model alone | {100 * runs[settings]['phase2']['base_dev']['mrr']:.2f} |" in text
    alone = runs["phase2.together=false"]["phase2"]["trace"]
    recurrence = max(line["dev"]["mrr"] for line in alone if line["gadgets"] == "recurrence")
    assert f"Recurrence alone reaches {100 * recurrence:.2f}." in text
    wikidata = {" ".join(run["settings"]): 100 * run["dev"]["mrr"] for run in recorded("wikidata12k-gadgets.jsonl")}
    base = 100 * recorded("wikidata12k-gadgets.jsonl")[0]["phase2"]["base_dev"]["mrr"]
    ours, paper = wikidata[""], wikidata["gadgets.recurrence.form=paper"]
    told = (
        f"the base model from {base:.2f} to {ours:.2f} in the form of the published code and to {paper:.2f} in that of"
    )
    assert told in " ".join(text.split())


def test_filters_and_decoders_side_by_side() -> None:
    text = (ROOT / "docs" / "evaluation.md").read_text()
    stated = {
        row[0]: row[1:]
        for row in (
            [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
        )
    }
    files = [ROOT / "results" / name / "timeplex-base.json" for name in ("yago11k", "wikidata12k")]
    results = [json.loads(file.read_text())["by_seed"]["0"] for file in files]
    for name in FILTERS:
        of = [result["filters"][name] for result in results]
        assert stated[name] == [f"{100 * each[key]:.2f}" for each in of for key in ("mrr", "hits@1", "hits@10")]
    for name in ("mean-mass", "grid", "expected-aeiou"):
        of = [result["decoders"][name] for result in results]
        assert stated[name] == [f"{100 * each[key]:.2f}" for each in of for key in ("aeiou@1", "giou@1", "tac@1")]


def test_calibration() -> None:
    text = (ROOT / "docs" / "evaluation.md").read_text()
    for name, title in (("yago11k", "YAGO11k"), ("wikidata12k", "WIKIDATA12k")):
        questions = json.loads((ROOT / "results" / "calibration.json").read_text())[name]["questions"]
        for question in ("rank@1", "top 10", "span overlaps gold"):
            of = [questions[question][split][when] for split in ("dev", "test") for when in ("before", "after")]
            assert f"| {title}, {question} | {' | '.join(f'{error:.3f}' for error in of)} |" in text
            assert of[-1] <= 0.05
        dev, test = (questions["interval"][split] for split in ("dev", "test"))
        covered = [f"{100 * of['coverage']:.1f} %" for of in (dev, test)]
        assert f"| {title} | {' | '.join(covered)} | {test['width']:.0f} years |" in text
        first = questions["proposals"]["test"]["first"]
        shares = [f"{100 * first[number][key]:.0f} %" for number in ("50", "200", "500") for key in ("said", "right")]
        title += "" if "asked" in questions["proposals"] else ", by a run before patterns"
        assert f"| {title} | {' | '.join(shares)} |" in text
