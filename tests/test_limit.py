"""The Bayes answer of `tools/world_posterior.py`, against all lives of a tiny world, one by one, and against chance."""

from collections import defaultdict
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from tools.world_learner import Learner, estimated, learned_spec
from tools.world_posterior import Person, World, best_span

from timeplex.datasets.synthetic import SyntheticSpec, Years, generate
from timeplex.evaluation.metrics import time_scores
from timeplex.kb import spans
from timeplex.kb.facts import TemporalKB
from timeplex.kb.split import split_randomly

TINY = SyntheticSpec(
    last_year=1962,
    wedding_year=Years(1950, (0.3, 0.7)),
    wedding_age=Years(20, (0.5, 0.5)),
    life=Years(27, (0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.3)),
    school_age=Years(18, (0.4, 0.6)),
    study=Years(3, (0.8, 0.2)),
    wait=Years(0, (0.6, 0.4)),
    jobs=Years(1, (0.5, 0.5)),
    job=Years(2, (0.3, 0.7)),
    pause=Years(0, (0.7, 0.3)),
    prize=Years(1, (0.2, 0.8)),
    divorce=Years(1, (0.5, 0.5)),
    first_games=1900,
)
HIDDEN = 0.3
SINGLE = {"bornIn": "born", "diedIn": "died", "wonPrize": "prize"}
SHARES = {"bornIn": 1.0, "diedIn": TINY.died, "wonPrize": TINY.honoured, "studiedAt": TINY.studied}


def drawn(*years: Years):
    """All that may be drawn: (values, chance)."""
    for values in product(*(zip(of.values.tolist(), of.chances, strict=True) for of in years)):
        yield [value for value, _ in values], float(np.prod([chance for _, chance in values]))


def told(events: dict[str, object], person: Person, asked: str):
    """The chance that of these dates of a life just those of the person are seen, and a hidden one of `asked`."""
    seen = {name: getattr(person, field) for name, field in SINGLE.items()} | {"studiedAt": person.studies}
    chance = 1.0
    for name, share in SHARES.items():
        possible = share if name != "diedIn" or events[name] <= TINY.last_year else 0.0
        if name == asked:
            chance *= possible * HIDDEN
        elif seen[name] is None:
            chance *= 1 - possible * (1 - HIDDEN)
        else:
            chance *= possible * (1 - HIDDEN) * (events[name] == seen[name])
    return chance


def jobs_told(jobs: list[tuple[int, int]], person: Person, asked: str):
    """(hidden job that is asked for or None, chance) for all ways in which just the person's jobs are seen."""
    if not person.jobs and asked != "worksFor":
        yield None, 1 - TINY.worked + TINY.worked * HIDDEN ** len(jobs)
        return
    for count in range(len(jobs) + 1):
        for which in combinations(range(len(jobs)), count):
            for open_last in (False, True):
                ends = [spans.OPEN_END if open_last and job == jobs[-1] else job[1] for job in jobs]
                shown = tuple((jobs[at][0], ends[at]) for at in which)
                chance = TINY.worked * (TINY.open_job if open_last else 1 - TINY.open_job)
                chance *= HIDDEN ** (len(jobs) - count) * (1 - HIDDEN) ** count * (shown == person.jobs)
                if asked != "worksFor":
                    yield None, chance
                    continue
                for at in set(range(len(jobs))) - set(which):
                    if ends[at] != spans.OPEN_END:
                        yield jobs[at], chance


def lives(person: Person, asked: str) -> dict[tuple[int, int, object], float]:
    """(wedding, death, what is asked for) of all lives of which just this is seen, and how likely each is."""
    found: dict[tuple[int, int, object], float] = defaultdict(float)
    world = TINY
    steps = (world.wedding_year, world.wedding_age, world.life, world.school_age, world.study, world.wait, world.prize)
    for (wedding, age, life, school, study, wait, prize), chance in drawn(*steps):
        born = wedding - age
        begin, end = born + school, born + school + study
        events = {"bornIn": born, "diedIn": born + life, "studiedAt": (begin, end), "wonPrize": end + wait + prize}
        chance *= told(events, person, asked)
        if chance == 0:
            continue
        years = min(born + life, world.last_year) - born
        fitting = (years - world._work_age.last + world.pause.last) // (world.job.last + world.pause.last)
        for (number, one, pause, two), more in drawn(world.jobs, world.job, world.pause, world.job):
            first = (end + wait, end + wait + one)
            second = (first[1] + pause, first[1] + pause + two)
            for job, weight in jobs_told([first, second][: min(fitting, number)], person, asked):
                value = job if asked == "worksFor" else events.get(asked)
                found[wedding, born + life, value] += chance * more * weight
    return found


def normalised(weights: dict[tuple[int, int], float]) -> dict[tuple[int, int], float]:
    return {span: weight / sum(weights.values()) for span, weight in weights.items() if weight > 0}


def ending(wedding: int, first: int) -> dict[int, float]:
    """How a marriage may end: (year, chance)."""
    share = TINY.divorced * (wedding + TINY.divorce.last < min(first, TINY.last_year + 1))
    ends = {wedding + int(k): share * p for k, p in zip(TINY.divorce.values, TINY.divorce.chances, strict=True)}
    otherwise = first if first <= TINY.last_year else spans.OPEN_END
    ends[otherwise] = ends.get(otherwise, 0) + 1 - share
    return ends


def as_span(value: object) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


@cache
def tiny_kb() -> TemporalKB:
    return generate(200, 0, world=TINY)


def answered(person: Person, other: Person, asked: str) -> dict[tuple[int, int], float]:
    """What the tool says of a fact of `person`, or, of marriedTo, of both."""
    kb = tiny_kb()
    world = World(kb, kb.train, TINY, seen=1 - HIDDEN)
    one, two = np.flatnonzero(world.kind == "person")[:2].tolist()
    if person.wedding is not None:
        person.spouse, other.spouse, other.wedding = two, one, person.wedding
    world.people[one], world.people[two] = person, other
    said = world.span(one, asked, two)
    return {(b + world.first, e + world.first): said[b, e] for b, e in np.argwhere(said > 0).tolist()}


CASES = [
    (Person(), "bornIn"),
    (Person(died=1958), "bornIn"),
    (Person(studies=(1949, 1952), jobs=((1953, 1955),)), "bornIn"),
    (Person(born=1930), "diedIn"),
    (Person(born=1930, jobs=((1952, 1954), (1955, 1957))), "diedIn"),
    (Person(prize=1954), "studiedAt"),
    (Person(born=1930, jobs=((1952, 1954),)), "studiedAt"),
    (Person(studies=(1948, 1951)), "wonPrize"),
    (Person(studies=(1948, 1951)), "worksFor"),
    (Person(born=1929, jobs=((1953, spans.OPEN_END),)), "worksFor"),
    (Person(died=1960, jobs=((1953, 1956),)), "worksFor"),
]


@pytest.mark.parametrize(("person", "asked"), CASES)
def test_a_posterior_is_that_of_all_lives_counted(person: Person, asked: str) -> None:
    expected: dict[tuple[int, int], float] = defaultdict(float)
    for (_, _, value), weight in lives(person, asked).items():
        expected[as_span(value)] += weight
    assert answered(person, Person(), asked) == pytest.approx(normalised(expected))


@pytest.mark.parametrize(("person", "asked"), [case for case in CASES if case[1] != "wonPrize"])
@pytest.mark.parametrize("end", [1952, 1957, spans.OPEN_END])
def test_a_spouse_counts(person: Person, asked: str, end: int) -> None:
    other = Person(jobs=((1954, 1957),))
    expected: dict[tuple[int, int], float] = defaultdict(float)
    others: dict[tuple[int, int], float] = defaultdict(float)
    for (wedding, death, _), weight in lives(other, "").items():
        others[wedding, death] += weight / TINY.wedding_year.chances[wedding - 1950]
    for (wedding, death, value), weight in lives(person, asked).items():
        for (same, other_death), more in others.items():
            if wedding == same == 1951:
                ends = ending(wedding, min(death, other_death))
                expected[as_span(value)] += weight * more * ends.get(end, 0)
    if not any(expected.values()):
        pytest.skip("no such life")
    person = Person(person.born, person.died, person.prize, person.studies, (1951, end), None, person.jobs)
    assert answered(person, other, asked) == pytest.approx(normalised(expected))


def test_a_marriage_ends_as_lives_say() -> None:
    one, other = Person(born=1930), Person(jobs=((1954, 1957),))
    expected: dict[tuple[int, int], float] = defaultdict(float)
    for (wedding, death, _), weight in lives(one, "").items():
        for (same, other_death, _), more in lives(other, "").items():
            if wedding == same:
                prior = TINY.wedding_year.chances[wedding - 1950]
                for end, chance in ending(wedding, min(death, other_death)).items():
                    if end != spans.OPEN_END:
                        expected[wedding, end] += weight * more * chance / prior
    assert answered(one, other, "marriedTo") == pytest.approx(normalised(expected))


def test_what_is_said_comes_true() -> None:
    kb = split_randomly(generate(1000, 1), seed=1)
    world, relations = World(kb, kb.train), [str(name) for name in kb.relations]
    test = kb.test[kb.test.closed]
    said = [world.span(int(s), relations[int(r)], int(o)) for s, r, o in zip(test.s, test.r, test.o, strict=True)]
    true = np.array([of[b - world.first, e - world.first] for of, b, e in zip(said, test.begin, test.end, strict=True)])
    expected = np.array([(of**2).sum() for of in said])
    noise = np.sqrt(sum((of**3).sum() - (of**2).sum() ** 2 for of in said)) / len(said)
    assert abs(true.mean() - expected.mean()) < 3 * noise


def test_the_best_span_is_the_best_of_all() -> None:
    chance = np.random.default_rng(0)
    posterior = np.triu(chance.random((6, 6)) ** 8)
    posterior /= posterior.sum()
    b, e = np.nonzero(posterior)
    worth = {}
    for low, high in zip(*np.triu_indices(6), strict=True):
        said = (np.full((len(b), 1), low), np.full((len(b), 1), high))
        worth[int(low), int(high)] = float(time_scores((b, e), said)["aeiou@1"] @ posterior[b, e])
    assert best_span(posterior, 0) == max(worth, key=lambda span: worth[span])


def test_distributions_are_found_again() -> None:
    true = Years.normal(28, 5, 18, 38)
    few, many = (
        np.abs(np.array(estimated(true, true.draw(np.random.default_rng(0), n)).chances) - true.chances).sum()
        for n in (100, 100_000)
    )
    assert many < 0.02 < few < 0.5
    kb = generate(20_000, 0)
    found = learned_spec(World(kb, kb.train, seen=1.0))
    for name, within in (("life", 0.5), ("school_age", 0.1), ("job", 0.1), ("wedding_age", 0.3), ("study", 0.1)):
        assert abs(getattr(found, name).mean - getattr(SyntheticSpec(), name).mean) < within, name


def test_a_learner_finds_communities_by_what_their_people_share() -> None:
    kb = split_randomly(generate(2000, 1), seed=1)
    world, learner = (of(kb, kb.train) for of in (World, Learner))
    people = np.flatnonzero(world.kind == "person")
    np.testing.assert_allclose(learner.homes[people].sum(1), 1)
    for kind in ("place", "school", "employer"):
        of_kind = np.flatnonzero(world.kind == kind)
        np.testing.assert_allclose(learner.chosen(kind + "s", of_kind).sum(0), 1)
    true, found = (of.homes[people] @ of.homes[people].T for of in (world, learner))
    apart = ~np.eye(len(people), dtype=bool)
    assert np.corrcoef(true[apart], found[apart])[0, 1] > 0.6
