"""What the REST service takes and tells: schemas that OpenAPI describes."""

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from timeplex.serve import limits

Text = Annotated[str, Field(max_length=limits.LONGEST_NAME)]
Probability = Annotated[FiniteFloat, Field(ge=0, le=1)]
Limit = Annotated[int, Query(ge=1, le=limits.MOST_ROWS, description="How many rows.")]
Offset = Annotated[int, Query(ge=0, le=limits.LATER, description="How many rows come before.")]
Name = Annotated[str | None, Query(max_length=limits.LONGEST_NAME, description="An id or a label.")]
At = Annotated[
    str | None, Query(max_length=limits.LONGEST_NAME, description="A time: 2000, 2000-05, 2000..2003, 2000.. .")
]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Told(BaseModel):
    model_config = ConfigDict(extra="forbid")


# What is told ----------------------------------------------------------------------------------------------------


class Problem(_Told):
    """Why something was refused, and what to do about it."""

    error: str
    hint: str = ""


class Named(_Told):
    """An entity or a relation."""

    id: str
    label: str


class Fact(_Told):
    """A fact; begin and end are null where they are open, first and last are the same as instants of the calendar.

    `row` names it in this KB; `suspicion` is how likely it is wrong, null if nothing was found against it (yet).
    """

    row: int
    subject: Named
    relation: Named
    object: Named
    begin: str | None
    end: str | None
    first: int | None
    last: int | None
    split: str
    text: str
    suspicion: float | None


class _Page(_Told):
    total: int
    offset: int
    next: int | None


class Bar(_Told):
    """How many facts begin in a part of time."""

    first: str
    last: str
    facts: int


class KB(_Told):
    """What the KB holds; `ready` says whether its patterns are learned."""

    name: str
    granularity: str
    facts: int
    splits: dict[str, int]
    entities: int
    relations: int
    first: str | None
    last: str | None
    both_ends_known: int
    events: int
    open_begins: int
    open_ends: int
    problems: dict[str, int]
    histogram: list[Bar]
    ready: bool
    run: bool
    model: str


class EntityRow(Named):
    """An entity, and in how many facts it is."""

    facts: int


class Entities(_Page):
    """Entities; `near` says that none holds the text, and that these only look like it."""

    items: list[EntityRow]
    near: bool


class EntityPage(_Page):
    """An entity with its facts by date, and how many of each relation."""

    id: str
    label: str
    items: list[Fact]
    relations: list[EntityRow]


class RelationRow(Named):
    """A relation with what is counted of it; durations are in instants."""

    facts: int
    share_of_events: float
    median_duration: float | None
    open_begins: float
    open_ends: float


class Relations(_Page):
    """Relations, most frequent first."""

    items: list[RelationRow]


class Facts(_Page):
    """Facts by date."""

    items: list[Fact]


class Finding(_Told):
    """Why a fact is suspicious, by one rule; facts with one `rank` are one fact, told with that of rank `cause`."""

    number: int
    rank: int
    suspicion: float
    severity: float
    rule: str
    says: str
    message: str
    support: str | None
    confidence: float | None
    suggestion: str | None
    cause: int | None
    file: str | None
    line: int | None
    fact: Fact
    others: list[Fact]


class RuleCount(_Told):
    """A rule, what it says, and how much it found."""

    id: str
    says: str
    findings: int


class RelationCount(Named):
    """A relation, and how much was found in it."""

    findings: int


class Facets(_Told):
    """How much is found by what, all other filters applied."""

    rule: list[RuleCount]
    relation: list[RelationCount]


class Findings(_Page):
    """Findings, most suspicious fact first; `suspicious` facts have them."""

    items: list[Finding]
    suspicious: int
    facets: Facets
    notes: list[str]


class Calibration(_Told):
    """On how many dev facts probabilities were calibrated, and how far they were off before and after."""

    facts: int
    measured: dict[str, dict[str, float]]


class Model(_Told):
    """The model card. `dev` are figures of link prediction by the protocol; baselines those of what must be beaten."""

    model: str
    kb: str
    ready: bool
    run: str | None
    protocol: str | None
    dev: dict[str, float] | None
    training: dict[str, Any] | None
    baselines: dict[str, Any] | None
    calibration: dict[str, Calibration] | None
    notes: list[str]


# What is asked ---------------------------------------------------------------------------------------------------


class RankQuestion(_Asked):
    """Who or what stands in a relation at a time? Give one of subject and object; the other one is asked for."""

    relation: Text
    subject: Text | None = None
    object: Text | None = None
    at: Text = Field("..", description="2000, 2000-05, 2000..2003, 2000..; any time if left out.")


class RankRequest(_Asked):
    """Questions, and how they are answered; `why` asks for reasons."""

    questions: list[RankQuestion] = Field(min_length=1, max_length=limits.MOST_QUESTIONS)
    k: int = Field(10, ge=1, le=limits.MOST_ANSWERS, description="How many answers to each.")
    hide_known: bool = Field(False, description="Leave out what the KB states for that time.")
    why: bool = False

    @model_validator(mode="after")
    def _in_all(self) -> "RankRequest":
        most = limits.MOST_EXPLAINED if self.why else limits.MOST_IN_ALL
        if self.k * len(self.questions) > most:
            raise ValueError(f"k times the number of questions is at most {most}")
        return self


class Asked(_Told):
    """A question as it was understood; what is asked for is null."""

    subject: Named | None
    relation: Named
    object: Named | None
    at: str
    first: int
    last: int


class Answer(Named):
    """A candidate; what the KB states for that time has no probability, what is new is not `known`."""

    rank: int
    probability: float | None
    known: str | None
    why: list[str] | None = None


class Spanned(_Told):
    """A span: as text, and its instants."""

    text: str
    first: int
    last: int


class Ranked(_Told):
    """The answers to a question; `company` is the share of such facts that have company, if one is stated already.

    `likely` is the span in which the fact most likely held, if a time is asked for at which none is stated.
    """

    question: Asked
    likely: Spanned | None
    answers: list[Answer]
    company: float | None


class Refused(_Told):
    """Why a question, one of several, cannot be asked."""

    error: str


class RankAnswers(_Told):
    """The answers, in the order of the questions."""

    answers: list[Ranked | Refused]


class Without(_Asked):
    """A fact without its dates."""

    subject: Text
    relation: Text
    object: Text


class WhenRequest(_Asked):
    """Facts whose time is asked for; `curve` and `why` ask for more of each."""

    questions: list[Without] = Field(min_length=1, max_length=limits.MOST_QUESTIONS)
    curve: bool = False
    why: bool = False


class Span(_Told):
    """A span that is stated."""

    text: str
    begin: str | None
    end: str | None
    first: int | None
    last: int | None


class Curve(_Told):
    """How likely each of equal parts of the window is, `width` units long each; `outside` is the rest to 1."""

    first: int
    last: int
    begin: str
    end: str
    width: int
    unit: str
    probability: list[float]
    outside: float


class Because(_Told):
    """A fact that speaks for the begin."""

    sentence: str
    fact: Fact


class Dated(_Told):
    """The likeliest span, how likely it overlaps the true one, and where the begin lies in 80 % of all cases.

    If the KB states the fact already (`known`), the span is that of a further time.
    """

    subject: Named
    relation: Named
    object: Named
    begin: str
    end: str
    first: int
    last: int
    probability: float
    low: str
    high: str
    known: list[Span]
    curve: Curve | None = None
    why: list[Because] | None = None


class WhenAnswers(_Told):
    """The answers, in the order of the questions."""

    answers: list[Dated | Refused]


class ExplainQuestion(Without):
    """An answer that is to be explained: the object, or the subject."""

    at: Text = ".."
    of: Literal["object", "subject"] = "object"


class ExplainRequest(_Asked):
    """Answers that are to be explained."""

    questions: list[ExplainQuestion] = Field(min_length=1, max_length=limits.MOST_QUESTIONS)


class Part(_Told):
    """What a pattern adds to a score."""

    name: str
    value: float


class Reason(_Told):
    """The facts behind a part."""

    part: str
    sentence: str
    facts: list[Fact]


class Explained(_Told):
    """A score taken apart; the average entity has 0. `probability` is null for what the KB states."""

    subject: Named
    relation: Named
    object: Named
    at: str
    of: str
    score: float
    probability: float | None
    note: str
    parts: list[Part]
    reasons: list[Reason]


class ExplainAnswers(_Told):
    """The answers, in the order of the questions."""

    answers: list[Explained | Refused]


class Incomplete(_Asked):
    """A row with holes: null, or left out, is what is missing."""

    subject: Text | None = None
    relation: Text | None = None
    object: Text | None = None
    begin: Text | None = None
    end: Text | None = None


class FillRequest(_Asked):
    """Rows to fill; what is less likely than `min_probability` stays empty."""

    rows: list[Incomplete] = Field(min_length=1, max_length=limits.MOST_QUESTIONS)
    min_probability: Probability = 0.0


class Filled(_Told):
    """What is predicted for a row, and why; or why nothing is."""

    object: str | None
    begin: str | None
    end: str | None
    probability: float | None
    still_going_on: float | None
    reason: str


class FillAnswers(_Told):
    """The predictions, in the order of the rows."""

    answers: list[Filled]


class DiscoverRequest(_Asked):
    """Where missing facts are looked for: in these relations, or in all."""

    relations: list[Text] = Field([], max_length=limits.MOST_QUESTIONS)
    min_probability: Probability = 0.1
    limit: int = Field(limits.ROWS, ge=1, le=limits.MOST_ANSWERS)
    offset: int = Field(0, ge=0, le=limits.LATER)


class Proposal(_Told):
    """A fact that is likely true and not stated; end is null if it goes on."""

    subject: Named
    relation: Named
    object: Named
    begin: str | None
    end: str | None
    first: int | None
    last: int | None
    probability: float
    reason: str


class Proposals(_Page):
    """Missing facts, likeliest first."""

    items: list[Proposal]
