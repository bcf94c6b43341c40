"""Write a copy of a KB with wrong dates in it: python tools/with_errors.py sample copy.csv

One fact in a hundred is moved by 10 to 100 years. Which ones is printed, so that an audit of the copy can be judged.
"""

import sys
from pathlib import Path

from injected_errors import inject

import timeplex
from timeplex.kb.store import write_frame


def main(source: str, output: str) -> None:
    """The copy as a table, and a few of the facts that were moved."""
    kb, rows = inject(timeplex.read(source), "dates-shifted", share=0.01, seed=0)
    table = kb.to_polars()
    write_frame(table.drop("split"), Path(output), formulas=True)
    print(f"{len(rows)} of {len(table):,} facts have wrong dates now. Some of them:")
    for row in table[rows[:: max(1, len(rows) // 4)]].iter_rows(named=True):
        print(f"  {row['subject']} {row['relation']} {row['object']} {row['begin']}–{row['end'] or ''}")


if __name__ == "__main__":
    main(*sys.argv[1:])
