"""Any system can be audited: a command, an address, a database; slowly, with pauses, and planned
beforehand."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from sqlalchemy import create_engine, text
from typer.testing import CliRunner, Result

from deniable.audit import Verdict, audit, membership
from deniable.audit.levels import Levels
from deniable.audit.statistics import detectable
from deniable.audit.system import (
    AUTHORIZATION,
    TRIES,
    Command,
    Paced,
    Recorded,
    Sql,
    Url,
    _authorize,
    plan,
    runs_needed,
)
from deniable.audit.system_options import SystemOptions
from deniable.cli import audit as command
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from tests.postgres import server

APP = typer.Typer()
APP.command()(command.audit)


def run(*arguments: str, code: int = 0) -> Result:
    """What the command says; its draws are the same in every test."""
    if "--samples" in arguments and "--seed" not in arguments:
        arguments = (*arguments, "--seed", "0")
    result = CliRunner().invoke(APP, arguments, env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, str]:
    """Two made-up neighbours of three and four people."""
    paths = tmp_path / "without.csv", tmp_path / "with.csv"
    for path, people in zip(paths, (3, 4), strict=True):
        path.write_text("person\n" + "\n".join(map(str, range(people))) + "\n", encoding="utf-8")
    return str(paths[0]), str(paths[1])


@pytest.fixture
def script(tmp_path: Path) -> str:
    """A count of lines plus 0, 1 or 2, which look like chance and are the same in every test: supports differ.

    The shell does all of it, by a generator whose state lies in a file: no other process is started."""
    path, state = tmp_path / "count.sh", tmp_path / "state"
    path.write_text(
        f"#!/bin/sh\nlines=0\nwhile read -r line; do lines=$((lines + 1)); done < $1\n"
        f"x=1\n[ -e {state} ] && read -r x < {state}\n"
        f"x=$(((x * 1103515245 + 12345) % 2147483648))\necho $x > {state}\n"
        "echo $((lines + (x / 65536) % 3))\n"
    )
    path.chmod(0o755)
    return str(path)


def test_a_command_is_audited_and_reported(tmp_path: Path, script: str, tables: tuple[str, str]) -> None:
    page, kept = tmp_path / "report.html", tmp_path / "runs.jsonl"
    line = (
        "--command",
        f"{script} {{data}}",
        "--data",
        *tables,
        "--epsilon",
        "1",
        "--samples",
        "300",
        "--seed",
        "1",
    )
    saved = tmp_path / "finding.json"
    result = run(*line, "--report", str(page), "--resume", str(kept), "--save", str(saved), code=1)
    said = result.stdout
    assert "Planned: 300 runs. On the easiest target they tell ε = 1." in " ".join(result.stderr.split())
    assert "VIOLATION" in run("--replay", str(saved), code=1).stdout
    assert "VIOLATION" in said
    written = page.read_text(encoding="utf-8")
    assert "data:image/png;base64," in written
    assert "violation" in written
    assert f"<td>{script} {{data}}</td>" in written
    assert hashlib.sha256(Path(tables[0]).read_bytes()).hexdigest() in written
    assert len(kept.read_text().splitlines()) > 250


def test_an_audit_that_was_broken_off_makes_no_run_twice(
    tmp_path: Path, script: str, tables: tuple[str, str]
) -> None:
    kept = tmp_path / "runs.jsonl"
    made: list[str] = []

    def counted(data: str) -> Any:
        made.append(data)
        return Command(f"{script} {{data}}")(data)

    first = audit(Recorded(counted, kept, "x"), tables, 1.0, seed=0, samples=300)
    whole, lines = len(made), kept.read_text().splitlines(keepends=True)
    kept.write_text("".join(lines[:120]) + lines[120][:7])  # killed in the middle of a line
    again = audit(Recorded(counted, kept, "x"), tables, 1.0, seed=0, samples=300)
    assert len(made) - whole == whole - 118  # a line about the target and one with the seed
    assert again.verdict is first.verdict is Verdict.VIOLATION
    with pytest.raises(InvalidParameter, match="of another target"):
        Recorded(counted, kept, "y")


def test_runs_keep_their_pace() -> None:
    begun = time.monotonic()
    paced = Paced(lambda data: data, rate=50)
    assert [paced("a") for _ in range(6)] == ["a"] * 6
    assert time.monotonic() - begun >= 0.1


def test_a_database_is_audited_on_two_tables(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "people.db") as base:
        for name, people in (("without", 3), ("with_her", 4)):
            base.execute(f"CREATE TABLE {name} (person INTEGER)")
            base.executemany(f"INSERT INTO {name} VALUES (?)", [(i,) for i in range(people)])
    query = "SELECT COUNT(*) + abs(random() % 3) AS n FROM {data}"
    where = (
        "--sql",
        f"sqlite:///{tmp_path / 'people.db'}",
        "--data",
        "without",
        "with_her",
        "--epsilon",
        "1",
    )
    assert "VIOLATION" in run(query, *where, "--samples", "400", code=1).stdout
    exact = run("SELECT COUNT(*) FROM {data}", *where, "--samples", "400", code=5).stdout
    assert "may be one that it keeps" in exact
    with pytest.raises(InvalidParameter, match="The database refused the query"):
        Sql(f"sqlite:///{tmp_path / 'people.db'}", "SELECT nothing FROM {data}")("without")


@pytest.mark.needs("postgres")
def test_postgresql_is_audited_on_two_schemas(tmp_path: Path) -> None:
    """Any query that PostgreSQL reads, casts by :: and times with colons in them included."""
    address, kept = server().get_uri(), tmp_path / "runs.jsonl"
    engine = create_engine(address.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        for name, people in (("audit_without", 3), ("audit_with_her", 4)):
            connection.execute(text(f"DROP SCHEMA IF EXISTS {name} CASCADE"))
            connection.execute(text(f"CREATE SCHEMA {name}"))
            connection.execute(
                text(f"CREATE TABLE {name}.visits AS SELECT generate_series(1, {people}) AS id")
            )
    engine.dispose()
    query = "SELECT COUNT(*) + (random() * 2)::int, '12:30'::time, 'a:b' FROM {data}.visits"
    where = ("--sql", address, "--data", "audit_without", "audit_with_her", "--epsilon", ".5")
    first = run(query, *where, "--samples", "400", "--resume", str(kept), code=1)
    assert "VIOLATION" in first.stdout
    runs = kept.read_text(encoding="utf-8")
    again = run(query, *where, "--samples", "400", "--resume", str(kept), code=1)
    assert again.stdout == first.stdout
    assert kept.read_text(encoding="utf-8") == runs
    made = runs.count('"output"')
    assert f"{made:,} runs are kept from before" in again.output
    other = ("--sql", address + "&application_name=other", *where[2:], "--resume", str(kept))
    assert "of another target" in run(query, *other, code=2).output


def test_an_audit_that_was_killed_goes_on(script: str, tables: tuple[str, str], tmp_path: Path) -> None:
    """The process is killed in the middle, and a line that it was writing is cut: no run is made twice."""
    kept, calls, further = tmp_path / "runs.jsonl", tmp_path / "calls", tmp_path / "further"
    path = Path(script)
    waiting = f"while [ $(wc -c < {calls}) -gt 100 ] && [ ! -e {further} ]; do sleep .05; done"
    path.write_text(path.read_text().replace("lines=0", f"printf . >> {calls}\n{waiting}\nlines=0"))
    options = ("--data", *tables, "--epsilon", "1", "--samples", "250", "--resume", str(kept))
    line = ["audit", "--command", f"{script} {{data}}", *options]
    command = [sys.executable, "-m", "deniable", *line]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    while process.poll() is None and not (kept.exists() and kept.read_bytes().count(b"\n") > 32):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)  # with the run that is on its way, which would count later
    process.wait()
    further.touch()
    before = kept.read_bytes().count(b'"output"')
    assert 30 <= before <= 100
    kept.write_bytes(kept.read_bytes() + b'{"data": "wi')
    made_before = len(calls.read_text())
    result = CliRunner().invoke(APP, line[1:])
    assert result.exit_code in {verdict.exit_code for verdict in Verdict}  # by when it was killed
    assert f"{before} runs are kept from before" in result.output
    outputs = [json.loads(each) for each in kept.read_text(encoding="utf-8").splitlines()[1:]]
    outputs = [output for output in outputs if "output" in output]
    assert all(set(output) == {"data", "output"} for output in outputs)
    assert before < len(outputs) <= 250
    assert len(calls.read_text()) - made_before == len(outputs) - before


def test_names_and_passwords_go_into_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AUTHORIZATION, "Bearer token")
    assert _authorize("https://dp.example/count") == (
        "https://dp.example/count",
        {"Authorization": "Bearer token"},
    )
    basic = base64.b64encode(b"a:b c").decode()
    assert _authorize("http://a:b%20c@dp.example:80/x?y=1") == (
        "http://dp.example:80/x?y=1",
        {"Authorization": f"Basic {basic}"},
    )
    # As a finding has it, for a replay: the name without the password.
    assert _authorize("https://a@dp.example/x")[1] == {"Authorization": "Bearer token"}
    monkeypatch.delenv(AUTHORIZATION)
    assert _authorize("https://dp.example/x") == ("https://dp.example/x", {})


class Server(BaseHTTPRequestHandler):
    """Counts the lines it is sent, or those that the address names, and adds noise."""

    def do_GET(self) -> None:
        self._answer(int(self.path.rpartition("/")[2]))

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])).count(b"\n"))

    def _answer(self, count: int) -> None:
        noise = int(np.random.default_rng().integers(3))
        body = json.dumps({"result": {"rows": [count + noise]}}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_address_is_audited(address: str, tables: tuple[str, str]) -> None:
    get = ("--url", address + "/{data}", "--json-path", "result.rows.0", "--epsilon", "1", "--samples", "900")
    assert "VIOLATION" in run(*get, "--data", "3", "4", code=1).stdout
    assert Url(address + "/count", "POST", "result.rows.0", body=True)(tables[1])[0] == 200
    assert Url(address + "/{data}", path="no.such.2")("3") == [200, None]


def test_a_path_that_never_leads_anywhere_ends_the_audit(address: str) -> None:
    nowhere = ("--url", address + "/{data}", "--json-path", "rows", "--epsilon", "1", "--samples", "300")
    said = run(*nowhere, "--data", "3", "4", code=2).output
    assert said.startswith("Planned")
    assert "--json-path rows leads to nothing in" in said
    assert "gave no JSON" not in said
    url = Url(address + "/{data}", path="result.rows.0")
    assert url("3")[1] is not None
    with pytest.raises(InvalidParameter, match="did not answer"):
        Url("http://127.0.0.1:9/{data}")("3")


Reply = tuple[int, dict[str, str]]


@contextmanager
def replying(reply: Callable[[], Reply]) -> Iterator[tuple[str, list[str]]]:
    """The address of a service that gives these statuses and headers, and the paths it was asked for."""
    asked: list[str] = []

    class Replies(Server):
        def do_GET(self) -> None:
            asked.append(self.path)
            status, headers = reply()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"7")

    with HTTPServer(("127.0.0.1", 0), Replies) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{service.server_port}/", asked
        service.shutdown()


@pytest.mark.parametrize("status", [401, 404, 500])
def test_an_address_that_answers_by_errors_alone_ends_the_audit(status: int) -> None:
    with (
        replying(lambda: (status, {})) as (address, asked),
        pytest.raises(InvalidParameter, match=f"status {status}, on both neighbours"),
    ):
        audit(Url(address + "?table={data}", path="result"), ("a", "b"), 1.0, seed=0, samples=300)
    assert len(asked) <= 40  # by coins, until both had three


def test_a_service_that_is_asked_too_often_is_asked_again() -> None:
    """Every second time it wants patience: none of that is an output."""
    turn = itertools.count()
    with replying(lambda: (429, {"Retry-After": "0"}) if next(turn) % 2 else (200, {})) as (address, asked):
        url = Url(address + "?table={data}")
        assert [url("a") for _ in range(3)] == [[200, 7]] * 3
    assert len(asked) == 5


def test_a_service_that_has_no_patience_left_ends_the_audit() -> None:
    with (
        replying(lambda: (429, {"Retry-After": "0"})) as (address, asked),
        pytest.raises(InvalidParameter, match=r"too often.*--rate"),
    ):
        Url(address + "?table={data}")("a")
    assert len(asked) == TRIES


def test_a_password_is_in_no_finding() -> None:
    """A finding is handed in, and its replay asks the environment."""
    addresses = "https://a:secret@dp.example/{data}", "postgresql://auditor:secret@db:5432/test"
    options = SystemOptions(None, *addresses, "SELECT 1", ("a", "b"), "GET", "", None, None)
    assert "secret" not in str(options.open_options) + options.name + options.subject
    assert options.open_options["sql"] == "postgresql://auditor@db:5432/test"


def test_a_plan_says_how_many_runs_are_needed() -> None:
    runs = [needed for _, needed in plan(Budget(1))]
    assert runs == sorted(runs)
    needed = runs_needed(Budget(1), 1.5)
    level = 0.8 * Levels.for_look(0.95).accusing
    assert detectable(int(0.8 * needed), epsilon=1, delta=0, alpha=level) <= 1.5
    assert detectable(int(0.8 * 0.95 * needed), epsilon=1, delta=0, alpha=level) > 1.5
    assert "true ε" in run("--plan", "--epsilon", "1").stdout
    assert json.loads(run("--plan", "--epsilon", "1", "--json").stdout)["plan"][0]["epsilon"] == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--command", "true", "--data", "a", "b", "--epsilon", "1"), "Expected {data} in --command true"),
        (("--command", "true {data}"), "add --data FIRST SECOND and --epsilon"),
        (
            ("--url", "ftp://x/{data}", "--data", "a", "b", "--epsilon", "1"),
            "to begin with http:// or https://",
        ),
        (
            ("--command", "x {data}", "--url", "http://x/{data}", "--data", "a", "b", "--epsilon", "1"),
            "Expected one of",
        ),
        (
            ("--command", "x {data}", "--data", "a", "b", "--epsilon", "1", "--rate", "0"),
            "Expected --rate 0 above 0",
        ),
        (("--plan",), "A plan is made for a claim"),
        (("--command", "/no/such/program {data}", "--data", "a", "b", "--epsilon", "1"), "did not run"),
    ],
)
def test_what_cannot_be_run_is_told_in_a_sentence(arguments: tuple[str, ...], said: str) -> None:
    assert said in run(*arguments, code=2).output


def test_scores_of_a_membership_attack_are_certified_in_one_call() -> None:
    rng = np.random.default_rng(1)
    inside = rng.random(2000) < 0.5
    found = membership(rng.normal(4.0 * inside), inside, (1.0, 1e-5))
    assert (found.verdict, found.target) == (Verdict.VIOLATION, "membership attack")
    with pytest.raises(InvalidParameter, match="fair coin"):
        membership(rng.normal(size=1000), np.arange(1000) < 700, (1.0, 1e-5))
