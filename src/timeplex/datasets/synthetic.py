"""Made-up biographies, careers and periodic events whose gaps, durations and rhythms are known exactly.

Tests ask whether a model finds what was put in; benchmarks ask how time and memory grow. On two cores, one
million facts take 0.5 s and 0.2 GB (284,573 entities), ten million 6 s and 1.1 GB (2,846,781 entities).

Persons come in couples of one community, which has its own places, schools and employers. What a person does
is drawn first, and whether the KB tells it is decided without a look at how long it took; so the stated
distributions hold for the facts of the KB, not only for the lives behind them. Series of games fill the rest.

>>> kb = generate(1000, seed=7)
>>> len(kb), len(kb.relations)
(1000, 8)
>>> study_to_work = SyntheticSpec().gap("studiedAt", "worksFor")
>>> round(study_to_work.mean, 2), round(study_to_work.sd, 2)
(4.83, 1.32)
"""

import math
from dataclasses import dataclass, fields

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from timeplex.errors import InputError
from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.kb.names import Names
from timeplex.kb.problems import Problems
from timeplex.typing import Codes, Floats, Ints

# ruff: noqa: RUF009 - the calls that make the defaults of `SyntheticSpec` give immutable values


@dataclass(frozen=True)
class Years:
    """A distribution of whole years, or of any integers: P(first + k) = chances[k]."""

    first: int
    chances: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.chances or min(self.chances) < 0 or abs(math.fsum(self.chances) - 1) > 1e-9:
            raise InputError("The chances are not a distribution.", "Make them ≥ 0, with the sum 1.")

    @classmethod
    def weighted(cls, first: int, weights: ArrayLike) -> "Years":
        """P(first + k) ∝ weights[k]."""
        weights = np.asarray(weights, np.float64)
        return cls(first, tuple((weights / weights.sum()).tolist()))

    @classmethod
    def normal(cls, mean: float, sd: float, first: int, last: int) -> "Years":
        """Normal(mean, sd), rounded, and cut to first … last."""
        edges = [math.erf((year - 0.5 - mean) / sd / math.sqrt(2)) for year in range(first, last + 2)]
        return cls.weighted(first, np.diff(edges))

    @classmethod
    def geometric(cls, stop: float, first: int, last: int) -> "Years":
        """P(k) ∝ (1 − stop)^(k − first), cut to first … last."""
        return cls.weighted(first, (1 - stop) ** np.arange(last - first + 1))

    @classmethod
    def uniform(cls, first: int, last: int) -> "Years":
        """Each of first … last alike."""
        return cls.weighted(first, np.ones(last - first + 1))

    @classmethod
    def popularity(cls, size: int) -> "Years":
        """Zipf's law on the ranks 0 … size − 1: P(k) = ln((k + 2) / (k + 1)) / ln(size + 1) ≈ c / (k + 1)."""
        return cls.weighted(0, np.diff(np.log(np.arange(1, size + 2))))

    @property
    def values(self) -> Ints:
        """first … last, shape (n,)."""
        return np.arange(self.first, self.last + 1)

    @property
    def last(self) -> int:
        """The greatest value."""
        return self.first + len(self.chances) - 1

    @property
    def mean(self) -> float:
        """Σ k P(k)."""
        return float(np.dot(self.values, self.chances))

    @property
    def sd(self) -> float:
        """√(Σ (k − mean)² P(k))."""
        return math.sqrt(np.dot((self.values - self.mean) ** 2, self.chances))

    def chance_by(self, value: ArrayLike) -> Floats:
        """P(X ≤ value), for each value."""
        sums = np.concatenate([[0.0], np.cumsum(self.chances)])
        chances: Floats = sums[np.clip(np.asarray(value) - self.first + 1, 0, len(self.chances))]
        return chances

    def draw(self, random: np.random.Generator, count: int) -> Codes:
        """Independent values, shape (count,)."""
        inner = np.cumsum(self.chances)[:-1]  # without the last, rounding cannot lead past it
        return (self.first + np.searchsorted(inner, random.random(count), side="right")).astype(np.int32)

    def __add__(self, other: "Years") -> "Years":
        """The sum of two independent values."""
        return Years.weighted(self.first + other.first, np.convolve(self.chances, other.chances))

    def __neg__(self) -> "Years":
        return Years(-self.last, self.chances[::-1])

    def __sub__(self, other: "Years") -> "Years":
        """The difference of two independent values."""
        return self + -other


NOTHING = Years(0, (1.0,))


@dataclass(frozen=True)
class SyntheticSpec:
    """Every distribution that `generate` draws from. A duration is end − begin, a share lies in [0, 1].

    All draws are independent. The birth of a person is the couple's year of wedding, told or not, less the
    person's age at it. A further job, or a divorce, happens only to those for whom even the longest would end
    before death and `last_year`. The life of `person 00000000` is told in full, so no relation lacks facts.
    """

    last_year: int = 2025
    """The present: nothing later is told, so deaths after it are missing and such marriages are open."""
    wedding_year: Years = Years.uniform(1878, 1998)
    """Year in which a couple marries."""
    wedding_age: Years = Years.normal(28, 5, 18, 38)
    """From bornIn to marriedTo, for each of the two."""
    life: Years = Years.normal(75, 10, 45, 105)
    """From bornIn to diedIn, before those who died after `last_year` are left out."""
    school_age: Years = Years.normal(19, 1.5, 15, 23)
    """From bornIn to the begin of studiedAt."""
    study: Years = Years(3, (0.3, 0.4, 0.2, 0.1))
    """Duration of studiedAt."""
    wait: Years = Years.geometric(0.5, 0, 3)
    """From the end of studiedAt to the begin of the first worksFor."""
    jobs: Years = Years(1, (0.4, 0.35, 0.25))
    """Number of jobs that a person wants."""
    job: Years = Years.geometric(0.15, 1, 12)
    """Duration of worksFor."""
    pause: Years = Years.geometric(0.6, 0, 3)
    """From the end of a job to the begin of the next."""
    prize: Years = Years.normal(6, 2, 0, 12)
    """From the begin of the first worksFor to wonPrize."""
    divorce: Years = Years.normal(12, 5, 1, 25)
    """Duration of marriedTo if it ends in divorce; otherwise it ends with the first death, or is open."""
    divorced: float = 0.3
    """Share of marriages that end in divorce, among those that leave time for it."""
    open_job: float = 0.2
    """Share of the last jobs whose end is not known."""
    studied: float = 0.45
    """Share of persons whose studies are told."""
    worked: float = 0.5
    """Share of persons whose jobs are told: all of them."""
    married: float = 0.5
    """Share of couples whose marriage is told: in both directions."""
    died: float = 0.8
    """Share of the dead whose death is told."""
    honoured: float = 0.12
    """Share of persons with a prize."""
    biographies: float = 0.8
    """Share of facts about persons, at most; the rest are games: heldIn and wins, one each an edition."""
    community: int = 100
    """Persons a community, on average."""
    places: int = 6
    """Places a community."""
    schools: int = 3
    """Schools a community."""
    employers: int = 8
    """Employers a community."""
    local: float = 0.8
    """Share of places, schools, employers chosen at home, others from all; both by `Years.popularity`."""
    first_games: int = 1900
    """A series of games starts here, or less than its period later."""
    periods: tuple[int, ...] = (2, 4, 5)
    """A series has one of these periods, and is held in a city each `period` years without exception."""
    hosts: int = 2
    """Cities that host a series in turn: (series, heldIn, city) recurs each hosts · period years."""
    teams: int = 8
    """Teams a series; the k-th `wins` an edition with chance `Years.popularity(teams)`, so triples recur."""

    def __post_init__(self) -> None:
        shares = [getattr(self, field.name) for field in fields(self) if field.type is float]
        counts = [getattr(self, field.name) for field in fields(self) if field.type is int] + [*self.periods]
        if min(shares) < 0 or max(shares) > 1 or min(counts) < 1 or not self.first_games < self.last_year:
            problem = "A share of the world is outside [0, 1], a count below 1, or no year is left for games."
            raise InputError(problem, "See the fields of `SyntheticSpec` for what each of them is.")
        needed = max(self._work_age.last + max(self.job.last, self.prize.last), self.wedding_age.last)
        if needed > min(self.life.first, self.last_year - self.birth.last):
            problem = f"Not everybody reaches the age of {needed} by {self.last_year}, as some events need."
            raise InputError(problem, "Lengthen the life, end the weddings earlier, or shorten the events.")

    @property
    def birth(self) -> Years:
        """Year of bornIn."""
        return self.wedding_year - self.wedding_age

    @property
    def _work_age(self) -> Years:
        return self.school_age + self.study + self.wait

    def duration(self, relation: str) -> Years:
        """Distribution of end − begin of the facts whose end is known; of marriages, only the divorced."""
        lasting = {"studiedAt": self.study, "worksFor": self.job, "marriedTo": self.divorce}
        return lasting.get(relation, NOTHING)

    def gap(self, earlier: str, later: str) -> Years:
        """Distribution of begin(later) − begin(earlier), over the persons that have both in the KB.

        Of several jobs the first counts; from worksFor to worksFor it is one job to the next. Deaths after
        `last_year` are missing, which is allowed for: P(gap | told) ∝ P(gap) · P(begin ≤ last_year − gap).
        """
        if earlier == later == "worksFor":
            return self.job + self.pause
        if (earlier, later) == ("diedIn", "marriedTo"):
            return -self.gap("marriedTo", "diedIn")
        if (earlier, later) == ("marriedTo", "diedIn"):
            return self._in_time(self.life - self.wedding_age, self.wedding_year)
        career = ("school_age", "study", "wait", "prize")
        steps = {"bornIn": (), "studiedAt": career[:1], "worksFor": career[:3], "wonPrize": career}
        steps |= {"marriedTo": ("wedding_age",), "diedIn": ("_told_life",)}
        if earlier not in steps or later not in steps:
            raise InputError(
                f"The gap from {earlier} to {later} is not a distribution of the world.",
                f"It is between {', '.join(steps)}; games follow `periods`.",
            )
        # What both have gone through, such as the studies before work and prize, is no part of the gap.
        onward = [getattr(self, step) for step in steps[later] if step not in steps[earlier]]
        back = [getattr(self, step) for step in steps[earlier] if step not in steps[later]]
        return sum(onward, NOTHING) - sum(back, NOTHING)

    @property
    def _told_life(self) -> Years:
        return self._in_time(self.life, self.birth)

    def _in_time(self, length: Years, start: Years) -> Years:
        """The length, given that start + length is not after the last year."""
        return Years.weighted(length.first, length.chances * start.chance_by(self.last_year - length.values))


FEWEST, MOST = 100, 10_000_000
PILOT = 1000  # couples drawn first, to know how many facts a couple has

# In sorted order, so that a position is the number that `Names` gives, or sorts as the names do.
RELATIONS = ("bornIn", "diedIn", "heldIn", "marriedTo", "studiedAt", "wins", "wonPrize", "worksFor")
KINDS = ("employer", "games", "person", "place", "prize", "school", "team")
KIND_BITS = 24  # an entity is coded as kind · 2²⁴ + its number in the kind, until the numbers are ranks

DEFAULT_WORLD = SyntheticSpec()


def generate(facts: int = 1000, seed: int = 0, *, world: SyntheticSpec = DEFAULT_WORLD) -> TemporalKB:
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


def _code(kind: str, number: ArrayLike) -> Codes:
    """Provisional numbers of entities, which sort as the names do."""
    if np.max(number, initial=0) >> KIND_BITS:
        raise InputError(f"The world has too many of the kind {kind}.", "Make fewer than 2²⁴.")
    return np.asarray(number, np.int32) + np.int32(KINDS.index(kind) << KIND_BITS)


def _block(relation: str, subject: Codes, target: Codes, begin: Codes, end: Codes) -> Codes:
    """Facts as five rows s, r, o, begin, end, shape (5, n)."""
    return np.stack([subject, np.full_like(subject, RELATIONS.index(relation)), target, begin, end])


class _People:
    """What happens to persons, told or not: columns of shape (2 · couples,). 2i and 2i + 1 are a couple."""

    def __init__(self, random: np.random.Generator, world: SyntheticSpec, couples: int, communities: int) -> None:
        self.random, self.world, self.count, self.communities = random, world, 2 * couples, communities
        self.home = np.repeat(random.integers(communities, size=couples, dtype=np.int32), 2)
        self.wedding = np.repeat(world.wedding_year.draw(random, couples), 2)
        self.birth = self.wedding - world.wedding_age.draw(random, self.count)
        self.death = self.birth + world.life.draw(random, self.count)
        self.school = self.birth + world.school_age.draw(random, self.count)
        self.degree = self.school + world.study.draw(random, self.count)
        self.work = self.degree + world.wait.draw(random, self.count)
        self.award = self.work + world.prize.draw(random, self.count)

    def told(self, share: float, group: int = 1) -> Codes:
        """The persons of whom something is told: each group with chance `share`, the first in any case."""
        told = self.random.random(self.count // group) < share
        told[0] |= share > 0
        return np.flatnonzero(np.repeat(told, group)).astype(np.int32)

    def choose(self, kind: str, each: int, who: Codes) -> Codes:
        """An entity for each person: one of `each` at home, or one of all communities."""
        at_home = self.home[who] * each + Years.popularity(each).draw(self.random, len(who))
        anywhere = Years.popularity(each * self.communities).draw(self.random, len(who))
        return _code(kind, np.where(self.random.random(len(who)) < self.world.local, at_home, anywhere))


def _biographies(people: _People) -> Codes:
    """The facts whose subjects are persons, shape (5, n)."""
    world, birth, death = people.world, people.birth, people.death
    everyone, students = np.arange(people.count, dtype=np.int32), people.told(world.studied)
    dead, winners = people.told(world.died), people.told(world.honoured)
    dead = dead[death[dead] <= world.last_year]
    prizes = _code("prize", Years.popularity(2 + people.communities // 2).draw(people.random, len(winners)))

    def block(relation: str, who: Codes, target: Codes, begin: Codes, end: Codes) -> Codes:
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


def _marriages(people: _People) -> Codes:
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


def _careers(people: _People) -> list[Codes]:
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


def _games(random: np.random.Generator, world: SyntheticSpec, facts: int, places: int) -> Codes:
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
