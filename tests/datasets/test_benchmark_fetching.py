"""Benchmarks are found where they may lie, fetched where they do not, and never taken for what they are not."""

import functools
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from timeplex.datasets.benchmarks import BENCHMARKS, Benchmark, Source, digest, load, locate
from timeplex.errors import DamagedError, DownloadError, InputError, UnknownNameError
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import SPLITS

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
    written = put(tmp_path / "scratch", FACTS)
    digests = {split: digest(written / f"{split}.txt") for split in SPLITS}
    facts = {"train": 2, "valid": 1, "test": 1}
    nowhere = Source("http://127.0.0.1:9/tiny", {split: f"{split}.txt" for split in SPLITS})
    benchmark = Benchmark("tiny", "Tiny", "", "", "", Granularity.YEAR, facts, 4, 2, digests, nowhere)
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
    assert all(known in caught.value.hint for known in BENCHMARKS)
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
