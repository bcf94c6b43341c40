"""The verb `serve`: the explorer on this machine, over HTTP or, for agents, over standard input and output."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from timeplex.cli import options
from timeplex.cli.show import say, visible
from timeplex.errors import InputError

if TYPE_CHECKING:
    from timeplex.answers.learned import Learned
    from timeplex.serve.service import Service
    from timeplex.typing import Progress

NEEDED = ("fastapi", "uvicorn", "jinja2", "mcp")


def serve(
    source: str = options.RUN_OR_KB,
    port: int = typer.Option(8765, min=0, max=65535, help="The port; 0 takes any that is free."),
    host: str = typer.Option("127.0.0.1", help="The address to be reached at; another one needs a token."),
    token: str | None = typer.Option(
        None, envvar="TIMEPLEX_TOKEN", show_envvar=True, help="What everybody has to know who asks."
    ),
    allow_host: list[str] = typer.Option(
        [], "--allow-host", metavar="NAME", help="A name that the server is reached by, beside its address."
    ),
    decisions: Path | None = typer.Option(
        None, metavar="FILE", help="The CSV file that decisions of the review queue are appended to."
    ),
    mcp: bool = typer.Option(False, "--mcp", help="Serve agents on standard input and output, and nobody else."),
    models: list[str] = options.OWN_MODELS,
    device: str = options.DEVICE,
    data_dir: Path | None = options.DATA_DIR,
) -> None:
    """Open the explorer: a page, a REST service and tools for agents, over one KB or run.

    A KB is enough to search, to look at timelines and findings, and to ask what its patterns say; a run adds what a
    trained model knows. Only this machine can reach it, unless you give a token; nothing is sent anywhere else.

    Example: timeplex serve runs/sample --decisions decisions.csv
    """
    _check_installed()
    if mcp:
        _serve_agents(options.to_ask(source, data_dir, device, models))
        return
    from timeplex.serve.server import opened, run, url

    with opened(host, port, token) as made:
        asked = options.to_ask(source, data_dir, device, models)
        from timeplex.serve.app import create_app
        from timeplex.serve.service import Service

        service = Service(asked)
        app = create_app(service, token=token, hosts=[host, *allow_host], decisions=decisions)

        def started() -> None:
            _say_where(url(made, host), service, token, decisions)
            service.start(lambda: _told(asked))

        try:
            run(app, made, on_start=started)
        finally:
            service.close()
    say("Stopped.")


def _check_installed() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"The explorer needs what is not installed: {', '.join(missing)}.",
            "Install it with: pip install timeplex[serve]",
        )


def _say_where(url: str, service: "Service", token: str | None, decisions: Path | None) -> None:
    say(f"The explorer of {service.kb.name}: {url}{'?token=TOKEN' if token else ''}")
    say(f"REST: {url}v1/kb, described in {url}openapi.json; tools for agents (MCP): {url}mcp")
    if token is None:
        say("Only this machine can reach it, and nothing leaves this machine.")
    else:
        say("Who knows the token can reach it; nothing is sent anywhere else.")
    if service.run is None:
        say("Its patterns answer, without a run. What a trained model knows, too: timeplex train KB -o RUN")
    if decisions is None:
        say("The review queue is read-only; to keep decisions: --decisions FILE")
    else:
        say(f"Decisions are appended to {decisions}.")
    say("Stop with Ctrl-C: what is running is finished.")


@contextmanager
def _told(asked: "Learned") -> "Iterator[Progress | None]":
    """Say that patterns are learned, and that they are."""
    with options.learning(asked):
        yield asked.on_progress
    say(f"The patterns of {asked.kb.name} are learned.")


def _serve_agents(asked: "Learned") -> None:
    """Until standard input ends. Nothing but the protocol is written on standard output."""
    import anyio

    from timeplex.serve.agents import server
    from timeplex.serve.service import Service

    service = Service(asked)
    typer.echo(visible(f"Tools for agents over {asked.kb.name}, on standard input and output."), err=True)
    service.start()
    try:
        anyio.run(server(service).run_stdio_async)
    finally:
        service.close()
