"""A data set whose source is gone is told as broken, to its owner with the reason, and stands in nobody's way; a service
whose ledger or state is down says that it is not ready."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import psycopg
import pytest

from deniable.server.people.store import State
from tests.server.hospital import COUNT, PASSWORD, Hospital, hospital, register

PAGES = ("ask", "data", "budget", "ledger", "people", "audits")


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[Hospital]:
    """The set `apart`, whose file goes away while the service runs, comes before the healthy one by name."""
    with hospital(tmp_path, rows=200) as running, running.api("olga") as owner:
        shutil.copy(tmp_path / "data" / "visits.parquet", tmp_path / "data" / "apart.parquet")
        assert register(owner, "apart", "apart.parquet").status_code == 201
        share = {"analyst": "ada", "limit": {"epsilon": 1, "delta": "1e-7"}}
        assert owner.post("/v1/datasets/apart/analysts", json=share).status_code == 201
        yield running


def browser(running: Hospital, name: str) -> httpx.Client:
    client = running.client()
    begun = client.post("/v1/login", json={"name": name, "password": PASSWORD})
    client.headers["Cookie"] = f"__Host-deniable={begun.cookies['deniable']}"
    return client


def test_a_file_that_is_gone_breaks_its_own_data_set_alone(broken: Hospital, tmp_path: Path) -> None:
    place = tmp_path / "data" / "apart.parquet"
    for again in (False, True):  # while its engine is open, and when it was never opened
        place.rename(tmp_path / "elsewhere.parquet")
        if again:
            broken.service.shelf.close()
        with broken.api("olga") as owner, broken.api("ada") as ada:
            assert owner.get("/v1/datasets").json() == ["apart", "visits"]
            assert (
                "apart.parquet of the table visits is not there"
                in owner.get("/v1/datasets/apart").json()["problem"]
            )
            assert owner.get("/v1/datasets/visits").json()["problem"] is None
            told = ada.get("/v1/datasets/apart").json()["problem"]
            assert told == "This data set cannot be opened now. Its owner can see why."
            before = broken.spent("apart")
            said = ada.post("/v1/datasets/apart/queries", json={"sql": COUNT, "epsilon": 0.1})
            assert (said.status_code, str(tmp_path) in said.text) == (503, False)
            assert broken.spent("apart") == before
            assert broken.ask("ada").status_code == 200
        with closing(browser(broken, "olga")) as client:
            for page in PAGES:
                assert client.get(f"/{page}").status_code == 200
            assert "apart.parquet of the table visits is not there" in client.get("/data").text
            assert "apart (cannot be opened)" in client.get("/ask").text
            assert '<option value="visits" selected>' in client.get("/ask").text  # the healthy one is chosen
            assert client.get("/ask?data=apart").status_code == 200
        with closing(browser(broken, "ada")) as client:
            text = client.get("/ask?data=apart").text
            assert "Its owner can see why" in text
            assert "apart.parquet" not in text
            assert client.get("/ask?data=nothing").status_code == 404
        with psycopg.connect(broken.dsn(epsilon="0.1"), autocommit=True) as connection:
            assert connection.execute(COUNT.encode()).fetchall()
            assert connection.execute("SELECT relname FROM pg_class WHERE relkind = 'r'").fetchall()
        with pytest.raises(psycopg.OperationalError, match="cannot be opened now"):
            psycopg.connect(broken.dsn(data="apart"))
        (tmp_path / "elsewhere.parquet").rename(place)
        assert str(broken.service.ledger.account("apart").status) == "open"
        with broken.api("ada") as ada:
            assert ada.get("/v1/datasets/apart").json()["problem"] is None
            assert (
                ada.post("/v1/datasets/apart/preview", json={"sql": COUNT, "epsilon": 0.1}).status_code == 200
            )


def test_a_file_that_cannot_be_read_is_told_to_its_owner_without_its_path(
    broken: Hospital, tmp_path: Path
) -> None:
    (tmp_path / "data" / "apart.parquet").write_bytes(b"this is no Parquet")
    broken.service.shelf.close()
    with broken.api("olga") as owner, broken.api("ada") as ada:
        assert (
            owner.post("/v1/datasets/apart/preview", json={"sql": COUNT, "epsilon": 0.1}).status_code == 503
        )
        problem = owner.get("/v1/datasets/apart").json()["problem"]
        assert problem
        assert str(tmp_path) not in problem
        assert (
            ada.get("/v1/datasets/apart").json()["problem"]
            == "This data set cannot be opened now. Its owner can see why."
        )
        assert owner.get("/v1/datasets/visits").json()["problem"] is None


def test_listing_opens_no_engine(broken: Hospital) -> None:
    broken.service.shelf.close()
    with closing(browser(broken, "olga")) as client, broken.api("olga") as owner:
        for page in PAGES[1:]:
            assert client.get(f"/{page}").status_code == 200
        assert owner.get("/v1/datasets").status_code == owner.get("/v1/datasets/apart").status_code == 200
    assert broken.service.shelf._open == {}


def test_a_service_without_its_ledger_or_state_is_alive_and_not_ready(
    broken: Hospital, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get(path: str) -> httpx.Response:
        return httpx.get(f"{broken.url}{path}", trust_env=False)

    assert get("/v1/ready").json() == {"ok": True, "problems": []}
    state, gone = tmp_path / "state" / "state.db", tmp_path / "state" / "gone.db"
    state.rename(gone)
    said = get("/v1/ready")
    assert (said.status_code, said.json()["problems"]) == (
        503,
        ["The database of the service cannot be read."],
    )
    assert said.headers["retry-after"]
    assert get("/v1/health").json()["ok"]
    gone.rename(state)
    assert get("/v1/ready").status_code == 200
    ledger = broken.service.ledger
    monkeypatch.setattr(broken.service, "ledger", Unreadable(tmp_path))
    said = get("/v1/ready")
    assert (said.status_code, said.json()["problems"]) == (503, ["The ledger cannot be read."])
    assert get("/v1/health").json()["ok"]
    monkeypatch.setattr(broken.service, "ledger", ledger)
    assert get("/v1/ready").status_code == 200


def test_a_question_without_the_ledger_is_not_told_that_its_data_set_is_unknown(
    broken: Hospital, tmp_path: Path
) -> None:
    body = {"sql": COUNT, "epsilon": 0.1}
    with broken.api("ada") as analyst:
        assert analyst.post("/v1/datasets/nowhere/queries", json=body).status_code == 404
        files = list((tmp_path / "state").glob("privacy.db*"))
        for path in files:
            path.rename(tmp_path / path.name)
        said = analyst.post("/v1/datasets/visits/queries", json=body)
        for path in files:
            (tmp_path / path.name).rename(path)
    assert files
    assert (said.status_code, str(tmp_path) in said.text) == (503, False)


class Unreadable:
    """A ledger whose database has gone away: what it raises is what a real one raises then."""

    def __init__(self, folder: Path) -> None:
        self._state = State(f"sqlite:///{folder / 'other.db'}")
        (folder / "other.db").unlink()

    def head(self) -> None:
        self._state.check()
