"""One way in: everything that `read` takes, and how it refuses the rest."""

import gzip
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.benchmark_data import need_data
from tests.kb.random_kbs import kb_of, named

from timeplex.datasets import benchmarks
from timeplex.errors import DownloadError, InputError, TimeplexError, UnknownNameError
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import SPLITS, TemporalKB
from timeplex.kb.spans import OPEN_BEGIN, OPEN_END
from timeplex.sources import read

TABLE = {
    "person": ["Ada", "Ada", "Zoë"],
    "what": ["bornIn", "worksFor", "worksFor"],
    "where": ["London", "Babbage", "Babbage"],
    "start": ["1815", "1833", None],
    "end": ["1815", None, "1850"],
}
COLUMNS = {"relation": "what", "object": "where"}
FACTS = [
    ("Ada", "bornIn", "London", 1815, 1815),
    ("Ada", "worksFor", "Babbage", 1833, OPEN_END),
    ("Zoë", "worksFor", "Babbage", OPEN_BEGIN, 1850),
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, with no benchmark in reach and no way to the network."""

    def offline(*arguments: Any, **named: Any) -> None:
        raise DownloadError("There is no network in tests.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIMEPLEX_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(benchmarks, "fetch", offline)
    monkeypatch.setattr(benchmarks, "fetch", offline)
    return tmp_path


def labels_file() -> Path:
    Path("labels.tsv").write_text("Ada\tAda Lovelace\nnobody\tNobody\n")
    return Path("labels.tsv")


def label(kb: TemporalKB, name: str) -> str:
    return kb.entities.label(kb.entities.id(name))


# What it takes


def test_files_by_suffix() -> None:
    frame = pl.DataFrame(TABLE)
    frame.write_csv("facts.csv")
    frame.write_csv("facts.tsv", separator="\t")
    frame.write_ndjson("facts.jsonl")
    frame.write_parquet("facts.parquet")
    Path("facts.csv.gz").write_bytes(gzip.compress(Path("facts.csv").read_bytes()))
    for suffix in ("csv", "tsv", "jsonl", "parquet", "csv.gz"):
        for path in (f"facts.{suffix}", Path(f"facts.{suffix}")):
            kb = read(path, **COLUMNS)
            assert named(kb) == {"train": FACTS}
            assert (kb.name, kb.granularity) == ("facts", Granularity.YEAR)


def test_text_without_a_header() -> None:
    Path("facts.txt").write_text("Ada\tbornIn\tLondon\t1815-##-##\t1815-##-##\n")
    assert named(read("facts.txt")) == {"train": FACTS[:1]}


def test_several_files_are_one_kb() -> None:
    frame = pl.DataFrame(TABLE)
    frame[:2].write_csv("one.csv")
    frame[2:].write_csv("two.csv")
    for files in (["one.csv", "two.csv"], (Path("one.csv"), Path("two.csv")), ["one.csv", "two.csv", "one.csv"]):
        kb = read(files, labels=labels_file(), **COLUMNS)
        assert named(kb) == {"train": FACTS}
        assert kb.name == "one"
        assert label(kb, "Ada") == "Ada Lovelace"


def test_data_frames() -> None:
    frame = pl.DataFrame(TABLE)
    pandas = pytest.importorskip("pandas")
    for table in (frame, pandas.DataFrame(TABLE), frame.to_arrow()):
        kb = read(table, **COLUMNS)
        assert named(kb) == {"train": FACTS}
        assert (kb.name, label(kb, "Ada")) == ("table", "Ada")
        labelled = read(table, labels=labels_file(), **COLUMNS)
        assert (label(labelled, "Ada"), label(labelled, "Zoë")) == ("Ada Lovelace", "Zoë")
        assert labelled.entities.labels == {"Ada": "Ada Lovelace"}


def test_columns_and_granularity() -> None:
    kb = read(pl.DataFrame(TABLE), relation="=knows", object="where", granularity="month")
    assert [*kb.relations] == ["knows"]
    assert kb.granularity is Granularity.MONTH
    assert kb.to_polars()["begin"].to_list() == ["1815-01", "1833-01", None]
    assert kb.to_polars()["end"].to_list() == ["1815-12", None, "1850-12"]
    assert read(pl.DataFrame(TABLE), **COLUMNS, granularity=Granularity.DAY).granularity is Granularity.DAY


def test_an_encoding() -> None:
    Path("facts.txt").write_bytes("Zoë\tworksFor\tBabbage\t\t1850\n".encode("cp1252"))
    assert named(read("facts.txt", encoding="cp1252")) == {"train": FACTS[2:]}


def splits_folder(folder: str = "careers") -> Path:
    """Train and test as text, and labels for both sorts of names."""
    Path(folder).mkdir()
    for split, facts in (("train", FACTS[:2]), ("test", FACTS[2:])):
        rows = [
            (s, r, o, "####" if begin == OPEN_BEGIN else begin, "####" if end == OPEN_END else end)
            for s, r, o, begin, end in facts
        ]
        Path(folder, f"{split}.txt").write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    Path(folder, "entity_labels.tsv").write_text("Zoë\tZoë Doe\nAda\tA.\n")
    Path(folder, "relation_labels.tsv").write_text("bornIn\twas born in\n")
    return Path(folder)


def test_a_folder_with_splits_and_labels() -> None:
    kb = read(splits_folder())
    assert named(kb) == {"train": FACTS[:2], "test": FACTS[2:]}
    assert kb.name == "careers"
    assert (label(kb, "Zoë"), label(kb, "Ada")) == ("Zoë Doe", "A.")
    assert kb.relations.labels == {"bornIn": "was born in"}


def test_labels_that_are_given_come_before_those_of_the_folder() -> None:
    kb = read(splits_folder(), labels=labels_file())
    assert (label(kb, "Zoë"), label(kb, "Ada")) == ("Zoë Doe", "Ada Lovelace")


def test_a_kb_folder() -> None:
    kb = kb_of({"train": [(0, 0, 1, 5, 6)], "test": [(1, 0, 1, 7, OPEN_END)]})
    kb.save("some.kb")
    for source in ("some.kb", Path("some.kb"), Path("some.kb").absolute(), "./some.kb"):
        assert read(source) == kb


def test_the_sample() -> None:
    kb = read("sample")
    assert (kb.name, kb.granularity) == ("sample", Granularity.YEAR)
    assert [*kb.splits] == [*SPLITS]
    assert len(kb.valid) == len(kb.test) == pytest.approx(len(kb) / 10, abs=1)
    assert read("sample") == kb
    assert kb.problems.set_aside == 0
    known = set(kb.train.s.tolist()) | set(kb.train.o.tolist())
    assert {*kb.valid.s.tolist(), *kb.valid.o.tolist(), *kb.test.s.tolist(), *kb.test.o.tolist()} <= known


def test_a_benchmark_in_a_folder_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = need_data("yago11k")
    for data_dir in (folder, str(folder)):
        assert len(read("yago11k", data_dir=data_dir)) == 20_509
    monkeypatch.setenv("TIMEPLEX_DATA", str(folder))
    assert read("yago11k").name == "yago11k"


def test_a_benchmark_that_is_nowhere() -> None:
    with pytest.raises(DownloadError, match="no network") as caught:
        read("yago11k", data_dir="nowhere")
    assert "TIMEPLEX_DATA" in caught.value.hint


def test_a_name_comes_before_a_folder_of_that_name() -> None:
    splits_folder("sample")
    assert len(read("sample")) > 1000
    for source in ("./sample", Path("sample")):
        assert len(read(source)) == 3


# What it refuses


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("yago11", "Did you mean 'yago11k'?"),
        ("ICEWS14", "Did you mean 'icews14'?"),
        ("sampel", "Did you mean 'sample'?"),
        ("no such file.csv", "Known names are yago11k, wikidata12k, icews14, icews05-15, sample."),
        ("", "Known names are"),
        ("x" * 5000, "Known names are"),
        ("a\0b", "Known names are"),
    ],
)
def test_an_unknown_name(source: str, hint: str) -> None:
    Path("train.txt").write_text("a\tr\tb\n")  # so that the current folder could be read, if it were asked for
    with pytest.raises(UnknownNameError, match="neither a known KB nor a path that exists") as caught:
        read(source)
    assert hint in caught.value.hint


def test_a_folder_without_facts() -> None:
    Path("folder").mkdir()
    Path("folder", "notes.md").write_text("no facts")
    with pytest.raises(InputError, match="neither a KB nor a train file") as caught:
        read("folder")
    assert "train.txt" in caught.value.hint


@pytest.mark.parametrize(
    "option", [{"subject": "who"}, {"granularity": "day"}, {"labels": "l"}, {"encoding": "cp1252"}]
)
@pytest.mark.parametrize("source", ["some.kb", "sample", "yago11k"])
def test_what_is_a_kb_already_takes_no_options_of_files(source: str, option: dict[str, str]) -> None:
    kb_of([(0, 0, 1, 5, 6)]).save("some.kb")
    with pytest.raises(InputError, match=f"{source} is a KB already"):
        read(source, **option)


def test_an_encoding_that_would_not_be_used_is_refused() -> None:
    with pytest.raises(InputError, match="Encoding, sheet, format and max_unpacked are for files"):
        read(pl.DataFrame(TABLE), encoding="cp1252", **COLUMNS)
    with pytest.raises(InputError, match="read as they are"):
        read(splits_folder(), encoding="cp1252")


def test_a_granularity_that_is_none() -> None:
    with pytest.raises(InputError, match="'week' is not a granularity") as caught:
        read(pl.DataFrame(TABLE), granularity="week")
    assert caught.value.hint == "Use year, month or day."


@pytest.mark.parametrize("source", [[], (), 7, None, object(), [1, 2], [pl.DataFrame(TABLE)], b"facts.csv", {"a": 1}])
def test_what_is_no_source_at_all(source: Any) -> None:
    with pytest.raises(InputError) as caught:
        read(source)
    assert caught.value.hint


def test_files_that_are_not_there() -> None:
    pl.DataFrame(TABLE).write_csv("facts.csv")
    with pytest.raises(InputError, match=r"missing\.csv does not exist"):
        read(["facts.csv", "missing.csv"], **COLUMNS)
    for labels in ("missing.tsv", Path("missing.tsv")):
        for source in ("facts.csv", ["facts.csv"], pl.DataFrame(TABLE)):
            with pytest.raises(InputError, match=r"missing\.tsv does not exist"):
                read(source, labels=labels, **COLUMNS)


def test_a_path_that_may_not_be_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    Path("folder").mkdir()
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(InputError, match="folder cannot be read: Permission denied"):
        read("folder")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_locked_folder() -> None:
    splits_folder().chmod(0)
    with pytest.raises(TimeplexError, match="Permission denied"):
        read("careers")
