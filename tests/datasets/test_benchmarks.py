"""The four benchmarks have the published numbers, and nothing else passes for them."""

import functools
import hashlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.benchmark_data import DATA, need_data

from timeplex.datasets.benchmarks import BENCHMARKS, digest, load, locate
from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import SPLITS, TemporalKB
from timeplex.kb.problems import Kind


@functools.cache
def loaded(name: str) -> TemporalKB:
    return load(name, need_data(name))


# --- the published numbers -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Published:
    """What the README beside the data says; triples are train, valid, test."""

    facts: tuple[int, int, int]
    entities: int
    entities_in_train: int
    relations: int
    begins_not_stated: tuple[int, int, int]
    ends_not_stated: tuple[int, int, int]
    reversed: tuple[int, int, int]
    unseen: tuple[int, int, int]
    granularity: Granularity


NONE = (0, 0, 0)
YEAR, DAY = Granularity.YEAR, Granularity.DAY
PUBLISHED = {
    "yago11k": Published(
        facts=(16_408, 2_050, 2_051),
        entities=10_623,
        entities_in_train=10_618,
        relations=10,
        begins_not_stated=NONE,
        ends_not_stated=(7_395, 809, 793),
        reversed=(63, 6, 1),
        unseen=(0, 10, 5),
        granularity=YEAR,
    ),
    "wikidata12k": Published(
        facts=(32_497, 4_062, 4_062),
        entities=12_554,
        entities_in_train=12_544,
        relations=24,
        begins_not_stated=(1_273, 76, 56),
        ends_not_stated=(4_089, 322, 324),
        reversed=(7, 0, 3),
        unseen=(0, 11, 19),
        granularity=YEAR,
    ),
    "icews14": Published(
        facts=(72_826, 8_941, 8_963),
        entities=7_128,
        entities_in_train=6_869,
        relations=230,
        begins_not_stated=NONE,
        ends_not_stated=NONE,
        reversed=NONE,
        unseen=(0, 152, 146),
        granularity=DAY,
    ),
    "icews05-15": Published(
        facts=(368_962, 46_275, 46_092),
        entities=10_488,
        entities_in_train=10_094,
        relations=251,
        begins_not_stated=NONE,
        ends_not_stated=NONE,
        reversed=NONE,
        unseen=(0, 219, 234),
        granularity=DAY,
    ),
}


def of_split(problems: pl.DataFrame, split: str) -> int:
    return problems.filter(pl.col("file").str.ends_with(f"{split}.txt")).height


def not_stated(kb: TemporalKB, split: str, field: str) -> int:
    """Open ends of a split, without those that are open because the stated date says too little."""
    begins, ends = spans.is_open(kb.splits[split].span)
    unclear = [kb.problems.of(kind, field) for kind in (Kind.UNKNOWN_YEAR, Kind.UNREADABLE_DATE)]
    return int((begins if field == "begin" else ends).sum()) - of_split(pl.concat(unclear), split)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_benchmark_has_the_published_numbers(name: str) -> None:
    kb, published = loaded(name), PUBLISHED[name]
    assert kb.name == name
    assert kb.granularity == published.granularity
    assert tuple(len(kb.splits[split]) for split in SPLITS) == published.facts
    assert (len(kb.entities), len(kb.relations)) == (published.entities, published.relations)
    assert tuple(not_stated(kb, split, "begin") for split in SPLITS) == published.begins_not_stated
    assert tuple(not_stated(kb, split, "end") for split in SPLITS) == published.ends_not_stated
    turned = kb.problems.of(Kind.BEGIN_AFTER_END)
    assert tuple(of_split(turned, split) for split in SPLITS) == published.reversed
    assert kb.problems.set_aside == 0


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_benchmark_has_the_published_number_of_unseen_entities(name: str) -> None:
    kb, published = loaded(name), PUBLISHED[name]
    seen = np.unique(np.concatenate([kb.train.s, kb.train.o]))
    assert len(seen) == published.entities_in_train
    facts = [kb.splits[split] for split in SPLITS]
    unseen = tuple(int((~np.isin(each.s, seen) | ~np.isin(each.o, seen)).sum()) for each in facts)
    assert unseen == published.unseen


@pytest.mark.parametrize(("name", "days"), [("icews14", 365), ("icews05-15", 4_017)])
def test_icews_has_an_event_on_every_day(name: str, days: int) -> None:
    kb = loaded(name)
    assert len(kb.timeline("observed")) == len(kb.timeline("calendar")) == days
    assert (kb.facts.begin == kb.facts.end).all()


def test_yago_dates_that_say_too_little_are_kept_and_told() -> None:
    problems = loaded("yago11k").problems
    assert len(problems.of(Kind.UNKNOWN_YEAR)) == 16
    assert len(problems.of(Kind.UNREADABLE_DATE)) == 2


def test_wikidata_has_labels() -> None:
    kb = loaded("wikidata12k")
    if not (DATA / "wikidata12k" / "relation_labels.tsv").is_file():
        pytest.skip("the labels of WIKIDATA12k are optional and not here")
    assert kb.relations.label(kb.relations.id("P54")) == "member of sports team"


def test_the_registry_agrees_with_the_published_numbers() -> None:
    assert set(BENCHMARKS) == set(PUBLISHED)
    for name, benchmark in BENCHMARKS.items():
        assert benchmark.name == name
        assert tuple(benchmark.facts[split] for split in SPLITS) == PUBLISHED[name].facts
        assert benchmark.citation
        assert benchmark.terms
        assert all(file.endswith(".txt") for file in benchmark.source.all_files)
        assert benchmark.source.base.startswith("https://")


def test_verifying_the_largest_benchmark_is_quick() -> None:
    need_data("icews05-15")
    times = []
    for _ in range(2):
        start = time.perf_counter()
        locate("icews05-15", DATA, download=False)
        times.append(time.perf_counter() - start)
    assert min(times) < 2  # about 0.4 s when the machine is idle


# --- the digest ----------------------------------------------------------------------------------------

lines = st.binary(max_size=12).filter(lambda line: b"\n" not in line and b"\r" not in line)
files = st.lists(lines, max_size=12)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("digest") / "file.txt"


def digest_of(data: bytes, path: Path) -> str:
    path.write_bytes(data)
    return digest(path)


def test_the_digest_by_hand(scratch: Path) -> None:
    assert digest_of(b"b\tx\na\ty\n", scratch) == hashlib.sha256(b"a\ty\nb\tx\n").hexdigest()
    assert digest_of(b"", scratch) == hashlib.sha256(b"").hexdigest()


@given(files, st.randoms(use_true_random=False), st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
def test_the_digest_does_not_depend_on_the_order_of_lines(
    scratch: Path, facts: list[bytes], random: Any, line_end: bytes
) -> None:
    shuffled = list(facts)
    random.shuffle(shuffled)
    before = digest_of(b"\n".join(facts), scratch)
    assert digest_of(line_end.join(shuffled) + line_end, scratch) == before


@given(files.filter(any), st.data())
def test_the_digest_changes_with_one_byte(scratch: Path, facts: list[bytes], data: st.DataObject) -> None:
    at = data.draw(st.sampled_from([number for number, fact in enumerate(facts) if fact]))
    where = data.draw(st.integers(0, len(facts[at]) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte not in (facts[at][where], 10, 13)))
    changed = list(facts)
    changed[at] = facts[at][:where] + bytes([other]) + facts[at][where + 1 :]
    assert digest_of(b"\n".join(changed), scratch) != digest_of(b"\n".join(facts), scratch)


@given(files.filter(any))
def test_the_digest_tells_a_repeated_and_a_missing_line(scratch: Path, facts: list[bytes]) -> None:
    fact = next(fact for fact in facts if fact)
    before = digest_of(b"\n".join(facts), scratch)
    assert digest_of(b"\n".join([*facts, fact]), scratch) != before
    facts.remove(fact)
    assert digest_of(b"\n".join(facts), scratch) != before
