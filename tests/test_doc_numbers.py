"""The numbers in the documents are those of the data: the sample's size, the table of benchmarks."""

import re
from pathlib import Path

import timeplex
from timeplex.kb.benchmarks import BENCHMARKS

ROOT = Path(__file__).parents[1]


def test_size_of_the_sample() -> None:
    stated = re.search(r"\(([\d,]+) real facts", (ROOT / "README.md").read_text())
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
