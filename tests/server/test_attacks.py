"""Attacks on budget, identity and leaks, from outside, through every door."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.datasets.visits import visits
from deniable.errors import TamperedLedger
from deniable.ledger import Ledger
from deniable.server.http.app import api
from deniable.server.http.door import Door
from deniable.server.http.guard import locate_error
from deniable.server.people.rights import Caller, Role
from tests.server.hospital import COUNT, SCHEMA, UNIT, Hospital, hospital, opened, register, settings

ROOT = Path(__file__).parent.parent.parent

# ------------------------------------------------------------------------------------------------ identity

ASK = {"sql": COUNT, "epsilon": 0.1}
LIMIT = {"epsilon": 2000, "delta": "1e-6"}
NEW = {
    "name": "new",
    "sources": {"visits": "visits.parquet"},
    "schema": SCHEMA,
    "unit": UNIT.to_dict(),
    "limit": LIMIT,
}
BODIES: dict[str, Any] = {
    "/v1/login": {"name": "ada", "password": "wrong" * 4},
    "/v1/password": {"new": "another good password"},
    "/v1/tokens": {"scope": ["manage"]},
    "/v1/people": {"name": "mallory", "roles": ["owner"]},
    "/v1/people/{name}": {"roles": ["owner"]},
    "/v1/people/{name}/identity": {"subject": "mallory"},
    "/v1/datasets": NEW,
    "/v1/datasets/{name}/version": {"version": "9"},
    "/v1/datasets/{name}/owner": {"owner": "ada"},
    "/v1/datasets/{name}/analysts": {"analyst": "ada", "limit": LIMIT},
    "/v1/datasets/{name}/preview": ASK,
    "/v1/datasets/{name}/queries": ASK,
    "/v1/datasets/{name}/jobs": ASK,
    "/v1/audits": {"data": "secret", "sql": "SELECT * FROM visits", "epsilon": 1},
    "/v1/accounts/{name}/raise": {"limit": LIMIT, "reason": "I want it."},
    "/v1/accounts/{name}/freeze": {"reason": "I want it."},
    "/v1/accounts/{name}/unfreeze": {"reason": "I want it."},
}
OWN = {"/v1/me", "/v1/tokens", "/v1/datasets", "/v1/accounts", "/v1/ledger/entries"}
"""Lists of one's own: answered to everybody who is logged in, each with her own part."""
LOOK = {
    "/v1/ledger/head",
    "/v1/ledger/verify",
    "/v1/ledger/export",
    "/v1/acts",
    "/v1/people",
    "/v1/datasets/{name}",
}
LOOK |= {"/v1/audits", "/v1/proposals", "/v1/accounts/{name}", "/v1/certificates/{seq}"}
"""What an auditor may read."""


def routes(running: Hospital) -> list[tuple[str, str]]:
    said = api(Door(running.service, None)).openapi()["paths"]  # type: ignore[arg-type]
    return [(method, path) for path, methods in said.items() for method in methods]


def foreign(running: Hospital) -> dict[str, str]:
    """What is bob's: a data set, an entry, a token, a job."""
    with running.api("olga") as owner:
        pq.write_table(visits(200), running.service.settings.roots[0] / "secret.parquet")
        assert register(owner, "secret", "secret.parquet").status_code == 201
        share = {"analyst": "bob", "limit": {"epsilon": 10}}
        assert owner.post("/v1/datasets/secret/analysts", json=share).status_code == 201
    with running.api("bob") as bob:
        entry = bob.post("/v1/datasets/secret/queries", json=ASK).json()["entry"].split(":")[0]
        job = bob.post("/v1/datasets/secret/jobs", json=ASK).json()["job"]
    token = running.tokens["bob"].split("_")[1]
    return {"name": "secret", "seq": entry, "job": job, "token": token, "proposal": "0" * 16, "audit": "1"}


def send(client: httpx.Client, method: str, path: str, ids: dict[str, str]) -> httpx.Response:
    named = {**ids, "name": "bob"} if path.startswith("/v1/people") else ids
    filled = re.sub(r"\{(\w+)\}", lambda found: named[found[1]], path)
    body = BODIES.get(path) if method in ("post", "put", "patch") else None
    return client.request(method, filled, json=body)


def allowed(who: str | None, method: str, path: str) -> set[int]:
    """The statuses that a route may answer with."""
    if path in ("/v1/health", "/v1/ready"):
        return {200}
    if path.startswith("/v1/oidc/"):
        return {404}  # there is no provider here
    if who is None or path in ("/v1/login", "/v1/password", "/v1/logout"):
        return {401}  # a token is no session
    if method == "get" and (path in OWN or (who == "vera" and path in LOOK)):
        return {200}
    if who == "vera" and path == "/v1/audits":
        return {422}  # it is an auditor's to run, and this is no question
    return {403, 404}


def test_no_route_gives_a_role_what_is_not_its_own(fresh: Hospital) -> None:
    ids = foreign(fresh)
    every = routes(fresh)
    assert {path for method, path in every if method in ("post", "put", "patch")} >= set(BODIES)
    owner = Caller("olga", frozenset({Role.OWNER}))
    acts, head = len(fresh.service.acts(owner)), fresh.service.ledger.head()
    for who in (None, "ada", "vera"):
        with fresh.client(None if who is None else fresh.tokens[who]) as client:
            for method, path in every:
                said = send(client, method, path, ids)
                assert said.status_code in allowed(who, method, path), (who, method, path, said.text)
                if who == "ada":
                    assert not re.search("secret|bob|vera", said.text), (method, path, said.text)
    assert (len(fresh.service.acts(owner)), fresh.service.ledger.head()) == (acts, head)


def test_a_name_passed_in_proves_nothing(fresh: Hospital) -> None:
    for header in ("X-User", "X-Forwarded-User", "Remote-User", "X-Deniable-Analyst"):
        with fresh.client() as client:
            assert client.get("/v1/me", headers={header: "olga"}).status_code == 401
    with fresh.api("ada") as client:
        said = client.post("/v1/datasets/visits/queries?analyst=bob", json={**ASK, "analyst": "bob"})
        assert said.status_code == 422
        client.post("/v1/datasets/visits/queries?analyst=bob", json=ASK)
    assert (fresh.spent("visits/ada"), fresh.spent("visits/bob")) == (pytest.approx(0.1), 0.0)


def test_a_data_set_cannot_take_the_name_of_a_part(fresh: Hospital) -> None:
    pq.write_table(visits(50), fresh.service.settings.roots[0] / "more.parquet")
    with fresh.api("olga") as owner:
        for name in ("visits/ada", "visits/eve", "../visits"):
            assert register(owner, name, "more.parquet").status_code == 422
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(fresh.dsn(data="visits/ada"))


# ------------------------------------------------------------------------------------------------ budget


def race(workers: int, act: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=act, args=(i,)) for i in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def crowd(url: str, token: str, dsn: str, worker: int, asks: int) -> list[str]:
    """One of a crowd that spends at once: half of them over HTTP, half over the wire."""
    queries = [f"{COUNT} WHERE age > {worker} AND days > {j % 50} AND cost > {j}" for j in range(asks)]
    if worker % 2:
        head = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=url, headers=head, timeout=600, trust_env=False) as client:
            bodies = ({"sql": query, "epsilon": 1} for query in queries)
            said = [client.post("/v1/datasets/visits/queries", json=body).status_code for body in bodies]
        return [{200: "granted", 409: "refused"}.get(status, "other") for status in said]
    with psycopg.connect(dsn, autocommit=True) as connection:
        return [asked(connection, query) for query in queries]


def asked(connection: psycopg.Connection, query: str) -> str:
    try:
        connection.execute(query)  # type: ignore[call-overload]
    except psycopg.Error as error:
        return "refused" if error.sqlstate == "53400" else "other"
    return "granted"


def test_a_race_through_both_doors_grants_the_limit_and_no_more(tmp_path: Path) -> None:
    with hospital(tmp_path, part=10, rows=200) as running:
        outcomes: list[str] = []
        race(
            6,
            lambda i: outcomes.extend(
                crowd(running.url, running.tokens["ada"], running.dsn(epsilon="1"), i, 4)
            ),
        )
        assert sorted(outcomes) == ["granted"] * 10 + ["refused"] * 14
        assert running.spent("visits/ada") == pytest.approx(10)
        assert running.service.ledger.verify().ok


@pytest.mark.soak
def test_a_long_race_of_processes_grants_the_limit_and_no_more(tmp_path: Path) -> None:
    with hospital(tmp_path, part=500, rows=200) as running:
        long_race(running)


def long_race(running: Hospital) -> None:
    """Eight processes with 250 questions each, half of them over HTTP, half over the wire, for 500 in all."""
    code = "import sys\nfrom tests.server.test_attacks import crowd\nprint(*crowd(*sys.argv[1:4], int(sys.argv[4]), 250))"
    command = [sys.executable, "-c", code, running.url, running.tokens["ada"], running.dsn(epsilon="1")]
    workers = [
        subprocess.Popen([*command, str(i)], env=environ(), stdout=subprocess.PIPE, text=True)
        for i in range(8)
    ]
    outcomes = [word for worker in workers for word in (worker.communicate()[0] or "").split()]
    assert sorted(outcomes) == ["granted"] * 500 + ["refused"] * 1500
    assert running.spent("visits/ada") == pytest.approx(500)
    assert running.service.ledger.verify().ok


def environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


def test_many_at_once_with_one_question_pay_once(fresh: Hospital) -> None:
    answers: list[Any] = []
    race(6, lambda i: answers.append(fresh.ask("ada", key="k" if i % 2 else f"k{i}").json()))
    assert len({(said["entry"], str(said["rows"])) for said in answers}) == 1
    assert fresh.spent() == pytest.approx(0.1)


DYING = """
import os, signal, sys
from pathlib import Path
from deniable.ledger import Account
from deniable.server.people.rights import Caller, Role
from deniable.curator.question import Question
from deniable.server.service import Service
from tests.server.hospital import COUNT, settings

service = Service(settings(Path(sys.argv[1])))
Account.keep = lambda *args, **more: os.kill(os.getpid(), signal.SIGKILL)
service.ask(Caller("ada", frozenset({Role.ANALYST})), "visits", Question.read(COUNT, epsilon="0.1"), key=sys.argv[2])
"""


@contextmanager
def again(folder: Path) -> Iterator[Hospital]:
    """The same service once more, after it ended or was killed, with new tokens."""
    with opened(settings(folder)) as running:
        made = Hospital(**vars(running))
        for name in ("ada", "bob"):
            caller = Caller(name, frozenset({Role.ANALYST}))
            made.tokens[name] = running.service.roster.new_token(caller, "again", ["ask"], 3600).text
        yield made


def killed_before_it_is_kept(folder: Path, key: str) -> None:
    died = subprocess.run([sys.executable, "-c", DYING, str(folder), key], env=environ(), check=False)
    assert died.returncode == -signal.SIGKILL


def test_killed_between_charge_and_keep_the_charge_stands_and_nothing_runs_under_it(tmp_path: Path) -> None:
    with hospital(tmp_path, rows=200):
        pass
    killed_before_it_is_kept(tmp_path, "k1")
    with again(tmp_path) as running:
        assert running.spent("visits/ada") == pytest.approx(0.1)
        for _ in range(2):
            said = running.ask("ada", key="k1")
            assert said.status_code == 409
            assert (said.json()["error"], said.json()["entry"]) == ("AlreadyPaid", 4)
        assert running.spent("visits/ada") == pytest.approx(0.1)
        assert running.ask("ada", key="k2").status_code == 200
        assert running.spent("visits/ada") == pytest.approx(0.2)
        assert running.ask("ada", f"{COUNT} WHERE age > 2", epsilon="399.8").status_code == 200
        again_paid = running.ask("ada", f"{COUNT} WHERE age > 1", key="k3")
        assert (again_paid.status_code, again_paid.json()["error"]) == (409, "BudgetExceeded")
        assert running.service.ledger.verify().ok


@pytest.mark.soak
def test_three_hundred_kills_lose_nothing_and_charge_nothing_twice(tmp_path: Path) -> None:
    with hospital(tmp_path, rows=200):
        pass
    for i in range(300):
        killed_before_it_is_kept(tmp_path, f"k{i}")
    with again(tmp_path) as running:
        assert running.spent("visits/ada") == pytest.approx(30)
        assert {running.ask("ada", key=f"k{i}").status_code for i in range(300)} == {409}
        assert running.spent("visits/ada") == pytest.approx(30)
        assert running.service.ledger.verify().ok


def test_a_ledger_that_was_set_back_is_found_against_a_head_kept_elsewhere(tmp_path: Path) -> None:
    with hospital(tmp_path, rows=200) as running:
        folder = running.service.settings.folder
    old = {path: path.read_bytes() for path in folder.glob("privacy.db*")}
    with again(tmp_path) as running:
        running.ask("ada")
        head = str(running.service.ledger.head())
        assert running.service.ledger.verify(head).ok
    for path in folder.glob("privacy.db*"):
        path.unlink()
    for path, content in old.items():
        path.write_bytes(content)
    with pytest.raises(TamperedLedger, match="not the one that this service wrote"), again(tmp_path):
        pass
    with Ledger.open(f"sqlite:///{folder}/privacy.db", key=folder / "ledger.key") as ledger:
        assert not ledger.verify(head).ok


# ------------------------------------------------------------------------------------------------ leaks

CANARY = "CANARY-7f3a9c"


def test_a_canary_is_in_no_byte_that_leaves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    table = visits(200)
    wards = [CANARY, *table.column("ward").to_pylist()[1:]]
    pq.write_table(
        table.set_column(table.column_names.index("ward"), "ward", pa.array(wards)), data / "visits.parquet"
    )
    queries = [
        "SELECT COUNT(*) AS n FROM visits WHERE ward LIKE 'CAN%'",
        "SELECT SUM(CAST(ward AS INTEGER)) AS n FROM visits",
        "SELECT ward FROM visits",
        "SELECT COUNT(*) FROM visits WHERE 1 / (days - days) > 0",
        "SELECT MAX(ward) FROM visits",
        "SELECT COUNT(*) AS n FROM visits WHERE days > 0",
    ]
    with caplog.at_level(logging.DEBUG), hospital(tmp_path) as running:
        said = [running.ask("ada", query).text for query in queries] + wire_says(running, queries)
        said += failing_engine(running, data / "visits.parquet")
        looked: list[str] = []
        for who in ("ada", "vera", "olga"):
            with running.api(who) as client:
                seen = said if who == "ada" else looked  # a journal names its sources to owner and auditor
                for path in (
                    "ledger/entries",
                    "accounts",
                    "acts",
                    "datasets/visits",
                    "ledger/export",
                    "tokens",
                ):
                    seen.append(client.get(f"/v1/{path}").text)
        secrets = list(running.tokens.values())
    ours = [record for record in caplog.records if record.name.startswith(("deniable", "uvicorn", "asyncio"))]
    logged = [f"{record.getMessage()} {record.exc_text}" for record in ours]
    everything = "\n".join([*said, *looked, *capfd.readouterr(), *logged])
    assert CANARY not in everything
    assert str(data) not in "\n".join(said)
    assert not any(secret in everything for secret in secrets)


def failing_engine(running: Hospital, file: Path) -> list[str]:
    """What is said when the file behind a data set is broken, and full of the canary."""
    file.write_bytes(b"PAR1" + CANARY.encode() * 50 + b"PAR1")
    with running.api("olga") as owner:
        assert owner.put("/v1/datasets/visits/version", json={"version": "2"}).status_code == 200
    failed = running.ask("ada", "SELECT COUNT(*) AS n FROM visits WHERE days > 1")
    assert failed.status_code in (423, 503)
    return [failed.text, *wire_says(running, ["SELECT COUNT(*) AS n FROM visits WHERE days > 2"])]


def wire_says(running: Hospital, queries: list[str]) -> list[str]:
    said: list[str] = []
    try:
        with psycopg.connect(running.dsn(epsilon="0.1"), autocommit=True) as connection:
            connection.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
            for query in queries:
                try:
                    said.append(str(connection.execute(query).fetchall()))  # type: ignore[call-overload]
                except psycopg.Error as error:
                    said.append(str(error))
    except psycopg.Error as error:
        said.append(str(error))
    return said


def test_a_bug_tells_where_it_is_and_nothing_of_what_it_held(
    shared: Hospital, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **more: object) -> None:
        raise RuntimeError(CANARY)

    monkeypatch.setattr(shared.service, "asking", broken)
    said = shared.ask("ada")
    assert (said.status_code, said.json()["error"]) == (500, "Internal")
    assert CANARY not in said.text
    assert CANARY not in "".join(wire_says(shared, [COUNT]))
    with pytest.raises(RuntimeError) as raised:
        broken()
    assert CANARY not in locate_error(raised.value)
