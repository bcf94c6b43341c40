"""`timeplex split KB -o DIR`: train, valid and test."""

from dataclasses import asdict
from pathlib import Path
from shlex import quote

import typer

from timeplex.cli.options import DATA_DIR_OPTION, JSON_OPTION, KB_ARGUMENT
from timeplex.cli.show import print_json, progress, say


def split(
    kb: str = KB_ARGUMENT,
    output: Path = typer.Option(..., "-o", "--output", metavar="DIR", help="The KB folder to write."),
    valid: float = typer.Option(0.1, help="Share of the facts for valid (dev)."),
    test: float = typer.Option(0.1, help="Share of the facts for test."),
    by_time: bool = typer.Option(False, "--by-time", help="The latest facts become test; else at random."),
    seed: int = typer.Option(0, help="Seed of the random split."),
    data_dir: Path | None = DATA_DIR_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Split a KB anew and report what leaks from train into valid and test.

    At random, no entity or relation of valid and test is unseen in train. By time, the latest facts are
    test and those before them valid.

    Example: timeplex split careers.kb -o careers-split.kb --valid 0.1 --test 0.1 --seed 1
    """
    from timeplex.cli.stats import show_leakage
    from timeplex.kb.split import leakage, split_by_time, split_randomly
    from timeplex.kb.store import check_target
    from timeplex.sources import read

    check_target(output)
    with progress(f"splitting {kb}") as report:
        whole = read(kb, data_dir=data_dir, on_progress=report)
        parts = split_by_time(whole, valid, test) if by_time else split_randomly(whole, valid, test, seed)
        parts.save(output)
        leaks = leakage(parts)
    sizes = {name: len(facts) for name, facts in parts.splits.items()}
    if as_json:
        print_json({"splits": sizes, "leakage": [asdict(row) for row in leaks], "folder": str(output)})
        return
    say(" · ".join(f"{name} {size:,}" for name, size in sizes.items()))
    why = (
        "facts of one instant stay together, undated ones in train"
        if by_time
        else "no entity in it may be unseen in train"
    )
    for name, share in (("valid", valid), ("test", test)):
        if sizes[name] < 0.9 * share * len(parts):
            say(f"Note: {name} is smaller than asked for, because {why}.")
    show_leakage(leaks)
    say(f"Saved in {output}. Next: timeplex stats {quote(str(output))}")
