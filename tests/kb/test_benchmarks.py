"""The four benchmarks have the published numbers, and nothing else passes for them."""

import functools
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from timeplex.errors import DamagedError, DownloadError, InputError, UnknownNameError
from timeplex.kb import spans
from timeplex.kb.benchmarks import BENCHMARKS, Benchmark, Source, digest, load, locate
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import SPLITS, TemporalKB
from timeplex.kb.problems import Kind

DATA = Path(os.environ.get("TIMEPLEX_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


def need_data(name: str) -> Path:
    if not all((DATA / name / f"{split}.txt").is_file() for split in SPLITS):
        pytest.skip(f"{name} is not in {DATA}: set TIMEPLEX_DATA to a folder that has the benchmarks")
    return DATA


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


# --- finding and fetching ------------------------------------------------------------------------------

FACTS = {
    "train": b"Ada\tknows\tBo_7\t1990-##-##\t1995-##-##\nBo_7\tknows\tZo\xc3\xab\t1991-##-##\t####-##-##\n",
    "valid": b"Ada\tlikes\tZo\xc3\xab\t19##-##-##\t1999-01-02\n",
    "test": b"Zo\xc3\xab\tlikes\t1984\t2001-##-##\t2001-##-##\n",
}
NUMBERED = {
    "train": b"0\t0\t1\t1990-##-##\t1995-##-##\n1\t0\t2\t1991-##-##\t####-##-##\n",
    "valid": b"0\t1\t2\t19##-##-##\t1999-01-02\r\n",
    "test": b"2\t1\t3\t2001-##-##\t2001-##-##\n",
}
NAME_FIRST = {
    "entities.txt": b"<Ada>\t0\t1901-01-01\t####\n<Bo_7>\t1\n<Zo\xc3\xab>\t2\n<1984>\t3\n",
    "relations.txt": b"<knows>\t0\n<likes>\t1\n",
}
NUMBER_FIRST = {
    "entities.txt": b"0\tAda\r\n3\t1984\r\n1\tBo_7\textra\r\n2\tZo\xc3\xab\r\n",
    "relations.txt": b"1\t<likes>\n0\t<knows>\n",
}


def put(folder: Path, facts: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split, data in facts.items():
        (folder / f"{split}.txt").write_bytes(data)
    return folder


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    """A benchmark of four facts, whose source is nowhere; the cache is `tmp_path / "cache"`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TIMEPLEX_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    digests = {split: digest_of(data, tmp_path / "scratch") for split, data in FACTS.items()}
    facts = {"train": 2, "valid": 1, "test": 1}
    nowhere = Source("http://127.0.0.1:9/tiny", {split: f"{split}.txt" for split in SPLITS})
    benchmark = Benchmark("tiny", "Tiny", "", "", "", YEAR, facts, 4, 2, digests, nowhere)
    monkeypatch.setitem(BENCHMARKS, "tiny", benchmark)
    return benchmark


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "timeplex" / "data"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Be quiet."""


@dataclass(frozen=True)
class Site:
    """A folder that a server on this machine hands out."""

    folder: Path
    address: str


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "site"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield Site(folder, f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    server.server_close()
    thread.join()


def served(tiny: Benchmark, site: Site, ids: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the benchmark be fetched from the site, as numbers with id files or as names."""
    id_files = ("entities.txt", "relations.txt") if ids else (None, None)
    source = Source(site.address, {split: f"{split}.txt" for split in SPLITS}, *id_files)
    monkeypatch.setitem(BENCHMARKS, "tiny", replace(tiny, source=source))


@pytest.mark.usefixtures("tiny")
def test_folders_are_searched_in_order(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_dir, variable = tmp_path / "given", tmp_path / "variable"
    monkeypatch.setenv("TIMEPLEX_DATA", str(variable))
    folders = [put(place / "tiny", FACTS) for place in (given_dir, variable, cache)]
    for folder in folders:
        assert locate("tiny", given_dir, download=False) == folder
        (folder / "valid.txt").unlink()  # no longer complete: the next one is looked at
    with pytest.raises(InputError):
        locate("tiny", given_dir, download=False)


@pytest.mark.usefixtures("tiny")
def test_the_home_folder_has_the_cache_if_no_other_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    folder = put(tmp_path / "home" / ".cache" / "timeplex" / "data" / "tiny", FACTS)
    assert locate("tiny", download=False) == folder


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.usefixtures("tiny")
def test_a_damaged_file_names_itself(tmp_path: Path, split: str) -> None:
    folder = put(tmp_path / "tiny", FACTS)
    path = folder / f"{split}.txt"
    path.write_bytes(path.read_bytes().replace(b"##-##", b"#-###", 1))
    with pytest.raises(DamagedError) as caught:
        locate("tiny", tmp_path)
    assert str(path) in caught.value.problem
    assert "Delete it" in caught.value.hint


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.data())
def test_no_flipped_bit_goes_unseen(tiny: Benchmark, tmp_path: Path, data: st.DataObject) -> None:
    split = data.draw(st.sampled_from(SPLITS))
    bit = data.draw(st.integers(0, 8 * len(FACTS[split]) - 1))
    content = bytearray(FACTS[split])
    content[bit // 8] ^= 1 << bit % 8
    put(tmp_path / "flipped" / "tiny", FACTS | {split: bytes(content)})
    with pytest.raises(DamagedError, match=f"{split}.txt"):
        locate("tiny", tmp_path / "flipped")


def test_load_checks_the_counts(tiny: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "tiny", FACTS)
    assert len(load("tiny", tmp_path)) == 4
    wrong = [
        (replace(tiny, facts={**tiny.facts, "valid": 2}), "1 valid facts"),
        (replace(tiny, entities=5), "4 entities"),
        (replace(tiny, relations=1), "2 relations"),
    ]
    for benchmark, what in wrong:
        monkeypatch.setitem(BENCHMARKS, "tiny", benchmark)
        with pytest.raises(DamagedError, match=what):
            load("tiny", tmp_path)


@pytest.mark.parametrize("name", ["icews", "YAGO11K", "freebase", ""])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        locate(name)
    assert all(known in caught.value.hint for known in PUBLISHED)
    assert ("Did you mean 'yago11k'?" in caught.value.hint) == (name == "YAGO11K")


@pytest.mark.usefixtures("tiny")
def test_without_network_it_says_which_files_to_put_where(cache: Path) -> None:
    with pytest.raises(DownloadError) as caught:
        locate("tiny")
    text = str(caught.value)
    assert "127.0.0.1:9/tiny/train.txt cannot be fetched" in text
    assert f"put train.txt, valid.txt and test.txt into {cache / 'tiny'}" in text
    assert "TIMEPLEX_DATA" in text
    assert "\n" not in text
    assert not (cache / "tiny").exists()


@pytest.mark.usefixtures("tiny")
def test_without_download_it_says_which_files_to_put_where(cache: Path) -> None:
    with pytest.raises(InputError, match=r"train\.txt, valid\.txt and test\.txt"):
        locate("tiny", download=False)
    assert not cache.exists()


def test_a_benchmark_of_names_is_fetched_and_found_again(
    tiny: Benchmark, site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(site.folder, FACTS)
    served(tiny, site, ids=False, monkeypatch=monkeypatch)
    told: list[int] = []
    kb = load("tiny", progress=lambda done, total: told.append(done))
    assert len(kb) == 4
    assert told == [len(FACTS[split]) for split in SPLITS]
    assert {path.name: path.read_bytes() for path in (cache / "tiny").iterdir()} == {
        f"{split}.txt": data for split, data in FACTS.items()
    }
    assert [path.name for path in cache.iterdir()] == ["tiny"], "the folder of the download was left behind"
    shutil.rmtree(site.folder)
    assert locate("tiny") == cache / "tiny"


@pytest.mark.parametrize("id_files", [NAME_FIRST, NUMBER_FIRST], ids=["name first", "number first"])
def test_numbers_are_decoded_whichever_column_they_are_in(
    tiny: Benchmark, site: Site, monkeypatch: pytest.MonkeyPatch, id_files: dict[str, bytes]
) -> None:
    put(site.folder, NUMBERED)
    for file, data in id_files.items():
        (site.folder / file).write_bytes(data)
    served(tiny, site, ids=True, monkeypatch=monkeypatch)
    folder = locate("tiny")
    assert {split: (folder / f"{split}.txt").read_bytes() for split in SPLITS} == FACTS


@pytest.mark.parametrize(
    ("file", "content", "what"),
    [
        ("entities.txt", b"<Ada>\tzero\n", "not a list of names and numbers"),
        ("entities.txt", b"<Ada>\t0\n<Bo_7>\t1\n<Zoe>\t2\n<1984>\t3\n", "does not hold the train facts"),
        ("relations.txt", b"<knows>\t0\n", "not a known fact"),
        ("train.txt", b"0\t0\n", "not a known fact"),
        ("test.txt", b"2\t1\t3\t2001-##-##\t2002-##-##\n", "does not hold the test facts"),
    ],
)
def test_a_download_that_decodes_to_something_else_is_refused(
    tiny: Benchmark,
    site: Site,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    content: bytes,
    what: str,
) -> None:
    put(site.folder, NUMBERED)
    for each, data in (NAME_FIRST | {file: content}).items():
        (site.folder / each).write_bytes(data)
    served(tiny, site, ids=True, monkeypatch=monkeypatch)
    with pytest.raises(DownloadError, match=what) as caught:
        locate("tiny")
    assert "put train.txt, valid.txt and test.txt into" in caught.value.hint
    assert list(cache.iterdir()) == [], "wrong files were kept, or would be found by the next call"


def test_a_download_goes_on_where_it_stopped(
    tiny: Benchmark, site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(site.folder, {split: data for split, data in FACTS.items() if split != "test"})
    served(tiny, site, ids=False, monkeypatch=monkeypatch)
    with pytest.raises(DownloadError, match=r"test\.txt cannot be fetched: the server answers 404"):
        locate("tiny")
    assert not (cache / "tiny").exists()
    put(site.folder, {"test": FACTS["test"]})
    for split in ("train", "valid"):
        (site.folder / f"{split}.txt").unlink()  # to see that they are not asked for again
    assert locate("tiny") == cache / "tiny"


def test_a_download_completes_a_folder_and_keeps_what_else_is_in_it(
    tiny: Benchmark, site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(site.folder, FACTS)
    served(tiny, site, ids=False, monkeypatch=monkeypatch)
    folder = put(cache / "tiny", {"train": b"half of it"})
    (folder / "entity_labels.tsv").write_text("Ada\tAda Lovelace\n")
    kb = load("tiny")
    assert kb.entities.label(kb.entities.id("Ada")) == "Ada Lovelace"
    assert (folder / "train.txt").read_bytes() == FACTS["train"]
