"""The words that reasons are told in: facts, relations and lengths of time as a person would write them."""

from dataclasses import dataclass

from timeplex.kb import dates, spans
from timeplex.kb.facts import TemporalKB


@dataclass(frozen=True, eq=False)
class Describer:
    """The names and the calendar of a KB, for sentences about its training facts."""

    kb: TemporalKB

    def fact(self, row: int) -> str:
        """A training fact: `Ada livesIn London began 1815`, `… in 1815` for an event, `… ended 1815` if that is known.

        The date is the one that gadgets count from: the begin, or the end where the begin is open.
        """
        facts = self.kb.train
        begin, end = int(facts.begin[row]), int(facts.end[row])
        entities = self.kb.entities
        triple = f"{entities.label(int(facts.s[row]))} {self.relation_of(row)} {entities.label(int(facts.o[row]))}"
        if begin == spans.OPEN_BEGIN:
            return triple if end == spans.OPEN_END else f"{triple} ended {self.date(end)}"
        return f"{triple} in {self.date(begin)}" if begin == end else f"{triple} began {self.date(begin)}"

    def relation_of(self, row: int) -> str:
        """The relation of a training fact."""
        return self.relation(int(self.kb.train.r[row]))

    def relation(self, r: int) -> str:
        """A relation by its number."""
        return self.kb.relations.label(r)

    def date(self, instant: int) -> str:
        """A calendar instant."""
        return dates.write([instant], self.kb.granularity)[0]

    def length(self, number: float) -> str:
        """A length of time in the KB's unit: `1 year`, `28 years`, `3.5 months`; the sign is left out."""
        number_text = _number(abs(number))
        return f"{number_text} {self.kb.granularity.value}{'' if number_text == '1' else 's'}"

    def spread(self, mean: float, sigma: float, cases: int) -> str:
        """Mean and standard deviation: `28 ± 8 years`; one case alone has no deviation."""
        if cases == 1:
            return self.length(mean)
        return f"{_number(abs(mean))} ± {_number(sigma)} {self.kb.granularity.value}s"

    def apart(self, gap: float) -> str:
        """Where the question lies from the fact: `26 years before`, `3 days after`, `at the same time`."""
        if gap == 0:
            return "at the same time"
        return f"{self.length(gap)} {'after' if gap > 0 else 'before'}"


def _number(number: float) -> str:
    """Whole from ten on, with one decimal below unless that is 0; large ones with commas."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}".removesuffix(".0")


def verdict(gap: float, mean: float, sigma: float) -> str:
    """Whether a gap is what the training facts have: up to one deviation off it fits, up to two it nearly does."""
    off = abs(gap - mean)
    if off <= sigma:
        return "fits"
    return "nearly fits" if off <= 2 * sigma else "does not fit"
