"""What made-up KBs are drawn from: distributions of whole years, and the world of which `synthetic` tells."""

# ruff: noqa: RUF009 - the calls that make the defaults of `World` give immutable values

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from timeplex.errors import InputError
from timeplex.kb.facts import Column


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
    def values(self) -> NDArray[np.int64]:
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

    def chance_by(self, value: ArrayLike) -> NDArray[np.float64]:
        """P(X ≤ value), for each value."""
        sums = np.concatenate([[0.0], np.cumsum(self.chances)])
        chances: NDArray[np.float64] = sums[np.clip(np.asarray(value) - self.first + 1, 0, len(self.chances))]
        return chances

    def draw(self, random: np.random.Generator, count: int) -> Column:
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
class World:
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
            raise InputError(problem, "See the fields of `World` for what each of them is.")
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
