"""The explorer as one ASGI application: pages, REST and tools for agents behind the same guard."""

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Route

from timeplex import __version__
from timeplex.errors import BusyError, TimeplexError, UnknownNameError
from timeplex.serve import agents, pages, rendering, rest
from timeplex.serve.safety import Guard, Limits
from timeplex.serve.service import Service
from timeplex.text import quoted, visible

ABOUT = "Temporal facts: who, when, why, what is missing and what is wrong. Names are ids or labels."

log = logging.getLogger("timeplex.serve")


def create_app(
    service: Service,
    *,
    token: str | None = None,
    hosts: Iterable[str] = (),
    decisions: Any = None,
    limits: Limits | None = None,
) -> FastAPI:
    """The application.

    token      asked of every request but /healthz
    hosts      names that the server is asked by, beside those of this machine alone (see `safety.Guard`)
    decisions  the file that the review queue appends to; None makes it read-only
    """
    tools = agents.Mounted(agents.server(service))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with tools.running():
            yield

    app = FastAPI(
        lifespan=lifespan,
        title="timeplex",
        version=__version__,
        description=ABOUT,
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_middleware(Guard, token=token, hosts=tuple(hosts), limits=limits)
    for kind in (TimeplexError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _refused)

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> dict[str, object]:
        """Whether the server lives; the one route that asks for no token."""
        return {"status": "ok", "ready": service.ready}

    app.include_router(rest.routes(service))
    app.router.routes.append(Route("/mcp", tools, methods=["POST"], include_in_schema=False))
    app.include_router(pages.routes(service, decisions))
    app.state.problem_page = rendering.problem_page
    return app


def _refused(request: Request, error: Exception) -> Response:
    """One sentence on what is wrong and one on what to do, whatever was asked."""
    status, problem, hint, headers = _said(error)
    page = getattr(request.app.state, "problem_page", None)
    if page is not None and "text/html" in request.headers.get("accept", ""):  # a person with a browser
        shown: Response = page(request, status, problem, hint)
        shown.headers.update(headers)
        return shown
    return JSONResponse({"error": visible(problem), "hint": visible(hint)}, status, headers)


def _said(error: Exception) -> tuple[int, str, str, dict[str, str]]:
    """Status, problem, hint and headers of an error."""
    if isinstance(error, BusyError):
        return 503, error.problem, error.hint, {"retry-after": str(error.retry_after)}
    if isinstance(error, TimeplexError):
        return 404 if isinstance(error, UnknownNameError) else 422, error.problem, error.hint, {}
    if isinstance(error, RequestValidationError):
        return 422, *_invalid(error), {}
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail), "", dict(error.headers or {})
    raise error


def _invalid(error: RequestValidationError) -> tuple[str, str]:
    """The first of what is wrong, and where."""
    first = error.errors()[0]
    where = ".".join(
        quoted(each, 60) if isinstance(each, str) and not each.isidentifier() else str(each)
        for each in first["loc"][:6]
    )
    return f"{where}: {first['msg']}.", "See /openapi.json for what is taken."
