"""`timeplex compare RUN RUN…`: is the difference between trained models more than chance."""

from pathlib import Path
from typing import Any

import typer

from timeplex.cli.options import DEVICE_OPTION, JSON_OPTION, OWN_MODELS_OPTION, PROTOCOL_OPTION, SPLIT_OPTION
from timeplex.cli.show import print_json, print_table, progress, say

Row = dict[str, Any]
"""One comparison, as in `Comparisons.table`."""

HEADERS = ("facts", "first", "other", "difference", "95 % interval", "p")


def compare(
    runs: list[Path] = typer.Argument(
        ..., metavar="RUN RUN…", help="Run folders; the first is compared with the others."
    ),
    split: str = SPLIT_OPTION,
    protocol: str = PROTOCOL_OPTION,
    decoder: str = typer.Option("mean-mass", help="How spans are predicted: mean-mass, grid or expected-aeiou."),
    by_relation: bool = typer.Option(False, "--by-relation", help="Also for each relation."),
    latex: bool = typer.Option(False, "--latex", help="Print LaTeX tables."),
    models: list[str] = OWN_MODELS_OPTION,
    device: str = DEVICE_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Compare trained models on the same queries: MRR and aeIOU@1, with a paired t-test and a bootstrap interval.

    Example: timeplex compare runs/complex runs/timeplex --split valid
    """
    from timeplex import api

    with progress(f"evaluating {', '.join(str(run) for run in runs)}"):
        found = api.compare(
            *runs,
            split=split,
            protocol=protocol,
            decoder=decoder,
            by_relation=by_relation,
            device=device,
            model=models,
        )
    if as_json:
        print_json(found.as_dict())
        return
    if not latex:
        say(f"{found.kb}, {split}; protocol {found.protocol}; spans by {decoder}")
        say()
    for (metric, other), rows in found.table.group_by("metric", "other", maintain_order=True):
        title = f"{metric} (%): {runs[0]} against {other}"
        (_print_latex if latex else _print)(title, rows.to_dicts())


def _cells(row: Row) -> list[object]:
    interval = f"{100 * row['low']:+.2f} … {100 * row['high']:+.2f}"
    p = "< 0.0001" if row["p"] < 0.0001 else f"{row['p']:.4f}"
    return [row["facts"], 100 * row["first"], 100 * row["second"], f"{100 * row['difference']:+.2f}", interval, p]


def _print(title: str, rows: list[Row]) -> None:
    print_table(title, ["", *HEADERS], [[row["of"], *_cells(row)] for row in rows], decimals=2)


def _print_latex(title: str, rows: list[Row]) -> None:
    lines = [
        f"% {title}",
        r"\begin{tabular}{lrrrrrr}",
        r"\hline",
        " & ".join(["", "facts", "first", "other", "difference", r"95\,\% interval", "$p$"]) + r" \\ \hline",
    ]
    for row in rows:
        facts, first, second, *rest = _cells(row)
        texts = [f"{facts}", f"{first:.2f}", f"{second:.2f}", *(str(cell) for cell in rest)]
        cells = [text.replace("<", "$<$").replace("…", r"\ldots") for text in texts]
        lines.append(" & ".join([_escaped(row["of"]), *cells]) + r" \\")
    for line in [*lines, r"\hline", r"\end{tabular}"]:
        say(line)


def _escaped(name: str) -> str:
    return "".join(f"\\{letter}" if letter in "_%&#${}" else letter for letter in name)
