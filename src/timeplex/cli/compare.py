"""`timeplex compare RUN RUN…`: is the difference between trained models more than chance."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from timeplex.cli.evaluate import DEVICE_OPTION, PROTOCOL_OPTION, SPLIT_OPTION, assess
from timeplex.cli.show import JSON_OPTION, MODEL_OPTION, print_json, print_table, progress, say

if TYPE_CHECKING:
    import polars as pl

    from timeplex.evaluation.report import Report
    from timeplex.evaluation.significance import Comparison


def compare(
    runs: list[Path] = typer.Argument(
        ..., metavar="RUN RUN…", help="Run folders; the first is compared with the others."
    ),
    split: str = SPLIT_OPTION,
    protocol: str = PROTOCOL_OPTION,
    decoder: str = typer.Option("mean-mass", help="How spans are predicted: mean-mass, grid or expected-aeiou."),
    by_relation: bool = typer.Option(False, "--by-relation", help="Also for each relation."),
    latex: bool = typer.Option(False, "--latex", help="Print LaTeX tables."),
    models: list[str] = MODEL_OPTION,
    device: str = DEVICE_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Compare trained models on the same queries: MRR and aeIOU@1, with a paired t-test and a bootstrap interval.

    Example: timeplex compare runs/complex runs/timeplex --split valid
    """
    from timeplex.errors import InputError
    from timeplex.models.loading import own_models

    own_models(models)
    if len(runs) < 2:
        raise InputError("There is only one run to compare.", "Give at least two run folders.")
    reports = {}
    for run in runs:
        with progress(f"evaluating {run}"):
            model, reports[str(run)] = assess(str(run), split, protocol, None, device)
        if model is None:
            raise InputError(f"{run} is not a run folder.", "Make one with timeplex train.")
    found = comparisons(reports, decoder, by_relation)
    if as_json:
        print_json(_as_json(reports, found, split, protocol, decoder))
        return
    first = next(iter(reports.values()))
    if not latex:
        say(f"{first.kb}, {split}; protocol {first.protocol}; spans by {decoder}")
        say()
    for (metric, other), table in found.items():
        title = f"{metric} (%): {runs[0]} against {other}"
        (_print_latex if latex else _print)(title, table)


def comparisons(
    reports: "dict[str, Report]", decoder: str, by_relation: bool
) -> "dict[tuple[str, str], dict[str, Comparison]]":
    """By metric and other run: the first run compared with it, over all facts and by relation."""
    from timeplex.evaluation.significance import compare_tables

    values = {run: _values(report, decoder) for run, report in reports.items()}
    (_, mine), *others = values.items()
    return {
        (metric, run): compare_tables(mine[metric], theirs[metric], by_relation)
        for run, theirs in others
        for metric in mine
        if metric in theirs
    }


def _values(report: "Report", decoder: str) -> "dict[str, pl.DataFrame]":
    """The value of each fact, by metric; aeIOU only for models that predict times."""
    from timeplex.errors import InputError
    from timeplex.evaluation.metrics import rank_column
    from timeplex.evaluation.significance import reciprocal_ranks

    values = {"MRR": reciprocal_ranks(report.queries, rank_column(report.protocol.filter))}
    if report.times is not None:
        known = report.times["decoder"].unique(maintain_order=True).to_list()
        if decoder not in known:
            raise InputError(
                f"No spans were predicted by {decoder!r}.", f"Use --decoder with one of: {', '.join(known)}."
            )
        mine = report.times.filter(decoder=decoder)
        values["aeIOU@1"] = mine.select("fact", "relation", value="aeiou@1").sort("fact")
    return values


HEADERS = ("facts", "first", "other", "difference", "95 % interval", "p")


def _cells(each: "Comparison") -> list[object]:
    interval = f"{100 * each.low:+.2f} … {100 * each.high:+.2f}"
    p = "< 0.0001" if each.p < 0.0001 else f"{each.p:.4f}"
    return [each.facts, 100 * each.first, 100 * each.second, f"{100 * each.difference:+.2f}", interval, p]


def _print(title: str, table: "dict[str, Comparison]") -> None:
    print_table(title, ["", *HEADERS], [[name, *_cells(each)] for name, each in table.items()], decimals=2)


def _print_latex(title: str, table: "dict[str, Comparison]") -> None:
    lines = [
        f"% {title}",
        r"\begin{tabular}{lrrrrrr}",
        r"\hline",
        " & ".join(["", "facts", "first", "other", "difference", r"95\,\% interval", "$p$"]) + r" \\ \hline",
    ]
    for name, each in table.items():
        facts, first, second, *rest = _cells(each)
        texts = [f"{facts}", f"{first:.2f}", f"{second:.2f}", *(str(cell) for cell in rest)]
        lines.append(
            " & ".join([_escaped(name), *(text.replace("<", "$<$").replace("…", r"\ldots") for text in texts)]) + r" \\"
        )
    lines += [r"\hline", r"\end{tabular}"]
    for line in lines:
        say(line)


def _escaped(name: str) -> str:
    return "".join(f"\\{letter}" if letter in "_%&#${}" else letter for letter in name)


def _as_json(
    reports: "dict[str, Report]",
    found: "dict[tuple[str, str], dict[str, Comparison]]",
    split: str,
    protocol: str,
    decoder: str,
) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "runs": list(reports),
        "split": split,
        "protocol": protocol,
        "decoder": decoder,
        "comparisons": [
            {"metric": metric, "other": run, "of": name, **asdict(each)}
            for (metric, run), table in found.items()
            for name, each in table.items()
        ],
    }
