"""docs/audit.md: its figures are those of results/audit.json, its rules can be used, its table names all rules."""

import json
import re
import tomllib
from pathlib import Path

from tests.documents import ROOT, blocks
from tools.injected_errors import KINDS

import timeplex
from timeplex.auditing.base import RULES
from timeplex.auditing.own_rules import TABLES

TEXT = (ROOT / "docs" / "audit.md").read_text()
RESULTS = json.loads((ROOT / "results" / "audit.json").read_text())


def rows() -> dict[str, list[str]]:
    cells = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("|")
    )
    return {row[0]: row[1:] for row in cells}


def test_measured_figures() -> None:
    assert set(RESULTS) == {"yago11k", "wikidata12k", "synthetic"}
    table = rows()
    for name, measured in RESULTS.items():
        kinds = {kind: measured[kind] for kind in KINDS}
        expected = [
            f"{kinds[kind][key]:.2f} ({kinds[kind]['unseen'][key]:.2f})"
            for kind in KINDS
            for key in ("precision_at_injected", "average_precision")
        ]
        for of in kinds.values():
            assert (of["seed"], of["share"], of["unseen"]["seeds"]) == (0, 0.02, [4, 5, 6])
        assert table[f"`{name}`"] == [f"{kinds['dates-shifted']['injected']:,}", *expected]


def test_measured_figures_with_entities() -> None:
    table, words = rows(), "objects-replaced with entities"
    assert words in RESULTS["yago11k"]
    for name, figures in ((name, measured[words]) for name, measured in RESULTS.items() if words in measured):
        cells = []
        for key in ("precision_at_injected", "average_precision"):
            further = figures["unseen"][key]
            cells.append(f"{figures[key]:.2f}" + ("" if further is None else f" ({further:.2f})"))
        assert table[f"`{name}`, objects"] == [*cells, f"{figures['by_rule_right']} of {figures['by_rule']}"]
        assert (figures["seed"], figures["share"]) == (0, 0.02)
        assert figures["command"].startswith("python tools/measure_audit.py --entities --unseen")


def test_measured_figures_with_models() -> None:
    table = rows()
    for name, measured in RESULTS.items():
        for of, figures in measured.items():
            if of in KINDS or of.endswith(" with entities"):
                continue
            kind, _, models = of.partition(" with ")
            before = figures["without"]
            cells = [
                kind.replace("-", " "),
                f"{before['precision_at_injected']:.3f} → {figures['precision_at_injected']:.3f}",
                f"{before['average_precision']:.3f} → {figures['average_precision']:.3f}",
                f"{figures['by_model_right']} of {figures['by_model']}",
            ]
            assert table[f"`{name}`, {models}, {cells[0]}"] == cells[1:]
            assert (figures["seed"], figures["share"], figures["epochs"]) == (0, 0.02, 8)
            assert figures["command"] == f"python tools/measure_audit.py --run-epochs 8 {name}"
            # What the audit alone finds is the same as was measured without models.
            assert before == {key: measured[kind][key] for key in before}
    recorded = {of for of in RESULTS["yago11k"] if of not in KINDS}
    assert {"objects-replaced with a model", "dates-shifted with a model"} <= recorded
    assert len([row for row in table if ", a model, " in row or ", five models, " in row]) == sum(
        of not in KINDS and not of.endswith(" with entities") for measured in RESULTS.values() for of in measured
    )


def test_a_model_does_not_cost_dates() -> None:
    for measured in RESULTS.values():
        for of, figures in measured.items():
            if of.startswith("dates-shifted with "):
                assert figures["precision_at_injected"] >= figures["without"]["precision_at_injected"]


def test_date_errors_of_yago11k_are_found() -> None:
    assert RESULTS["yago11k"]["dates-shifted"]["precision_at_injected"] >= 0.5


def test_every_rule_is_explained() -> None:
    assert {name for name in rows() if name.strip("`") in RULES} == {f"`{name}`" for name in RULES}


def test_the_rules_in_the_document_can_be_used(tmp_path: Path) -> None:
    (block,) = [block for block in blocks(TEXT) if block.language == "toml"]
    assert set(tomllib.loads(block.text)) == set(TABLES)
    path = tmp_path / "my.toml"
    path.write_text(block.text)
    findings = timeplex.audit(timeplex.read("sample"), rules=path)
    assert any("your rule" in message or "your range" in message for message in findings.frame["message"])


def test_ten_findings_and_ten_more() -> None:
    lists = re.findall(r"^\| \d+ \|", TEXT, re.MULTILINE)
    assert len(lists) == 20
