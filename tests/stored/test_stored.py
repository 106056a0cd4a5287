"""What users of 0.2.0 have on disk opens, verifies and goes on: ledgers, kept answers, runs, people, certificates, audits."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from deniable import Budget, Ledger
from deniable.federated import resume as resume_rounds
from deniable.learn.sgd import resume as resume_training
from deniable.ledger import EntryKind
from deniable.mechanisms import Laplace
from tests import postgres
from tests.cli.runner import run
from tests.stored import write

STORED = Path(__file__).parent / "v0_2_0"
FAR = 1e11
"""A time after which no token of the stored service is asked for."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of all files, with keys as private as they were."""
    copy = tmp_path / "files"
    shutil.copytree(STORED, copy)
    for key in copy.rglob("*.key"):
        key.chmod(0o600)
    return copy


def facts_of(folder: Path, name: str = "facts.json") -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
    return facts


def test_kept_answers_are_given_again_for_nothing(folder: Path) -> None:
    facts = facts_of(folder / "answers", "answers.json")
    assert len(facts["answers"]) == len(write.QUESTIONS)
    with write.curator_of(folder / "answers") as curator:
        assert curator.ledger.verify(facts["head"]).ok
        for question in facts["answers"]:
            answer = curator.ask(question["sql"], **question["terms"]).answer()
            assert write.rows_of(answer.table) == question["rows"]
        assert curator.account.spent().epsilon == facts["epsilon"]
        curator.ask("SELECT COUNT(*) AS n FROM visits WHERE age > 50", epsilon=0.25).answer()
        assert curator.account.spent().epsilon == pytest.approx(facts["epsilon"] + 0.25)
        assert curator.ledger.verify().ok


@pytest.mark.needs("postgres")
def test_a_ledger_on_a_server_opens_verifies_and_goes_on(folder: Path, tmp_path: Path) -> None:
    server = postgres.server()
    name = f"stored_{tmp_path.parent.name}_{tmp_path.name}".replace("-", "_").lower()
    server.psql(f"CREATE DATABASE {name};")
    url = server.get_uri(name)
    psql = [
        "psql",
        "--quiet",
        "--set",
        "ON_ERROR_STOP=1",
        "--dbname",
        url,
        "--file",
        folder / "postgres" / "ledger.sql",
    ]
    subprocess.run(psql, check=True, capture_output=True)
    facts = facts_of(folder / "postgres")
    with Ledger.open(url, key=folder / "postgres" / "ledger.key", analyst="olga", create=False) as ledger:
        assert ledger.verify(facts["head"]).ok
        account = ledger.account("visits")
        assert account.spent().epsilon == facts["epsilon"]
        assert account.limit == Budget(5, 1e-6)
        answer = account.recall("q1")
        assert answer is not None
        assert answer.content == "the first answer"
        account.run(Laplace.for_budget(epsilon=0.5), 5)
        assert account.spent().epsilon == pytest.approx(facts["epsilon"] + 0.5)
        assert ledger.verify().ok


def test_a_training_run_is_resumed_under_its_charge(folder: Path) -> None:
    training = folder / "training"
    facts = facts_of(training)
    with Ledger.open(
        f"sqlite:///{training / 'ledger.db'}", key=training / "ledger.key", create=False
    ) as ledger:
        assert ledger.verify(facts["head"]).ok
        account = ledger.account("rows")
        release = resume_training(
            write.training_run(), write.examples(), account=account, checkpoint=training / "run", every=4
        )
        assert release.value.steps == 20
        assert len(release.value.history.gradient_norm) == 8 + 8  # steps 9 to 12 were noted, so they are lost
        assert account.spent().epsilon == facts["epsilon"]
        assert [entry.kind for entry in account.history()].count(EntryKind.OPEN) == 1


def test_federated_rounds_are_resumed_under_their_charge(folder: Path) -> None:
    rounds = folder / "rounds"
    facts, run_ = facts_of(rounds), write.rounds_run()
    with Ledger.open(f"sqlite:///{rounds / 'ledger.db'}", key=rounds / "ledger.key", create=False) as ledger:
        account = ledger.account("phones")
        with resume_rounds(run_, write.devices(run_), account, checkpoint=rounds / "run") as deployment:
            assert deployment.taken == 2
            assert [deployment.step().value.number for _ in range(3)] == [3, 4, 5]
        assert account.spent().epsilon == facts["epsilon"]
        assert ledger.verify(facts["head"]).ok


def test_people_of_a_service_come_back_with_tokens_passwords_and_proposals(folder: Path) -> None:
    service_folder = folder / "service"
    facts = facts_of(service_folder)
    with sqlite3.connect(service_folder / "state" / "state.db") as state:
        state.execute("UPDATE tokens SET expires = ?", [FAR])  # a file in a test does not age
    state.close()
    with write.opened(write.service_settings(service_folder, second_person=True)) as (service, url):
        assert service.ledger.account("visits").spent().epsilon == facts["epsilon"]
        with client(url, facts["tokens"]["ada"]) as ada:
            # The path of the data is part of a kept answer's key, so only a new question can be asked here.
            question = {"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": 0.5}
            write.check(ada.post("/v1/datasets/visits/queries", json=question))
        assert service.ledger.account("visits").spent().epsilon == pytest.approx(facts["epsilon"] + 0.5)
        with client(url, facts["tokens"]["vera"]) as vera:
            assert write.check(vera.get("/v1/ledger/verify")).json()["ok"]
        with closing(write.session(url, "olga", write.PASSWORD)) as olga:
            proposals = write.check(olga.get("/v1/proposals")).json()
            assert [proposal["id"] for proposal in proposals] == [facts["proposal"]["proposal"]]
            assert {person["name"] for person in write.check(olga.get("/v1/people")).json()} == {
                "olga",
                "ada",
                "vera",
            }


def client(url: str, token: str) -> httpx.Client:
    return httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=600, trust_env=False
    )


@pytest.mark.parametrize("name", sorted(path.name for path in (STORED / "certificates").iterdir()))
def test_certificates_are_verified(name: str) -> None:
    run("verify", str(STORED / "certificates" / name), code=0)


def test_an_audit_goes_on_from_its_file(folder: Path) -> None:
    audit = folder / "audit"
    before = (audit / "runs.jsonl").read_text()
    outcome = subprocess.run(
        write.audit_command("runs.jsonl"), cwd=audit, capture_output=True, text=True, check=False
    )
    outputs = [line for line in before.splitlines() if "output" in line]
    assert f"{len(outputs)} runs are kept from before" in outcome.stdout + outcome.stderr
    after = (audit / "runs.jsonl").read_text().splitlines()
    assert [line for line in after if "output" in line][: len(outputs)] == outputs
