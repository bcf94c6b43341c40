"""The REST service under /v1: the functions of `Service`, with schemas that OpenAPI describes.

Lists come in pages (`limit`, `offset`; `next` is where the next page begins). Many questions go in one call; one that
cannot be asked has an `error` in its place. Every refusal is a `Problem`.
"""

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import FiniteFloat

from timeplex.serve import limits
from timeplex.serve.asked import Question, Triple
from timeplex.serve.schemas import (
    KB,
    At,
    DiscoverRequest,
    Entities,
    EntityPage,
    ExplainAnswers,
    ExplainRequest,
    Facts,
    FillAnswers,
    FillRequest,
    Findings,
    Limit,
    Model,
    Name,
    Offset,
    Problem,
    Proposals,
    RankAnswers,
    RankRequest,
    Relations,
    WhenAnswers,
    WhenRequest,
    Without,
)
from timeplex.serve.service import Service

if TYPE_CHECKING:
    from collections.abc import Sequence

_SAID = {
    400: "The request cannot be read, or this server is not known by that name.",
    401: "The token is missing or wrong.",
    403: "The request comes from a page of another site.",
    404: "There is no such name; the hint, or the error, names near ones.",
    405: "There is no such method here.",
    408: "The body came too slowly.",
    413: "The body is larger than 64 kB.",
    431: "The head of the request is larger than 16 kB.",
    422: "A value is not what it should be.",
    503: "Too many ask, or the answer takes too long; Retry-After says when to ask again.",
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": said} for status, said in _SAID.items()
}


def routes(service: Service) -> APIRouter:
    """The routes under /v1."""
    router = APIRouter(prefix="/v1", responses=REFUSALS, tags=["v1"])

    @router.get("/kb")
    def kb() -> KB:
        """What the KB holds."""
        return KB.model_validate(service.about())

    @router.get("/entities")
    def entities(
        q: Annotated[str, Query(max_length=limits.LONGEST_NAME, description="Part of a label or id.")] = "",
        limit: Limit = limits.ROWS,
        offset: Offset = 0,
    ) -> Entities:
        """Search entities, best first; those with the most facts if no text is given."""
        return Entities.model_validate(service.search(q, limit, offset))

    @router.get("/entities/{id:path}")
    def entity(
        id: Annotated[str, Path(max_length=limits.LONGEST_NAME, description="An id or a label.")],
        limit: Limit = limits.ROWS,
        offset: Offset = 0,
    ) -> EntityPage:
        """An entity with its facts by date."""
        return EntityPage.model_validate(service.entity(id, limit, offset))

    @router.get("/relations")
    def relations(limit: Limit = limits.ROWS, offset: Offset = 0) -> Relations:
        """The relations, most frequent first."""
        return Relations.model_validate(service.relations(limit, offset))

    @router.get("/facts")
    def facts(
        entity: Name = None,
        subject: Name = None,
        relation: Name = None,
        object: Name = None,
        at: At = None,
        limit: Limit = limits.ROWS,
        offset: Offset = 0,
    ) -> Facts:
        """The facts of an entity, a subject, a relation, an object, that hold at a time, by date."""
        of = {"entity": entity, "subject": subject, "relation": relation, "object": object}
        return Facts.model_validate(service.facts(**of, at=at, limit=limit, offset=offset))

    @router.get("/findings")
    def findings(
        rule: Name = None,
        relation: Name = None,
        entity: Name = None,
        min_severity: Annotated[FiniteFloat, Query(ge=0, le=1)] = 0.0,
        at: At = None,
        limit: Limit = limits.ROWS,
        offset: Offset = 0,
    ) -> Findings:
        """What is probably wrong in the KB, most suspicious fact first."""
        chosen = {"rule": rule, "relation": relation, "entity": entity, "at": at}
        return Findings.model_validate(
            service.findings(**chosen, min_severity=min_severity, limit=limit, offset=offset)
        )

    @router.get("/model")
    def model() -> Model:
        """The model card."""
        return Model.model_validate(service.model())

    @router.post("/rank")
    def rank(asked: RankRequest) -> RankAnswers:
        """Who or what stands in a relation at a time."""
        questions = [Question(**each.model_dump()) for each in asked.questions]
        found = service.rank(questions, k=asked.k, hide_known=asked.hide_known, why=asked.why)
        return RankAnswers.model_validate({"answers": found})

    @router.post("/when")
    def when(asked: WhenRequest) -> WhenAnswers:
        """When facts held, if they did."""
        found = service.when(_triples(asked.questions), curve=asked.curve, why=asked.why)
        return WhenAnswers.model_validate({"answers": found})

    @router.post("/explain")
    def explain(asked: ExplainRequest) -> ExplainAnswers:
        """Why answers are likely."""
        ways = [(each.at, each.of) for each in asked.questions]
        found = service.explain_all(_triples(asked.questions), ways)
        return ExplainAnswers.model_validate({"answers": found})

    @router.post("/fill")
    def fill(asked: FillRequest) -> FillAnswers:
        """Fill the holes of rows."""
        found = service.fill([row.model_dump() for row in asked.rows], min_probability=asked.min_probability)
        return FillAnswers.model_validate({"answers": found})

    @router.post("/discover")
    def discover(asked: DiscoverRequest) -> Proposals:
        """Facts that are likely true and not stated; the first search takes long, and one is told to ask again."""
        found = service.discover(
            asked.relations, min_probability=asked.min_probability, limit=asked.limit, offset=asked.offset
        )
        return Proposals.model_validate(found)

    return router


def _triples(questions: "Sequence[Without]") -> list[Triple]:
    return [Triple(each.subject, each.relation, each.object) for each in questions]
