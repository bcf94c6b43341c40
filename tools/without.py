"""Write a copy of a KB without some facts: python tools/without.py sample copy.csv "Italy, won, FIFA World Cup, 1982" …

A fact is named by subject, relation, object and begin; the copy is a table.
"""

import sys
from pathlib import Path

import polars as pl

import timeplex
from timeplex.kb.store import write_frame


def without(source: str, *facts: str) -> pl.DataFrame:
    """All facts of a KB but some."""
    table = timeplex.read(source).to_polars().drop("split")
    named = table.select(pl.concat_str("subject", "relation", "object", "begin", separator=", ", ignore_nulls=True))
    for fact in facts:
        if fact not in named.to_series():
            raise SystemExit(f"{source} does not state: {fact}")
    return table.filter(~named.to_series().is_in(facts))


def main(source: str, output: str, *facts: str) -> None:
    """The copy as a table."""
    table = without(source, *facts)
    write_frame(table, Path(output), formulas=True)
    print(f"{len(table):,} facts are in {output}, {len(facts)} are not.")


if __name__ == "__main__":
    main(*sys.argv[1:])
