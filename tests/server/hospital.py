"""A service as an operator would start it: settings, first login, people, a registered data set, both doors
open."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq

from deniable.datasets.visits import visits
from deniable.server.people.rights import Right
from deniable.server.run import Doors
from deniable.server.service import Service
from deniable.server.settings import Address, Engines, Rates, Settings
from deniable.units import Unit

SCHEMA = """
tables:
  visits:
    unit: patient_id
    columns:
      patient_id: integer
      age: {type: integer, bounds: [0, 100]}
      sex: {type: text, keys: [F, M]}
      ward: text
      diagnosis: text
      admitted: date
      days: {type: integer, bounds: [0, 60]}
      cost: {type: integer, bounds: [0, 50000]}
"""
UNIT = Unit.column("patient_id", max_rows=4)
PASSWORD = "correct horse battery"
FAST = Rates("1000/second", "1000/second", "100000/second", "100000/second", "100000/second")
COUNT = "SELECT COUNT(*) AS n FROM visits"


@dataclass
class Running:
    """A service whose doors are open, in a thread of this process."""

    service: Service
    doors: Doors
    thread: threading.Thread

    @property
    def url(self) -> str:
        assert self.doors.http is not None
        scheme = "https" if self.service.settings.tls else "http"
        return f"{scheme}://{self.doors.http}"

    @property
    def port(self) -> int:
        assert self.doors.wire is not None
        return self.doors.wire.port

    def client(self, token: str | None = None) -> httpx.Client:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        trusted = self.service.settings.certificate
        verify = True if trusted is None else ssl.create_default_context(cafile=str(trusted))
        return httpx.Client(base_url=self.url, headers=headers, timeout=600, trust_env=False, verify=verify)


@dataclass
class Hospital(Running):
    """With an owner, two analysts and an auditor, each with a token."""

    tokens: dict[str, str] = field(default_factory=dict)

    def api(self, who: str) -> httpx.Client:
        return self.client(self.tokens[who])

    def session(self, who: str) -> httpx.Client:
        """A client that is logged in by its password: who gives out logins must be."""
        client = self.client()
        begun = client.post("/v1/login", json={"name": who, "password": PASSWORD}).json()
        client.headers.update({"Origin": self.url, "X-CSRF-Token": begun["csrf"]})
        return client

    def ask(self, who: str, sql: str = COUNT, epsilon: Any = 0.1, **more: Any) -> httpx.Response:
        head = {"Idempotency-Key": more.pop("key")} if "key" in more else {}
        with self.api(who) as client:
            return client.post(
                "/v1/datasets/visits/queries", json={"sql": sql, "epsilon": epsilon, **more}, headers=head
            )

    def dsn(self, who: str = "ada", epsilon: str | None = None, data: str = "visits") -> str:
        options = "" if epsilon is None else f" options='-c deniable.epsilon={epsilon}'"
        return (
            f"host=127.0.0.1 port={self.port} user={who} password={self.tokens[who]} dbname={data}{options}"
        )

    def spent(self, account: str = "visits") -> float:
        return self.service.ledger.account(account).spent().epsilon


def settings(folder: Path, **changes: Any) -> Settings:
    given: dict[str, Any] = {
        "folder": folder / "state",
        "roots": (folder / "data",),
        "http": Address("127.0.0.1", 0),
        "wire": Address("127.0.0.1", 0),
        "floor": 0.0,
        "rates": FAST,
        "engines": Engines(threads=1),
    }
    return Settings(**(given | changes))


@contextmanager
def opened(made: Settings) -> Iterator[Running]:
    service = Service(made)
    doors, ready = Doors(service), threading.Event()
    failure: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(doors.serve(lambda _: ready.set()))
        except BaseException as error:
            failure.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(600)
    if failure:
        raise failure[0]
    try:
        yield Running(service, doors, thread)
    finally:
        doors.stop()
        thread.join(600)
        service.close()
        assert not failure, failure


def log_in(running: Running, name: str, one_time: str) -> httpx.Client:
    """A client with a session, after the one-time password was changed."""
    client = running.client()
    origin = {"Origin": running.url}
    begun = client.post("/v1/login", json={"name": name, "password": one_time}).json()
    assert begun["must_change"]
    head = origin | {"X-CSRF-Token": begun["csrf"]}
    changed = client.post("/v1/password", json={"new": PASSWORD}, headers=head)
    assert changed.status_code == 200
    client.headers.update(origin | {"X-CSRF-Token": changed.json()["csrf"]})
    return client


def token_of(client: httpx.Client, *scope: str) -> str:
    made = client.post("/v1/tokens", json={"scope": list(scope), "label": "test"})
    assert made.status_code == 201, made.text
    return str(made.json()["token"])


@contextmanager
def hospital(
    folder: Path, limit: float = 1000, part: float = 400, rows: int = 2000, **changes: Any
) -> Iterator[Hospital]:
    data = folder / "data"
    data.mkdir(exist_ok=True)
    if not (data / "visits.parquet").exists():
        pq.write_table(visits(rows), data / "visits.parquet")
    with opened(settings(folder, **changes)) as running:
        one_time = running.service.roster.first_owner("olga")
        made = Hospital(**vars(running))
        assert one_time is not None
        with closing(log_in(running, "olga", one_time)) as owner:
            made.tokens["olga"] = token_of(owner, *Right)
            register(owner, limit=limit)
            for name, role in (("ada", "analyst"), ("bob", "analyst"), ("vera", "auditor")):
                added = owner.post("/v1/people", json={"name": name, "roles": [role]}).json()
                with closing(log_in(running, name, added["one_time_password"])) as client:
                    made.tokens[name] = token_of(client, "look" if role == "auditor" else "ask")
                if role == "analyst":
                    share = {"analyst": name, "limit": {"epsilon": part, "delta": "1e-7"}}
                    assert owner.post("/v1/datasets/visits/analysts", json=share).status_code == 201
        yield made


def register(
    owner: httpx.Client, name: str = "visits", source: str = "visits.parquet", limit: float = 1000
) -> httpx.Response:
    body = {
        "name": name,
        "sources": {"visits": source},
        "schema": SCHEMA,
        "unit": UNIT.to_dict(),
        "limit": {"epsilon": limit, "delta": "1e-6"},
    }
    made = owner.post("/v1/datasets", json=body)
    return made
