"""Facts know where they were read: through splits, folders and copies; what does not know it says so."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import timeplex
from timeplex.errors import DamagedError
from timeplex.files import checksum
from timeplex.kb.facts import Facts, TemporalKB, split_key
from timeplex.kb.split import split_randomly

HEAD = "subject,relation,object,begin,end\n"


@pytest.fixture
def kb(tmp_path: Path) -> TemporalKB:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "train.csv").write_text(HEAD + "a,r,b,1990,1991\n\nb,r,c,1992,1993\na,r,b,1990,1991\nc,r,a,1994,1995\n")
    (folder / "test.csv").write_text(HEAD + ",r,b,1990,1991\nc,r,b,1996,1997\n")
    return timeplex.read(folder)


def told(kb: TemporalKB) -> dict[str, tuple[str, int]]:
    """Subject and object of each fact, and where it was read."""
    assert kb.facts.source is not None
    file, line = split_key(kb.facts.source)
    names = [f"{kb.entities[s]} {kb.entities[o]}" for s, _, o, _, _ in kb.facts]
    places = [(Path(kb.files[number]).name, at) for number, at in zip(file.tolist(), line.tolist(), strict=True)]
    return dict(zip(names, places, strict=True))


EXPECTED = {"a b": ("train.csv", 2), "b c": ("train.csv", 4), "c a": ("train.csv", 6), "c b": ("test.csv", 3)}


def test_every_fact_has_its_file_and_line(kb: TemporalKB) -> None:
    assert told(kb) == EXPECTED


def test_they_stay_with_the_facts(kb: TemporalKB, tmp_path: Path) -> None:
    kb.save(tmp_path / "saved.kb")
    assert told(TemporalKB.load(tmp_path / "saved.kb")) == EXPECTED
    assert told(split_randomly(kb, 0.0, 0.3, 0)) == EXPECTED
    assert told(replace(kb, splits={"train": kb.facts[::-1]})) == EXPECTED


def test_facts_of_unknown_origin_beside_others(kb: TemporalKB, tmp_path: Path) -> None:
    added = Facts(*(column[:1] for column in kb.facts.columns))
    both = replace(kb, splits={"train": kb.facts + added})
    both.save(tmp_path / "both.kb")
    again = TemporalKB.load(tmp_path / "both.kb").facts
    assert again.source is not None
    assert again.source[-1] == -1
    assert (again.source[:-1] >= 0).all()


def test_a_folder_without_origins_loads(kb: TemporalKB, tmp_path: Path) -> None:
    """As those of earlier versions."""
    folder = tmp_path / "old.kb"
    replace(kb, files=()).save(folder)
    assert set(pl.read_parquet_schema(folder / "facts.parquet")) == {"s", "r", "o", "begin", "end", "split"}
    old = TemporalKB.load(folder)
    assert old.facts.source is None
    assert old == kb


@pytest.mark.parametrize(("column", "value"), [("file", 2), ("file", -1), ("line", -5)])
def test_a_place_that_does_not_exist_is_refused(kb: TemporalKB, tmp_path: Path, column: str, value: int) -> None:
    folder = tmp_path / "wrong.kb"
    kb.save(folder)
    facts = pl.read_parquet(folder / "facts.parquet")
    facts.with_columns(pl.lit(value, pl.Int32).alias(column)).write_parquet(folder / "facts.parquet")
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    manifest["sha256"]["facts.parquet"] = checksum(folder / "facts.parquet")
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))
    with pytest.raises(DamagedError, match="that there is not"):
        TemporalKB.load(folder)


def test_findings_say_it(tmp_path: Path) -> None:
    rows = [f"p{number},r,o{number % 7},{1950 + number % 30},{1952 + number % 30}" for number in range(100)]
    rows[40] = "p40,r,o5,1975,1960"
    (tmp_path / "facts.csv").write_text(HEAD + "\n".join(rows) + "\n")
    first = timeplex.audit(timeplex.read(tmp_path / "facts.csv")).frame.row(0, named=True)
    assert (Path(first["file"]).name, first["line"]) == ("facts.csv", 42)
    assert np.array(first["subject"]) == "p40"
