"""The protocol: every choice that a figure of link prediction depends on, saved and printed with it."""

from dataclasses import asdict, dataclass, replace
from typing import Literal, get_args

from timeplex.errors import InputError
from timeplex.kb.timeline import Kind

Filter = Literal["none", "ignore-time", "exact-span", "per-instant"]
FILTERS: tuple[Filter, ...] = get_args(Filter)
"""Which known answers are forgiven (`ranking`)."""

Ties = Literal["realistic", "pessimistic", "optimistic"]
SpanScore = Literal["sum", "begin"]
Unseen = Literal["last", "scored"]


@dataclass(frozen=True)
class Protocol:
    """How gold answers are ranked.

    filter      which known answers are forgiven (`ranking`)
    ties        whether an entity with the gold's score stands above it: half of it, all of it, or none
    span_score  the score of a span: the sum over its instants, or the score at its begin
    instants    what |T ∩ U| / |T| is counted in: every calendar instant, or those that occur in the KB
    unseen      entities without a training fact: ranked last, or as the model scores them; as golds they always count

    Open ends run to the first and the last instant of the timeline.
    """

    name: str
    filter: Filter = "per-instant"
    ties: Ties = "realistic"
    span_score: SpanScore = "sum"
    instants: Kind = "calendar"
    unseen: Unseen = "last"

    def as_dict(self) -> dict[str, str]:
        """For JSON."""
        return asdict(self)

    def __str__(self) -> str:
        score = "their sum over instants" if self.span_score == "sum" else "their begin"
        return (
            f"{self.name}: {self.filter} filter over {self.instants} instants, {self.ties} ties, "
            f"spans scored by {score}, unseen entities {'ranked last' if self.unseen == 'last' else 'as scored'}"
        )


PAPER = Protocol("paper")
PUBLISHED_CODE = Protocol("published-code", ties="pessimistic", span_score="begin", instants="observed")
PROTOCOLS = {each.name: each for each in (PAPER, PUBLISHED_CODE)}


def protocol(name: str | Protocol, filter_: str | None = None) -> Protocol:
    """A protocol, or the preset of this name, with another filter if one is given."""
    if not isinstance(name, Protocol) and name not in PROTOCOLS:
        raise InputError(f"There is no protocol {name!r}.", f"Use one of: {', '.join(PROTOCOLS)}.")
    chosen = name if isinstance(name, Protocol) else PROTOCOLS[name]
    if filter_ is None:
        return chosen
    if filter_ not in FILTERS:
        raise InputError(f"There is no filter {filter_!r}.", f"Use one of: {', '.join(FILTERS)}.")
    return replace(chosen, filter=FILTERS[FILTERS.index(filter_)])
