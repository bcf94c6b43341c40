"""Made-up biographies, careers and periodic events whose gaps, durations and rhythms are known exactly.

Tests ask whether a model finds what was put in; benchmarks ask how time and memory grow. On two cores, one
million facts take 0.5 s and 0.2 GB (284,573 entities), ten million 6 s and 1.1 GB (2,846,781 entities).

Persons come in couples of one community, which has its own places, schools and employers. What a person does
is drawn first, and whether the KB tells it is decided without a look at how long it took; so the stated
distributions hold for the facts of the KB, not only for the lives behind them. Series of games fill the rest.

>>> kb = generate(1000, seed=7)
>>> len(kb), len(kb.relations)
(1000, 8)
>>> study_to_work = World().gap("studiedAt", "worksFor")
>>> round(study_to_work.mean, 2), round(study_to_work.sd, 2)
(4.83, 1.32)
"""

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from timeplex.errors import InputError
from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Column, Facts, TemporalKB
from timeplex.kb.names import Names
from timeplex.kb.problems import Problems
from timeplex.kb.world import World, Years

FEWEST, MOST = 100, 10_000_000
PILOT = 1000  # couples drawn first, to know how many facts a couple has

# In sorted order, so that a position is the number that `Names` gives, or sorts as the names do.
RELATIONS = ("bornIn", "diedIn", "heldIn", "marriedTo", "studiedAt", "wins", "wonPrize", "worksFor")
KINDS = ("employer", "games", "person", "place", "prize", "school", "team")
KIND_BITS = 24  # an entity is coded as kind · 2²⁴ + its number in the kind, until the numbers are ranks

DEFAULT_WORLD = World()


def generate(facts: int = 1000, seed: int = 0, *, world: World = DEFAULT_WORLD) -> TemporalKB:
    """A KB of exactly so many facts (100 to 10 million), by year, all in train; a seed gives one KB."""
    for what, value, least, most in (("number of facts", facts, FEWEST, MOST), ("seed", seed, 0, 2**63 - 1)):
        if type(value) is not int or not least <= value <= most:
            raise InputError(f"The {what} cannot be {value!r}.", f"Give an int from {least} to {most}.")
    random = np.random.default_rng(seed)
    pilot = _biographies(_People(np.random.default_rng(0), world, PILOT, 2)).shape[1]
    couples = max(1, int(world.biographies * facts * PILOT / pilot))
    communities = max(2, 2 * couples // world.community)
    told = _biographies(_People(random, world, couples, communities))
    # Whole couples are left out at the end, so that nobody loses half a life or a marriage one direction.
    facts_of_couple = np.bincount((told[0] - _code("person", 0)) // 2)
    kept = int(np.searchsorted(np.cumsum(facts_of_couple), world.biographies * facts, side="right"))
    told = told[:, told[0] < _code("person", 2 * kept)]
    games = _games(random, world, facts - told.shape[1], world.places * communities)
    told = np.concatenate([told, games], axis=1)
    used, numbers = np.unique(told[[0, 2]], return_inverse=True)
    told[0], told[2] = numbers
    kinds = pl.Series(KINDS).gather(used >> KIND_BITS)
    names = kinds + " " + pl.Series(used % (1 << KIND_BITS)).cast(pl.String).str.zfill(8)
    return TemporalKB(
        Names(names),
        Names(pl.Series(RELATIONS)),
        Granularity.YEAR,
        {"train": Facts(*told)},
        Problems.none(rows_read=facts),
        f"synthetic-{facts}-{seed}",
    )


def _code(kind: str, number: ArrayLike) -> Column:
    """Provisional numbers of entities, which sort as the names do."""
    if np.max(number, initial=0) >> KIND_BITS:
        raise InputError(f"The world has too many of the kind {kind}.", "Make fewer than 2²⁴.")
    return np.asarray(number, np.int32) + np.int32(KINDS.index(kind) << KIND_BITS)


def _block(relation: str, subject: Column, target: Column, begin: Column, end: Column) -> Column:
    """Facts as five rows s, r, o, begin, end, shape (5, n)."""
    return np.stack([subject, np.full_like(subject, RELATIONS.index(relation)), target, begin, end])


class _People:
    """What happens to persons, told or not: columns of shape (2 · couples,). 2i and 2i + 1 are a couple."""

    def __init__(self, random: np.random.Generator, world: World, couples: int, communities: int) -> None:
        self.random, self.world, self.count, self.communities = random, world, 2 * couples, communities
        self.home = np.repeat(random.integers(communities, size=couples, dtype=np.int32), 2)
        self.wedding = np.repeat(world.wedding_year.draw(random, couples), 2)
        self.birth = self.wedding - world.wedding_age.draw(random, self.count)
        self.death = self.birth + world.life.draw(random, self.count)
        self.school = self.birth + world.school_age.draw(random, self.count)
        self.degree = self.school + world.study.draw(random, self.count)
        self.work = self.degree + world.wait.draw(random, self.count)
        self.award = self.work + world.prize.draw(random, self.count)

    def told(self, share: float, group: int = 1) -> Column:
        """The persons of whom something is told: each group with chance `share`, the first in any case."""
        told = self.random.random(self.count // group) < share
        told[0] |= share > 0
        return np.flatnonzero(np.repeat(told, group)).astype(np.int32)

    def choose(self, kind: str, each: int, who: Column) -> Column:
        """An entity for each person: one of `each` at home, or one of all communities."""
        at_home = self.home[who] * each + Years.popularity(each).draw(self.random, len(who))
        anywhere = Years.popularity(each * self.communities).draw(self.random, len(who))
        return _code(kind, np.where(self.random.random(len(who)) < self.world.local, at_home, anywhere))


def _biographies(people: _People) -> Column:
    """The facts whose subjects are persons, shape (5, n)."""
    world, birth, death = people.world, people.birth, people.death
    everyone, students = np.arange(people.count, dtype=np.int32), people.told(world.studied)
    dead, winners = people.told(world.died), people.told(world.honoured)
    dead = dead[death[dead] <= world.last_year]
    prizes = _code("prize", Years.popularity(2 + people.communities // 2).draw(people.random, len(winners)))

    def block(relation: str, who: Column, target: Column, begin: Column, end: Column) -> Column:
        return _block(relation, _code("person", who), target, begin[who], end[who])

    birthplaces = people.choose("place", world.places, everyone)
    schools = people.choose("school", world.schools, students)
    blocks = [
        block("bornIn", everyone, birthplaces, birth, birth),
        block("studiedAt", students, schools, people.school, people.degree),
        block("wonPrize", winners, prizes, people.award, people.award),
        block("diedIn", dead, people.choose("place", world.places, dead), death, death),
    ]
    return np.concatenate([*blocks, _marriages(people), *_careers(people)], axis=1)


def _marriages(people: _People) -> Column:
    """Both directions of each marriage, with one span: to the divorce, the first death, or open."""
    random, world = people.random, people.world
    who = people.told(world.married, group=2)
    wedding, first_death = people.wedding[who], np.minimum(people.death[who], people.death[who ^ 1])
    time_enough = wedding + world.divorce.last < np.minimum(first_death, world.last_year + 1)
    divorced = time_enough & np.repeat(random.random(len(who) // 2) < world.divorced, 2)
    divorce = wedding + np.repeat(world.divorce.draw(random, len(who) // 2), 2)
    otherwise = np.where(first_death <= world.last_year, first_death, np.int32(spans.OPEN_END))
    end = np.where(divorced, divorce, otherwise)
    return _block("marriedTo", _code("person", who), _code("person", who ^ 1), wedding, end)


def _careers(people: _People) -> list[Column]:
    """The jobs of persons one after another: a block of all first jobs, one of all second jobs …"""
    random, world = people.random, people.world
    who = people.told(world.worked)
    begin, blocks = people.work[who], []
    age = np.minimum(people.death, world.last_year)[who] - people.birth[who]
    # Even if they take longest, k jobs and the k − 1 pauses between them must fit.
    fitting = (age - world._work_age.last + world.pause.last) // (world.job.last + world.pause.last)
    jobs = np.minimum(fitting, world.jobs.draw(random, len(who)))
    for number in range(1, world.jobs.last + 1):
        going = jobs >= number
        who, begin, jobs = who[going], begin[going], jobs[going]
        end = begin + world.job.draw(random, len(who))
        unknown = (jobs == number) & (random.random(len(who)) < world.open_job)
        told_end = np.where(unknown, np.int32(spans.OPEN_END), end)
        employer = people.choose("employer", world.employers, who)
        blocks.append(_block("worksFor", _code("person", who), employer, begin, told_end))
        begin = end + world.pause.draw(random, len(who))
    return blocks


def _games(random: np.random.Generator, world: World, facts: int, places: int) -> Column:
    """Exactly `facts` facts of series of games, shape (5, facts), each series from its first edition on.

    Edition k of a series is in the year first_games + phase + k · period, with 0 ≤ phase < period.
    """
    fewest = max(1, (world.last_year - world.first_games + 1) // max(world.periods))  # editions a series
    series = -(-facts // (2 * fewest))
    period = random.choice(np.asarray(world.periods, np.int32), series)
    start = world.first_games + random.integers(period, dtype=np.int32)
    city = Years.popularity(places).draw(random, series)
    editions = (world.last_year - start) // period + 1
    which = np.repeat(np.arange(series, dtype=np.int32), editions)
    before = np.cumsum(editions, dtype=np.int32) - editions  # editions of all earlier series
    edition = np.arange(len(which), dtype=np.int32) - before[which]
    year = start[which] + edition * period[which]
    host = (city[which] + edition % world.hosts) % places
    winner = which * world.teams + Years.popularity(world.teams).draw(random, len(which))
    games = _code("games", which)
    held = _block("heldIn", games, _code("place", host), year, year)
    won = _block("wins", _code("team", winner), games, year, year)
    # The facts of an edition stand side by side, so that a cut takes the last editions of the last series.
    return np.stack([held, won], axis=2).reshape(5, -1)[:, :facts]
