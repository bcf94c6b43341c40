"""The four benchmarks of the paper: what they hold, where they come from, and loading them checked.

The numbers below are counted from the files. The table of data sets in the paper (Jain et al., EMNLP 2020,
appendix) has slips, so that a number which differs from it is no mistake here:

- YAGO11k: valid and test are swapped (2,050 and 2,051 are right), and 10,622 entities are printed for 10,623.
- ICEWS14: 8,943 test facts are printed for 8,963.
- "#Instants" 251 (YAGO11k) and 237 (WIKIDATA12k) are not the distinct years in the files (396 and 618).

A folder of facts counts as right by its `digest`, which does not depend on the order of the lines: the
public copies of one benchmark have the same facts in different orders.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from timeplex.datasets.download import fetch
from timeplex.errors import DamagedError, DownloadError, InputError, UnknownNameError
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import SPLITS, TemporalKB
from timeplex.kb.readers import read_folder
from timeplex.text import did_you_mean
from timeplex.typing import Progress


@dataclass(frozen=True)
class Source:
    """Where the files are: `<base>/<file>` for each split.

    With `entity_ids` and `relation_ids` the facts are numbers, which these files translate into names.
    """

    base: str
    files: Mapping[str, str]
    entity_ids: str | None = None
    relation_ids: str | None = None

    @property
    def all_files(self) -> list[str]:
        """Every file that has to be fetched."""
        return [*self.files.values(), *(file for file in (self.entity_ids, self.relation_ids) if file)]


@dataclass(frozen=True)
class Benchmark:
    """A published data set: its numbers, the digest of each split, and its source."""

    name: str
    title: str
    description: str
    citation: str
    terms: str
    granularity: Granularity
    facts: Mapping[str, int]
    entities: int
    relations: int
    digests: Mapping[str, str]
    source: Source


_HYTE = "Dasgupta, Ray and Talukdar: HyTE, EMNLP 2018"
_ICEWS = "García-Durán, Dumančić and Niepert: Learning Sequence Encoders for Temporal KGs, EMNLP 2018"
_ICEWS_TERMS = "Events of ICEWS (doi:10.7910/DVN/28075, whose terms apply); files of nle-ml/mmkb (BSD-3-Clause)"
_ATISE = "https://raw.githubusercontent.com/soledad921/ATISE/711e2136e10b54acbdd7a69ad7822837ce5c44c8"
_MMKB = "https://raw.githubusercontent.com/nle-ml/mmkb/dc1c89cac110ddbb9944d6ed5ab2b3c2339d320c/TemporalKGs"


def _numbered(folder: str) -> Source:
    files = {split: f"{split}.txt" for split in SPLITS}
    return Source(f"{_ATISE}/{folder}", files, "entity2id.txt", "relation2id.txt")


def _named(folder: str, stem: str) -> Source:
    return Source(f"{_MMKB}/{folder}", {split: f"{stem}_{split}.txt" for split in SPLITS})


_ALL = (
    Benchmark(
        name="yago11k",
        title="YAGO11k",
        description="Lives and careers from YAGO3 with spans of years; 44 % of the ends are not stated.",
        citation=_HYTE,
        terms="Facts of YAGO3 (Creative Commons Attribution); files of soledad921/ATISE (MIT)",
        granularity=Granularity.YEAR,
        facts={"train": 16_408, "valid": 2_050, "test": 2_051},
        entities=10_623,
        relations=10,
        digests={
            "train": "893ed9b881de7f4f74dacebcacd6a01d6aef0cf871d00d6ec16fe0857d7da3a9",
            "valid": "1c5b60dd0e8d1a31dd6c3e0df7c54c69d7832c915c2e9ca95d56550471ae7844",
            "test": "7c95398169bb101d752b56efc8f56f6e21be8811c214bd51aaa16700200ad872",
        },
        source=_numbered("yago"),
    ),
    Benchmark(
        name="wikidata12k",
        title="WIKIDATA12k",
        description="Memberships, awards and positions from Wikidata with spans of years; triples recur.",
        citation=_HYTE,
        terms="Facts of Wikidata (CC0); files of soledad921/ATISE (MIT)",
        granularity=Granularity.YEAR,
        facts={"train": 32_497, "valid": 4_062, "test": 4_062},
        entities=12_554,
        relations=24,
        digests={
            "train": "d7489ed0dc772628e38bc0b300e678f7273e60f996d64f2966e0d92057bd773e",
            "valid": "d18f8ac12dc607c05f1296dfa05562d289fdd4f6033d9f0c164819f84a7ffe0a",
            "test": "d6574d02abce8dd2678dbb48ea2a91b6ccf8fbde7b7778f9cf5dd8790d0ef00c",
        },
        source=_numbered("wikidata"),
    ),
    Benchmark(
        name="icews14",
        title="ICEWS14",
        description="Political events of the year 2014, each on one day.",
        citation=_ICEWS,
        terms=_ICEWS_TERMS,
        granularity=Granularity.DAY,
        facts={"train": 72_826, "valid": 8_941, "test": 8_963},
        entities=7_128,
        relations=230,
        digests={
            "train": "29bca527a730e4bb02838bda1399fa6d92878d56dd3e58773083289759b43f56",
            "valid": "c8f7800f8f1eb13b27d609764eef800f3ac97865d37a52700a9160974f0b4dd4",
            "test": "34142e01aa50dd880b2fe97e54549b377e44af319a894bea07e007ff5f0e053a",
        },
        source=_named("icews14", "icews_2014"),
    ),
    Benchmark(
        name="icews05-15",
        title="ICEWS05-15",
        description="Political events of the years 2005 to 2015, each on one day.",
        citation=_ICEWS,
        terms=_ICEWS_TERMS,
        granularity=Granularity.DAY,
        facts={"train": 368_962, "valid": 46_275, "test": 46_092},
        entities=10_488,
        relations=251,
        digests={
            "train": "96b45f8e49a80142c16da7e93dc3da60268a47b09f8c4164e4d48932969e46d1",
            "valid": "f2dbb69941a6ba0258375eea5977874433a8ef638badea9a8a50038490760588",
            "test": "89bbd83d38bd70090525e958d74db6f27a2815c987e602a8c4b7d3024f5c2060",
        },
        source=_named("icews05-15", "icews_2005-2015"),
    ),
)

BYTES_A_FACT = 1_000
"""No file of a benchmark is larger than this for each of its facts; they take about a tenth of it."""

BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for benchmark in _ALL}
"""The benchmarks by name."""


def load(name: str, data_dir: Path | None = None, progress: Progress | None = None) -> TemporalKB:
    """The KB of a benchmark, downloaded if it is not on this machine; see `locate`."""
    benchmark = find(name)
    folder = locate(name, data_dir, progress=progress)
    kb = read_folder(folder, granularity=benchmark.granularity, name=name)
    counts = [(f"{split} facts", len(kb.splits[split]), number) for split, number in benchmark.facts.items()]
    counts += [("entities", len(kb.entities), benchmark.entities)]
    counts += [("relations", len(kb.relations), benchmark.relations)]
    for what, found, right in counts:
        if found != right:
            raise DamagedError(
                f"{folder} has {found:,} {what}, but {benchmark.title} has {right:,}.",
                "The files are right, so their reader is not: please report it.",
            )
    return kb


def find(name: str) -> Benchmark:
    """The benchmark of that name; an unknown name is an error that lists the known ones."""
    if name not in BENCHMARKS:
        hint = f"{did_you_mean(name.lower(), BENCHMARKS)} Known are {', '.join(BENCHMARKS)}.".lstrip()
        raise UnknownNameError(f"There is no benchmark {name!r}.", hint)
    return BENCHMARKS[name]


def locate(name: str, data_dir: Path | None = None, download: bool = True, progress: Progress | None = None) -> Path:
    """The folder of a benchmark with train.txt, valid.txt and test.txt, each checked by its digest.

    It is looked for as `<name>` in `data_dir`, in `$TIMEPLEX_DATA` and in the user's cache, and downloaded
    into the cache if it is in none of them (unless `download` is false).
    """
    benchmark = find(name)
    folder = folder_of(name, data_dir)
    if folder is not None:
        wrong = _wrong_split(benchmark, folder)
        if wrong is None:
            return folder
        raise DamagedError(
            f"{folder / file_of(wrong)} does not hold the {wrong} facts of {benchmark.title}.",
            "Delete it, or replace it with the right file, and run the command again.",
        )
    by_hand = (
        f"put train.txt, valid.txt and test.txt into {cache_folder() / name}, "
        f"or set TIMEPLEX_DATA to a folder whose subfolder {name} has them."
    )
    if not download:
        raise InputError(f"{benchmark.title} is not on this machine.", f"Allow its download, or {by_hand}")
    try:
        return _download(benchmark, cache_folder() / name, progress)
    except DownloadError as error:
        raise DownloadError(error.problem, f"{error.hint} You can also {by_hand}".strip()) from error


def folder_of(name: str, data_dir: Path | None = None) -> Path | None:
    """The first folder that has the three files of a benchmark, not yet checked; None if there is none."""
    for data in _data_folders(data_dir):
        if all((data / name / file_of(split)).is_file() for split in SPLITS):
            return data / name
    return None


def file_of(split: str) -> str:
    """The file that holds a split."""
    return f"{split}.txt"


def cache_folder() -> Path:
    """Where downloads are kept: `$XDG_CACHE_HOME` or `~/.cache`, and in it `timeplex/data`."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if given and Path(given).is_absolute():  # a relative path is to be ignored, says the XDG specification
        return Path(given) / "timeplex" / "data"
    try:
        return Path.home() / ".cache" / "timeplex" / "data"
    except RuntimeError as error:
        raise InputError("The home folder is not known.", "Set XDG_CACHE_HOME to a folder for downloads.") from error


def _data_folders(data_dir: Path | None) -> list[Path]:
    """The folders that may hold benchmarks, in the order in which they are looked at."""
    given = [data_dir] if data_dir is not None else []
    variable = os.environ.get("TIMEPLEX_DATA", "")
    return [*given, *([Path(variable)] if variable else []), cache_folder()]


def digest(path: Path) -> str:
    """SHA-256 of the facts of a file in sorted order, each followed by a line feed.

    Lines are compared as bytes; what ends them (LF or CR LF) and blank lines do not count.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    lines = data.split(b"\n")
    if b"\r" in data:
        lines = [line.removesuffix(b"\r") for line in lines]
    facts = [line for line in lines if line]
    facts.sort()
    facts.append(b"")  # so that the last fact, too, is followed by a line feed
    return hashlib.sha256(b"\n".join(facts)).hexdigest()


def _wrong_split(benchmark: Benchmark, folder: Path) -> str | None:
    """The first split whose file does not have the right digest, if there is one."""
    wrong = (split for split in SPLITS if digest(folder / file_of(split)) != benchmark.digests[split])
    return next(wrong, None)


def _download(benchmark: Benchmark, folder: Path, progress: Progress | None) -> Path:
    """Fetch a benchmark into `folder`. Nothing gets there before all of it is verified.

    The work is done in a folder beside it, which stays when a transfer is cut off: the next call goes on.
    """
    work = folder.with_name(f".{folder.name}.download")
    source = benchmark.source
    for file in source.all_files:
        if not (work / file).is_file():
            most = BYTES_A_FACT * max(1_000, sum(benchmark.facts.values()))
            fetch(f"{source.base}/{file}", work / file, progress=progress, most=most)
    try:
        ready = _prepare(source, work)
        wrong = _wrong_split(benchmark, ready)
        if wrong is not None:
            address = f"{source.base}/{source.files[wrong]}"
            raise DownloadError(f"{address} does not hold the {wrong} facts of {benchmark.title}.")
        _put(ready, folder)
    except OSError as error:
        hint = "Check the folder's permissions and the free space."
        raise DownloadError(f"{folder} cannot be written: {error.strerror}.", hint) from error
    finally:
        # Also after a failure: the next call is to fetch anew, not to find the same wrong files again.
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _prepare(source: Source, work: Path) -> Path:
    """A folder with train.txt, valid.txt and test.txt, made from the fetched files."""
    ready = work / "ready"
    ready.mkdir(exist_ok=True)
    entities = _names(work / source.entity_ids) if source.entity_ids else None
    relations = _names(work / source.relation_ids) if source.relation_ids else None
    for split, file in source.files.items():
        if entities is None or relations is None:
            (work / file).replace(ready / file_of(split))
            continue
        with (ready / file_of(split)).open("wb") as target:
            target.write(_decode(work / file, entities, relations))
            target.flush()
            os.fsync(target.fileno())
    return ready


def _put(ready: Path, folder: Path) -> None:
    """Give the finished folder its final name, all at once where there is no such folder yet."""
    try:
        ready.rename(folder)
    except OSError:
        # The folder is there, but not complete. Other files in it, such as labels, stay.
        for split in SPLITS:
            (ready / file_of(split)).replace(folder / file_of(split))


def _names(path: Path) -> dict[bytes, bytes]:
    """Number → name, from lines `name, number` or `number, name`; further columns are passed over.

    The enclosing `<` and `>` of YAGO's names are dropped.
    """
    rows = [line.rstrip(b"\r").split(b"\t") for line in path.read_bytes().split(b"\n") if b"\t" in line]
    # The column of numbers decides for the file as a whole: a single name may well be a number, too.
    at = next((at for at in (1, 0) if all(row[at].isdigit() for row in rows)), None)
    if at is None:
        raise DownloadError(f"{path.name} of the download is not a list of names and numbers.")
    return {row[at]: _bare(row[1 - at]) for row in rows}


def _bare(name: bytes) -> bytes:
    return name[1:-1] if name.startswith(b"<") and name.endswith(b">") else name


def _decode(path: Path, entities: dict[bytes, bytes], relations: dict[bytes, bytes]) -> bytes:
    """The facts of a file with names in place of numbers; dates stay as they are."""
    facts = []
    for line in path.read_bytes().split(b"\n"):
        columns = line.rstrip(b"\r").split(b"\t")
        if columns == [b""]:
            continue
        try:
            s, r, o, *dates = columns
            facts.append(b"\t".join((entities[s], relations[r], entities[o], *dates)) + b"\n")
        except (ValueError, KeyError) as error:
            raise DownloadError(f"{path.name} of the download has a line that is not a known fact.") from error
    return b"".join(facts)
