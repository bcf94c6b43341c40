"""Write examples/leaders.csv and leaders-to-fill.csv: facts of the sample KB about heads of state and government.

The second has holes in it, and its facts are not in the first. Run: python tools/make_examples.py
"""

from pathlib import Path

import polars as pl

import timeplex

HOLES = [
    # person, role, place, from, to as they are to be filled; the whole fact is left out of the first table
    ("Willy Brandt", "bornIn", "Germany", None, None),
    ("Tony Blair", "bornIn", "United Kingdom", None, None),
    ("Golda Meir", "diedIn", None, "1978", "1978"),
    ("Olof Palme", "diedIn", "Sweden", None, None),
    ("Indira Gandhi", "headOfGovernment", "India", "1966", None),
    ("Olaf Scholz", "headOfGovernment", "Germany", "2021", None),
    ("Pierre Trudeau", "headOfGovernment", "Canada", None, "1979"),
]
STRANGER = ("Wily Brant", "diedIn", "Germany", None, None)


def main() -> None:
    """Both tables."""
    facts = timeplex.read("sample").to_polars()
    names = {"subject": "person", "relation": "role", "object": "place", "begin": "from", "end": "to"}
    facts = facts.select(pl.col(old).alias(new) for old, new in names.items())
    heads = facts.filter(pl.col("role").is_in(["headOfState", "headOfGovernment"]))["person"].unique().to_list()
    leaders = facts.filter(
        pl.col("person").is_in(heads), pl.col("role").is_in(["wonPrize", "educatedAt", "championOf"]).not_()
    )
    wanted = pl.DataFrame(HOLES, schema=facts.schema, orient="row")
    hidden = pl.concat([_like(leaders, row) for row in wanted.iter_rows(named=True)])
    rest = leaders.join(hidden, on=leaders.columns, how="anti", nulls_equal=True).sort(leaders.columns)
    folder = Path(__file__).parents[1] / "examples"
    rest.write_csv(folder / "leaders.csv")
    pl.concat([wanted, pl.DataFrame([STRANGER], schema=facts.schema, orient="row")]).write_csv(
        folder / "leaders-to-fill.csv"
    )


def _like(facts: pl.DataFrame, row: dict[str, str | None]) -> pl.DataFrame:
    """The fact that a row with holes stands for."""
    found = facts.filter(*(pl.col(name) == value for name, value in row.items() if value is not None))
    if len(found) != 1:
        raise ValueError(f"{row} stands for {len(found)} facts")
    return found


if __name__ == "__main__":
    main()
