"""Consistency of the shipped sample KB (src/timeplex/datasets/sample/*.tsv).

Plain reading with the csv module: the facts are checked against each other
(lives against offices, marriages, prizes, elections) and against what is
known of recurring events, without any timeplex code in between.
"""

import csv
import itertools
import re
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

SAMPLE = Path(__file__).resolve().parents[2] / "src" / "timeplex" / "datasets" / "sample"
HEADER = ["subject", "relation", "object", "begin", "end"]
NOW = 2024  # the sample states what held at the end of this year
RELATIONS = {
    "headOfState", "headOfGovernment", "vicePresidentOf", "leaderOf",
    "wonElection", "bornIn", "diedIn", "marriedTo", "memberOf", "hosted",
    "won", "championOf", "wonPrize", "educatedAt",
}  # fmt: skip
INSTANTS = {"bornIn", "diedIn", "wonElection", "hosted", "won", "wonPrize"}
OFFICES = {"headOfState", "headOfGovernment", "vicePresidentOf", "leaderOf"}
PERSONAL = OFFICES | {"wonElection", "championOf", "wonPrize", "educatedAt", "marriedTo"}
#: Laureates that are organisations, not persons.
LAUREATE_ORGANISATIONS = {
    "Amnesty International", "European Union", "UNHCR", "United Nations",
    "International Committee of the Red Cross", "Médecins Sans Frontières",
    "World Food Programme",
}  # fmt: skip
#: Crowned before they were 18 (office holder, country).
CROWNED_YOUNG = {("Wilhelmina of the Netherlands", "Netherlands")}
#: Prizes given after death.
POSTHUMOUS = {("Dag Hammarskjöld", "Nobel Peace Prize", 1961)}
#: Two holders of one office at the same time: none in this sample.
SHARED_OFFICES: set[tuple[str, str, str]] = set()
#: Places without a membership or a head in the sample.
OTHER_PLACES = {"DR Congo", "Vatican City", "Yemen"}
#: Games held a year late.
POSTPONED = {2021}
#: Died long ago, but at sea or at a place that was not certain.
DEATH_LEFT_OUT = {"Erik Eriksen", "Pierre-Paul Schweitzer", "Ramsay MacDonald"}


class Fact(NamedTuple):
    subject: str
    relation: str
    object: str
    begin: int
    end: int | None

    @property
    def last(self) -> int:
        """The end, an open one read as now."""
        return NOW if self.end is None else self.end


def read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as handle:
        return list(csv.reader(handle, delimiter="\t", quoting=csv.QUOTE_NONE))


def load() -> list[Fact]:
    facts = []
    for path in sorted(SAMPLE.glob("*.tsv")):
        for row in read(path)[1:]:
            begin, end = int(row[3]), int(row[4]) if row[4] else None
            facts.append(Fact(row[0], row[1], row[2], begin, end))
    return facts


FACTS = load()
BORN = {f.subject: f.begin for f in FACTS if f.relation == "bornIn"}
DIED = {f.subject: f.begin for f in FACTS if f.relation == "diedIn"}
PERSONS = (
    {f.subject for f in FACTS if f.relation in PERSONAL} - LAUREATE_ORGANISATIONS
) | set(BORN) | set(DIED)  # fmt: skip
NAMES = {f.subject for f in FACTS} | {f.object for f in FACTS}


def of(*relations: str) -> list[Fact]:
    found = [f for f in FACTS if f.relation in relations]
    assert found, f"no facts of {relations}"
    return found


@pytest.mark.parametrize("path", sorted(SAMPLE.glob("*.tsv")), ids=lambda p: p.name)
def test_file_is_well_formed(path):
    raw = path.read_bytes()
    assert b"\r" not in raw
    assert raw.endswith(b"\n")
    rows = read(path)
    assert rows[0] == HEADER
    assert len(rows) > 1
    for number, row in enumerate(rows[1:], 2):
        assert len(row) == 5, f"{path.name}:{number}"
        assert all(row[:3]), f"{path.name}:{number}: empty name"
        for cell in row:
            assert cell == cell.strip(), f"{path.name}:{number}"
            assert "  " not in cell, f"{path.name}:{number}"
            assert cell == unicodedata.normalize("NFC", cell), f"{path.name}:{number}"
        assert re.fullmatch(r"\d{4}", row[3]), f"{path.name}:{number}"
        assert re.fullmatch(r"(\d{4})?", row[4]), f"{path.name}:{number}"


def test_size():
    assert len(FACTS) >= 1_000
    assert len({f.relation for f in FACTS}) >= 8
    assert len(NAMES) >= 400
    assert {f.relation for f in FACTS} == RELATIONS


def test_no_duplicates():
    twice = [f for f, n in Counter(FACTS).items() if n > 1]
    assert not twice


def test_years():
    wrong = [f for f in FACTS if not 1000 <= f.begin <= f.last <= NOW]
    assert not wrong


def test_instants_and_open_ends():
    assert not [f for f in of(*INSTANTS) if f.end != f.begin]
    assert sum(f.end is None for f in FACTS) >= 100


def test_spans_of_one_triple_do_not_overlap():
    spans = defaultdict(list)
    for f in FACTS:
        spans[f[:3]].append((f.begin, f.last))
    for triple, found in spans.items():
        found.sort()
        for (_, end), (begin, _) in itertools.pairwise(found):
            assert begin >= end, (triple, found)


def test_names_differ_in_more_than_case_accents_and_blanks():
    def plain(name: str) -> str:
        bare = unicodedata.normalize("NFKD", name)
        bare = "".join(c for c in bare if not unicodedata.combining(c))
        return re.sub(r"[\W_]+", "", bare.translate(str.maketrans("øłıđ", "olid")).casefold())

    groups = defaultdict(set)
    for name in NAMES:
        groups[plain(name)].add(name)
    assert not [g for g in groups.values() if len(g) > 1]


def test_kinds_are_disjoint():
    """A name is a person, a place or a body, never two of them."""
    places = {f.object for f in of("headOfState", "headOfGovernment", "bornIn", "diedIn")}
    places |= {f.subject for f in of("memberOf", "hosted", "won")}
    bodies = {f.object for f in of("memberOf", "leaderOf", "educatedAt")}
    bodies |= {f.object for f in of("hosted", "won", "championOf", "wonPrize")}
    bodies |= LAUREATE_ORGANISATIONS
    assert not PERSONS & places
    assert not PERSONS & bodies
    assert not places & bodies


def test_places_of_birth_and_death_are_countries():
    countries = {f.object for f in of("headOfState", "headOfGovernment")}
    countries |= {f.subject for f in of("memberOf")}
    assert {f.object for f in of("bornIn", "diedIn")} - countries == OTHER_PLACES
    gone = {"Soviet Union", "Czechoslovakia", "East Germany", "Yugoslavia", "Austria-Hungary"}
    assert not {f.object for f in of("bornIn", "diedIn")} & gone, "use the modern country"


@pytest.mark.parametrize("relation", ["bornIn", "diedIn"])
def test_one_birth_and_one_death(relation):
    many = [n for n, k in Counter(f.subject for f in of(relation)).items() if k > 1]
    assert not many


def test_lifespans():
    spans = {n: DIED[n] - BORN[n] for n in DIED if n in BORN}
    assert len(spans) >= 200
    assert not {n: s for n, s in spans.items() if not 18 <= s <= 110}
    assert {n for n, b in BORN.items() if n not in DIED and NOW - b > 105} == DEATH_LEFT_OUT


def test_nothing_personal_happens_before_growing_up():
    least = dict.fromkeys(OFFICES, 18) | {
        "wonElection": 18, "wonPrize": 15, "championOf": 15, "educatedAt": 14, "marriedTo": 14,
    }  # fmt: skip
    young = {
        (f.subject, f.object)
        for f in of(*PERSONAL)
        if f.subject in BORN and f.begin - BORN[f.subject] < least[f.relation]
    }
    assert young == CROWNED_YOUNG


def test_nothing_personal_happens_after_death():
    late = [f for f in of(*PERSONAL) if f.subject in DIED and f.last > DIED[f.subject]]
    assert not late


def test_prizes_are_not_posthumous():
    found = {(f.subject, f.object, f.begin) for f in of("wonPrize") if f.subject in DIED and f.begin >= DIED[f.subject]}
    # a prize of the year of death is either given in time or listed here
    assert found == POSTHUMOUS


def test_marriages_have_their_mirror():
    pairs = Counter((f.subject, f.object, f.begin, f.end) for f in of("marriedTo"))
    assert all(pairs[o, s, b, e] == n for (s, o, b, e), n in pairs.items())
    assert not [f for f in of("marriedTo") if f.subject == f.object]


def test_one_marriage_at_a_time():
    spans = defaultdict(list)
    for f in of("marriedTo"):
        spans[f.subject].append((f.begin, f.last))
    for person, found in spans.items():
        found.sort()
        assert all(b >= e for (_, e), (b, _) in itertools.pairwise(found)), (person, found)


@pytest.mark.parametrize("relation", sorted(OFFICES))
def test_one_holder_of_an_office_at_a_time(relation):
    """Terms of one office share at most a boundary year."""
    terms = defaultdict(list)
    for f in of(relation):
        terms[f.object].append(f)
    shared = set()
    for office, found in terms.items():
        for i, one in enumerate(found):
            for other in found[i + 1 :]:
                if min(one.last, other.last) > max(one.begin, other.begin):
                    shared.add((office, *sorted((one.subject, other.subject))))
    assert shared == SHARED_OFFICES


def test_one_open_holder_of_an_office():
    holders = Counter((f.relation, f.object) for f in of(*OFFICES) if f.end is None)
    assert not [o for o, n in holders.items() if n > 1]


def test_elections_come_before_or_during_an_office():
    terms = defaultdict(list)
    for f in of("headOfState"):
        terms[f.subject, f.object].append(f)
    for f in of("wonElection"):
        if f.begin == NOW:
            continue  # may take office in the next year
        found = terms[f.subject, f.object]
        assert any(t.begin - 1 <= f.begin <= t.last for t in found), f


def test_one_election_winner():
    winners = Counter((f.object, f.begin) for f in of("wonElection"))
    assert not [e for e, n in winners.items() if n > 1]
    american = [f.begin for f in of("wonElection") if f.object == "United States"]
    assert sorted(american) == list(range(min(american), NOW + 1, 4))


WORLD_CUPS = {1930, 1934, 1938} | set(range(1950, NOW + 1, 4))
EUROS = set(range(1960, 2020, 4)) | {2021, 2024}
SUMMER = (set(range(1896, 2020, 4)) - {1916, 1940, 1944}) | {2021, 2024}
WINTER = (set(range(1924, 1993, 4)) - {1940, 1944}) | set(range(1994, NOW + 1, 4))


@pytest.mark.parametrize(
    ("relation", "series", "years"),
    [
        ("hosted", "FIFA World Cup", WORLD_CUPS),
        ("won", "FIFA World Cup", WORLD_CUPS),
        ("won", "UEFA European Championship", EUROS),
        ("hosted", "Winter Olympics", WINTER),
        ("won", "FIFA Women's World Cup", set(range(1991, NOW + 1, 4))),
        ("won", "Rugby World Cup", set(range(1987, NOW + 1, 4))),
        ("championOf", "Formula One World Championship", set(range(1950, NOW + 1))),
        ("championOf", "Ballon d'Or", set(range(1956, NOW + 1)) - {2020}),
    ],
)
def test_complete_series(relation, series, years):
    found = [f.begin for f in of(relation) if f.object == series]
    assert set(found) == years
    if relation != "hosted":  # two countries may host together
        assert len(found) == len(years)


def test_summer_olympics_every_four_years():
    found = [f.begin for f in of("hosted") if f.object == "Summer Olympics"]
    assert sorted(found) == sorted(SUMMER)
    assert {year for year in found if year % 4} == POSTPONED


def test_one_winner_a_year():
    """Series decided once a year (the Copa América was held twice in 1959)."""
    single = of("won") + [f for f in of("championOf") if f.end == f.begin]
    winners = Counter((f.object, f.begin) for f in single)
    assert {w for w, n in winners.items() if n > 1} == {("Copa América", 1959)}


def test_recurrence():
    times = Counter(f[:3] for f in FACTS)
    assert sum(n > 1 for n in times.values()) >= 50
    assert sum(n > 1 for (_, r, _), n in times.items() if r in OFFICES) >= 20


def test_persons_have_several_facts():
    facts = Counter(f.subject for f in FACTS)
    lone = [p for p in PERSONS if facts[p] == 1]
    assert len(lone) <= len(PERSONS) // 50, sorted(lone)


def test_sources_are_stated():
    text = (SAMPLE / "SOURCES.md").read_text(encoding="utf-8")
    assert "CC0" in text
    assert str(NOW) in text
    for path in SAMPLE.glob("*.tsv"):
        assert path.name in text
