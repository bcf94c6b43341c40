"""`timeplex serve` as a person meets it: what it says, how it ends, and what cannot be served."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.patience import patience
from tests.serve.asked import client, kb, kept

import timeplex
from timeplex.cli import serve as verb
from timeplex.cli.main import run

TOKEN = "a-token-of-some-length"
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in ("TIMEPLEX_TOKEN", "TIMEPLEX_DEBUG")},
    "PYTHONPATH": str(Path(timeplex.__file__).parents[1]),
    "OMP_NUM_THREADS": "1",
}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "timeplex.cli.main", "serve", *words]


@contextmanager
def served(*words: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """The process, its address, and what it says until it serves."""
    process = subprocess.Popen(
        command(*words, "--port", "0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**ENVIRONMENT, **variables},
    )
    watch = threading.Timer(patience(120), process.kill)
    watch.start()
    try:
        said: list[str] = []
        for line in process.stdout or ():
            said.append(line.rstrip("\n"))
            if "Ctrl-C" in line:
                break
        found = re.search(r"http://[^\s?]*", "\n".join(said))
        assert found, said
        yield process, found[0].rstrip("/"), said
    finally:
        watch.cancel()
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_what_it_does_and_a_signal_lets_what_is_running_finish(number: signal.Signals) -> None:
    with served(str(kept())) as (process, url, said):
        text = "\n".join(said)
        assert f"The explorer of people: {url}/" in text
        assert url.startswith("http://127.0.0.1:")
        assert f"{url}/v1/kb" in text
        assert f"{url}/mcp" in text
        assert "nothing leaves this machine" in text
        assert "timeplex train KB -o RUN" in text
        assert "read-only; to keep decisions: --decisions FILE" in text
        with client(url) as asking:
            assert asking.get("/healthz").json()["status"] == "ok"
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=patience(30)) as wire:
            body = json.dumps(
                {"questions": [{"subject": "person 03", "relation": "bornIn", "object": "Oslo"}]}
            ).encode()
            head = "POST /v1/when HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            wire.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:-1])
            time.sleep(0.3)  # it has begun to read
            process.send_signal(number)
            time.sleep(0.3)
            wire.sendall(body[-1:])
            answer = b""
            while part := wire.recv(65536):
                answer += part
        assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
        assert b'"text":"1903"' in answer
        rest = process.stdout.read() if process.stdout else ""
        assert process.wait(patience(30)) == 0
        assert rest.rstrip().endswith("Stopped.")
        assert "Traceback" not in text + rest


def test_patterns_that_are_not_kept_are_learned_while_it_serves_and_ctrl_c_stops_that(tmp_path: Path) -> None:
    kb().save(tmp_path / "new.kb")
    with served(str(tmp_path / "new.kb")) as (process, url, _):
        with client(url) as asking:
            assert asking.get("/healthz").json() == {"status": "ok", "ready": False}
            assert asking.get("/v1/entities", params={"q": "person 07"}).json()["total"] == 1
            assert asking.get("/v1/model").json()["ready"] is False
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read() if process.stdout else ""
        assert process.wait(patience(60)) == 0
        assert rest.rstrip().endswith("Stopped.")
        assert "Traceback" not in rest


def test_a_token_from_the_environment_is_asked_for_and_never_printed() -> None:
    with served(str(kept()), TIMEPLEX_TOKEN=TOKEN) as (_, url, said):
        assert TOKEN not in "\n".join(said)
        assert f"{url}/?token=TOKEN" in "\n".join(said)
        assert "Who knows the token" in "\n".join(said)
        with client(url) as asking:
            assert asking.get("/v1/kb").status_code == 401
            assert asking.get("/v1/kb", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_agents_are_served_until_their_input_ends() -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    done = subprocess.run(
        command(str(kept()), "--mcp"),
        input=json.dumps(request) + "\n",
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=patience(60),
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1]
    assert done.stderr.startswith("Tools for agents over people")


def complaint(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """The one sentence of a failure."""
    monkeypatch.setattr(sys, "argv", ["timeplex", "serve", *words])
    with pytest.raises(SystemExit) as left:
        run()
    out, err = capsys.readouterr()
    assert left.value.code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err.removeprefix("error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such.csv"], "no-such.csv"),
        (["sample", "--host", "0.0.0.0"], "0.0.0.0 can be reached from other machines, and there is no token."),
        (["sample", "--host", "::"], ":: can be reached from other machines, and there is no token."),
        (["sample", "--host", "no such host"], "'no such host' is no address of this machine."),
        (["sample", "--token", "short"], "The token has 5 characters, at least 16 are needed."),
        (["sample", "--token", "with a space in it, but long"], "The token has characters that a header cannot hold."),
    ],
)
def test_what_cannot_be_served_is_told_in_a_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIMEPLEX_TOKEN", raising=False)
    assert said in complaint(capsys, monkeypatch, *words)


def test_a_damaged_kb_is_told_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kb().save(tmp_path / "bad.kb")
    (tmp_path / "bad.kb" / "facts.parquet").write_bytes(b"PAR1 nothing PAR1")
    assert "facts.parquet" in complaint(capsys, monkeypatch, str(tmp_path / "bad.kb"), "--port", "0")


def test_a_port_in_use_is_told_before_anything_is_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = complaint(capsys, monkeypatch, "no-such.csv", "--port", str(port))
    assert told == (
        f"Port {port} of 127.0.0.1 cannot be used: address already in use. "
        "Choose another one with --port; 0 takes any that is free."
    )


def test_a_missing_package_is_told_in_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verb, "NEEDED", ("fastapi", "no_such_package"))
    told = complaint(capsys, monkeypatch, "sample")
    assert told == (
        "The explorer needs what is not installed: no_such_package. Install it with: pip install timeplex[serve]"
    )
