"""REST: data sets, previews, queries, jobs, balances, the journal and certificates, each for whom it is."""

from __future__ import annotations

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest
from fastapi.routing import APIRoute

import deniable as dp
from deniable.datasets.visits import visits
from deniable.errors import (
    BudgetExceeded,
    Forbidden,
    InvalidParameter,
    InvalidQuery,
    LedgerError,
    NotLoggedIn,
)
from deniable.guarantee import Budget, Certificate
from deniable.server.http.app import api
from deniable.server.http.bodies import StrictRoute
from deniable.server.http.door import Door
from deniable.server.people import store
from deniable.server.people.rights import Caller, Role
from tests.server.hospital import (
    COUNT,
    PASSWORD,
    Hospital,
    Running,
    hospital,
    log_in,
    opened,
    register,
    settings,
)


def test_an_answer_is_charged_to_the_analyst_and_to_the_data_set(fresh: Hospital) -> None:
    said = fresh.ask("ada", epsilon="0.5").json()
    assert said["columns"] == [{"name": "n", "type": "int64"}]
    assert said["low"]["n"][0] <= said["rows"][0][0] <= said["high"]["n"][0]
    assert said["low"]["n"][0] < said["high"]["n"][0]
    assert (said["epsilon"], said["again"]) == (pytest.approx(0.5), False)
    assert [fresh.spent(name) for name in ("visits", "visits/ada", "visits/bob")] == pytest.approx(
        [0.5, 0.5, 0.0]
    )


def test_asked_again_it_is_free_and_the_same_through_either_spelling_of_a_number(fresh: Hospital) -> None:
    first, again = fresh.ask("ada", epsilon=0.1).json(), fresh.ask("ada", epsilon="0.10").json()
    assert (again["rows"], again["again"], again["entry"]) == (first["rows"], True, first["entry"])
    assert fresh.spent() == pytest.approx(0.1)


def test_a_new_version_of_the_data_is_asked_anew(fresh: Hospital) -> None:
    first = fresh.ask("ada").json()
    with fresh.api("olga") as owner:
        assert owner.put("/v1/datasets/visits/version", json={"version": "2"}).status_code == 200
    second = fresh.ask("ada").json()
    assert (second["again"], second["entry"] == first["entry"]) == (False, False)
    assert fresh.spent() == pytest.approx(0.2)


def test_what_somebody_else_has_asked_looks_new(fresh: Hospital) -> None:
    fresh.ask("ada")
    said = fresh.ask("bob").json()
    assert not said["again"]
    assert not any("before" in note for note in said["notes"])
    assert (fresh.spent(), fresh.spent("visits/bob")) == (pytest.approx(0.1), pytest.approx(0.1))
    with fresh.api("bob") as client:
        entries = client.get("/v1/ledger/entries").json()
    with fresh.api("ada") as client:
        hers = client.get("/v1/ledger/entries").json()
    # Of an entry an analyst sees what is her own: whether the data set was charged as well would tell what
    # others ask.
    assert entries[-1].keys() == hers[-1].keys()
    assert "reads" not in str(entries)
    assert entries[-1]["charge"] == hers[-1]["charge"]


def test_a_preview_is_free_and_says_what_the_answer_will_cost(fresh: Hospital) -> None:
    with fresh.api("ada") as client:
        said = client.post("/v1/datasets/visits/preview", json={"sql": COUNT, "epsilon": 0.25}).json()
    assert (said["epsilon"], said["fits"], said["free"]) == (pytest.approx(0.25), True, False)
    assert "±" in said["expected"]["n"]
    assert fresh.spent() == 0


def test_a_key_is_paid_once_and_bound_to_its_person_and_body(fresh: Hospital) -> None:
    first = fresh.ask("ada", key="k1").json()
    assert fresh.ask("ada", key="k1").json()["entry"] == first["entry"]
    other = fresh.ask("ada", "SELECT COUNT(*) AS m FROM visits WHERE age > 3", key="k1")
    assert (other.status_code, other.json()["error"]) == (422, "InvalidParameter")
    assert "another request" in other.json()["message"]
    bobs = fresh.ask("bob", key="k1").json()
    assert bobs["entry"] != first["entry"]
    assert fresh.spent("visits/ada") == pytest.approx(0.1)


def test_a_job_says_running_or_ended_and_is_ones_own(shared: Hospital) -> None:
    with shared.api("ada") as client, shared.api("bob") as other:
        started = client.post("/v1/datasets/visits/jobs", json={"sql": COUNT, "epsilon": 0.11})
        assert started.status_code == 202
        job = started.json()["job"]
        assert other.get(f"/v1/jobs/{job}").status_code == 404
        assert other.delete(f"/v1/jobs/{job}").status_code == 404
        states = set()
        while "done" not in states:
            said = client.get(f"/v1/jobs/{job}").json()
            states.add(said["state"])
            assert said.keys() <= {"job", "state", "answer"}
            time.sleep(0.01)
        assert states <= {"running", "done"}
        assert (
            said["answer"]["rows"]
            == client.post("/v1/datasets/visits/queries", json={"sql": COUNT, "epsilon": 0.11}).json()["rows"]
        )
        wrong = client.post(
            "/v1/datasets/visits/jobs", json={"sql": "SELECT * FROM visits", "epsilon": 1}
        ).json()
        while (said := client.get(f"/v1/jobs/{wrong['job']}").json())["state"] == "running":
            time.sleep(0.01)
        assert (said["state"], said["error"]) == ("failed", "InvalidQuery")


def test_the_floor_is_waited_for_in_no_thread(tmp_path: Path) -> None:
    """Twelve questions at once, two threads: were the floor slept through in the threads, two would be charged
    before the first is answered. On an idle machine all are; on the busiest one more than two."""
    with hospital(tmp_path, rows=200, threads=2, floor=4) as running:
        asked = [f"{COUNT} WHERE age > {i}" for i in range(12)]
        before_first: list[float] = []
        with ThreadPoolExecutor(12) as pool:
            replies = [pool.submit(running.ask, "ada", query) for query in asked]
            next(as_completed(replies))
            before_first.append(running.spent())
            assert {reply.result().status_code for reply in replies} == {200}
        assert before_first[0] > 0.25


def test_a_client_that_goes_after_the_charge_finds_its_answer_kept(tmp_path: Path) -> None:
    with hospital(tmp_path, rows=200, floor=1.0) as running:
        head = {"Authorization": f"Bearer {running.tokens['ada']}", "Content-Type": "application/json"}
        host, port = running.url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port))
        body = json.dumps({"sql": COUNT, "epsilon": 0.1})
        connection.request("POST", "/v1/datasets/visits/queries", body, head)
        while running.spent() == 0:
            time.sleep(0.02)
        connection.close()
        said = running.ask("ada").json()
        assert (said["again"], running.spent()) == (True, pytest.approx(0.1))


def test_a_job_whose_process_died_is_told_as_lost(fresh: Hospital) -> None:
    with fresh.api("ada") as client:
        job = client.post("/v1/datasets/visits/jobs", json={"sql": COUNT, "epsilon": 0.1}).json()["job"]
        while client.get(f"/v1/jobs/{job}").json()["state"] == "running":
            time.sleep(0.01)
        with fresh.service.state.writing() as connection:
            connection.execute(store.jobs.update().values(state="running", beat=time.time() - 60))
        said = client.get(f"/v1/jobs/{job}").json()
    assert (said["state"], said["error"], said["status"]) == ("failed", "Lost", 503)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"sql": "SELECT * FROM visits", "epsilon": 1}, 422, "Rows never leave"),
        ({"sql": COUNT, "epsilon": 1e9}, 409, "over its limit"),
        ({"sql": COUNT}, 422, "epsilon"),
        ({"sql": COUNT, "epsilon": "1e999999999"}, 422, "decimal number"),
        ({"sql": COUNT, "epsilon": "nan"}, 422, "decimal number"),
        ({"sql": COUNT, "epsilon": -1}, 422, "epsilon"),
        ({"sql": COUNT, "epsilon": True}, 422, "epsilon"),
        ({"sql": COUNT, "epsilon": 1, "extra": 1}, 422, "extra"),
        ({"sql": "x" * 70_000, "epsilon": 1}, 422, "sql"),
        ({"sql": "SELECT COUNT(*) FROM secrets", "epsilon": 1}, 422, "secrets"),
        ([], 422, "Nothing was done"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_charged(
    shared: Hospital, body: object, status: int, words: str
) -> None:
    before = shared.spent()
    with shared.api("ada") as client:
        for door in ("queries", "preview"):
            said = client.post(f"/v1/datasets/visits/{door}", json=body)
            if door == "preview" and status == 409:
                assert said.json()["fits"] is False
                continue
            assert said.status_code == status, said.text
            assert words in said.json()["message"]
    assert shared.spent() == before


def test_an_error_never_echoes_a_password(shared: Hospital) -> None:
    with shared.client() as client:
        said = client.post("/v1/login", json={"name": "ada", "password": ["s3cret-value"]})
        assert said.status_code == 422
        assert "s3cret-value" not in said.text
        said = client.post(
            "/v1/login",
            content=b'{"name": "ada", "password": "s3cret-value"',
            headers={"content-type": "application/json"},
        )
        assert said.status_code == 422
        assert "s3cret" not in said.text


def test_the_journal_is_whole_for_the_auditor_and_verifies(fresh: Hospital) -> None:
    fresh.ask("ada")
    with fresh.api("vera") as auditor:
        entries = auditor.get("/v1/ledger/entries").json()
        assert [entry["kind"] for entry in entries] == ["create", "create", "create", "run"]
        head = auditor.get("/v1/ledger/head").json()["head"]
        assert auditor.get("/v1/ledger/verify", params={"head": head}).json()["ok"]
        other = f"9{head[1:]}"
        assert not auditor.get("/v1/ledger/verify", params={"head": other}).json()["ok"]
        assert auditor.get("/v1/ledger/verify", params={"head": "nonsense"}).status_code == 422
        assert len(auditor.get("/v1/ledger/export").text.splitlines()) == 4
        assert auditor.get("/v1/ledger/export", params={"format": "csv"}).text.startswith("seq,time,kind")
        acts = auditor.get("/v1/acts").json()
        assert {"add person", "register data", "grant", "new token"} <= {act["act"] for act in acts}


def test_an_owner_raises_freezes_and_thaws_with_a_reason_that_auditors_see(fresh: Hospital) -> None:
    with fresh.api("olga") as owner, fresh.api("vera") as auditor:
        more = {"limit": {"epsilon": 500, "delta": "1e-7"}, "reason": "A second study.", "analyst": "ada"}
        assert owner.post("/v1/accounts/visits/raise", json=more).status_code == 200
        assert auditor.get("/v1/accounts/visits", params={"analyst": "ada"}).json()["limit"]["epsilon"] == 500
        less = more | {"limit": {"epsilon": 5, "delta": "1e-7"}}
        assert owner.post("/v1/accounts/visits/raise", json=less).status_code == 422
        assert owner.post("/v1/accounts/visits/freeze", json={"reason": "Looking."}).status_code == 200
        assert fresh.ask("ada").status_code == 423
        assert owner.post("/v1/accounts/visits/unfreeze", json={"reason": "Looked."}).status_code == 200
        assert fresh.ask("ada").status_code == 200
        kinds = [entry["kind"] for entry in auditor.get("/v1/ledger/entries").json()]
        assert [kind for kind in kinds if kind in ("raise", "freeze", "thaw")] == ["raise", "freeze", "thaw"]
        assert [act["words"] for act in auditor.get("/v1/acts").json() if act["act"] == "unfreeze"] == [
            "Looked."
        ]


def test_a_second_person_agrees_where_the_service_asks_for_one(tmp_path: Path) -> None:
    with hospital(tmp_path, rows=200) as first:
        tokens = first.tokens
    with opened(settings(tmp_path, second_person=True)) as running:
        made = Hospital(**vars(running), tokens=tokens)
        with closing(log_in(running, "otto", second_owner(running))) as second:
            agreed_acts(made, second)


def second_owner(running: Running) -> str:
    """One owner proposes another, and the operator agrees at the server's shell: a password in two halves."""
    secret, _ = running.service.roster.login("olga", PASSWORD)
    head = {
        "Origin": running.url,
        "X-CSRF-Token": running.service.roster.csrf(secret),
        "Cookie": f"deniable={secret}",
    }
    with running.client() as olga:
        said = olga.post("/v1/people", json={"name": "otto", "roles": ["owner"]}, headers=head).json()
    assert said["one_time_password"] is None
    half = running.service.agree_at_the_shell(said["proposal"])
    for wrong in (said["first_half"], half, f"{half}.{said['first_half']}"):
        with pytest.raises(NotLoggedIn):
            running.service.roster.login("otto", str(wrong))
    return f"{said['first_half']}.{half}"


def test_no_key_stands_twice_in_a_request(fresh: Hospital) -> None:
    bodies = {
        "/v1/datasets/visits/queries": f'{{"sql": "{COUNT}", "epsilon": 0.01, "epsilon": 99}}',
        "/v1/datasets/visits/jobs": f'{{"sql": "{COUNT}", "epsilon": 0.01, "epsilon": 99}}',
        "/v1/datasets/visits/preview": f'{{"sql": "{COUNT}", "epsilon": 0.01, "\\u0065psilon": 99}}',
        "/v1/datasets/visits/analysts": '{"analyst": "bob", "limit": {"epsilon": 1, "epsilon": 9}}',
        "/v1/login": '{"name": "ada", "name": "olga", "password": "x"}',
        "/v1/audits": '{"epsilon": 1, "epsilon": 2, "mechanism": "laplace"}',
    }
    with fresh.api("olga") as client:
        for path, body in bodies.items():
            said = client.post(path, content=body, headers={"Content-Type": "application/json"})
            assert said.status_code == 422, path
            assert "stands twice" in said.json()["message"]
    assert fresh.spent() == 0


def test_every_route_that_takes_json_reads_it_strictly(shared: Hospital) -> None:
    app = api(Door(shared.service, None))  # type: ignore[arg-type]
    loose = [
        route.path
        for route in app.routes
        if isinstance(route, APIRoute) and route.body_field is not None and not isinstance(route, StrictRoute)
    ]
    assert loose == []


def test_a_copy_of_registered_data_is_told_to_its_owner(fresh: Hospital) -> None:
    data = fresh.service.settings.roots[0]
    (data / "copy.parquet").write_bytes((data / "visits.parquet").read_bytes())
    pq.write_table(visits(100), data / "other.parquet")
    with fresh.api("olga") as owner, fresh.api("vera") as auditor:
        said = register(owner, "copy", "copy.parquet")
        assert said.status_code == 201
        assert 'The content of "copy" is that of visits' in said.json()["warning"]
        assert register(owner, "other", "other.parquet").json()["warning"] is None
        acts = auditor.get("/v1/acts").json()
    assert [act["about"] for act in acts if "same content as visits" in act["words"]] == ["copy"]


def test_a_data_set_is_handed_over_with_its_limit_and_its_parts(fresh: Hospital) -> None:
    fresh.ask("ada", epsilon="0.5")
    olga = Caller("olga", frozenset({Role.OWNER}))
    otto = Caller("otto", frozenset({Role.OWNER}))
    fresh.service.roster.add("olga", "otto", ["owner"])
    with fresh.api("olga") as owner:
        assert owner.put("/v1/datasets/visits/owner", json={"owner": "ada"}).status_code == 422
        assert owner.put("/v1/datasets/visits/owner", json={"owner": "otto"}).status_code == 200
        assert owner.put("/v1/datasets/visits/owner", json={"owner": "olga"}).status_code == 403
    with pytest.raises(Forbidden, match="Only otto"):
        fresh.service.raise_limit(olga, "visits", None, Budget(2000, 1e-6), "mine again")
    fresh.service.raise_limit(otto, "visits", "ada", Budget(500, 1e-7), "more")
    assert (fresh.spent(), fresh.spent("visits/ada")) == (pytest.approx(0.5), pytest.approx(0.5))
    assert fresh.ask("ada", epsilon="0.5").json()["again"]
    assert fresh.service.ledger.verify().ok
    assert [entry.analyst for entry in fresh.service.ledger.history() if entry.kind == "hand"] == ["olga"]


def agreed_acts(running: Hospital, second: httpx.Client) -> None:
    """Each of the four acts: nothing before the second person, the act after her, once."""
    account = running.service.ledger.account("visits")
    pq.write_table(visits(100), running.service.settings.roots[0] / "more.parquet")
    with running.api("olga") as owner, running.api("vera") as auditor, running.api("ada") as analyst:
        owner.post("/v1/accounts/visits/freeze", json={"reason": "Looking."})  # a freeze needs nobody
        more = {"limit": {"epsilon": 2000, "delta": "1e-6"}, "reason": "A second study."}
        wishes = {
            "raise limit": owner.post("/v1/accounts/visits/raise", json=more),
            "unfreeze": owner.post("/v1/accounts/visits/unfreeze", json={"reason": "Looked."}),
            "new version": owner.put("/v1/datasets/visits/version", json={"version": "2"}),
            "register data": register(owner, "more", "more.parquet"),
        }
        assert owner.put("/v1/datasets/visits/version", json={"version": "3"}).is_success
        wishes["hand over"] = owner.put("/v1/datasets/visits/owner", json={"owner": "otto"})
        waiting = {said["act"] for said in auditor.get("/v1/proposals").json()}
        assert waiting == set(wishes)
        assert analyst.get("/v1/proposals").status_code == 403
        assert (account.limit.epsilon, str(account.status)) == (1000, "frozen")
        assert (running.service.shelf.names(), running.service.shelf.version("visits")) == (["visits"], "1")
        for said in wishes.values():
            proposal = said.json()["proposal"]
            assert owner.post(f"/v1/proposals/{proposal}/agree").status_code == 403
            assert auditor.post(f"/v1/proposals/{proposal}/agree").status_code == 403
            assert second.post(f"/v1/proposals/{proposal}/agree").status_code == 200
            assert second.post(f"/v1/proposals/{proposal}/agree").status_code == 404
        (left,) = owner.get("/v1/proposals").json()
        assert owner.delete(f"/v1/proposals/{left['id']}").status_code == 200
        acts = [(act["person"], act["act"]) for act in auditor.get("/v1/acts").json()]
    assert (account.limit.epsilon, str(account.status)) == (2000, "open")
    assert (running.service.shelf.names(), running.service.shelf.version("visits")) == (
        ["more", "visits"],
        "2",
    )
    for act in wishes:
        assert {("olga", f"propose: {act}"), ("otto", f"agree: {act}"), ("olga", act)} <= set(acts)


def test_a_certificate_is_checked_by_anybody_who_has_it(fresh: Hospital) -> None:
    seq = fresh.ask("ada").json()["entry"].split(":")[0]
    with fresh.api("ada") as client:
        text = client.get(f"/v1/certificates/{seq}").text
    assert dp.verify(Certificate.from_json(text)).upper == pytest.approx(0.1, rel=1e-4)
    with fresh.api("bob") as other:
        assert other.get(f"/v1/certificates/{seq}").status_code == 404


@pytest.mark.parametrize(
    "source",
    [
        "../state/state.db",
        "/etc/passwd",
        "http://169.254.169.254/latest.parquet",
        "s3://bucket/x.parquet",
        "postgresql://10.0.0.1/x",
        "visits.parquet\0.csv",
        "*.parquet",
        "link.parquet",
        "@warehouse",
        "",
        "none.parquet",
    ],
)
def test_sources_lie_where_the_operator_said(shared: Hospital, source: str) -> None:
    data = shared.service.settings.roots[0]
    outside = data.parent / "outside.parquet"
    outside.write_bytes((data / "visits.parquet").read_bytes())
    (data / "link.parquet").unlink(missing_ok=True)
    (data / "link.parquet").symlink_to(outside)
    accounts = len(shared.service.ledger.accounts())
    with shared.api("olga") as owner:
        made = register(owner, "other", source)
    assert made.status_code == 422, made.text
    assert str(data) not in made.text
    assert len(shared.service.ledger.accounts()) == accounts


def test_one_source_is_granted_once_whatever_it_is_called(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with hospital(tmp_path) as running, running.api("olga") as owner:
        (data / "soft.parquet").symlink_to(data / "visits.parquet")
        (data / "hard.parquet").hardlink_to(data / "visits.parquet")
        (data / "deep").mkdir()
        for source in (
            "visits.parquet",
            "./visits.parquet",
            "soft.parquet",
            "hard.parquet",
            "deep/../visits.parquet",
        ):
            made = register(owner, "twin", source)
            assert made.status_code in (422, 503), source
            assert owner.get("/v1/datasets").json() == ["visits"]
        assert register(owner, "visits").status_code == 422


@pytest.mark.parametrize("name", ["pg_class", "information_schema", "a/b", "", "x\ny", "deniable"])
def test_names_of_the_catalog_and_names_that_mislead_are_refused(shared: Hospital, name: str) -> None:
    with shared.api("olga") as owner:
        assert register(owner, name).status_code == 422


def test_remote_brings_every_term_and_all_that_is_said_of_an_answer(fresh: Hospital) -> None:
    text = "SELECT MAX(days) AS m, MEDIAN(days) AS d FROM visits"
    with dp.Remote(fresh.url, token=fresh.tokens["ada"], data="visits") as remote:
        answer = remote.sql(text, epsilon=0.1, bracket=False)
        forecast = remote.preview(COUNT, epsilon=0.1, of=20)
    with fresh.api("ada") as client:
        terms = {"sql": text, "epsilon": 0.1, "bracket": False}
        sent = client.post("/v1/datasets/visits/queries", json=terms).json()
        refused = client.post("/v1/datasets/visits/queries", json=terms | {"most_rows": 0})
    assert any("nobody's own value" in note for note in answer.notes)
    assert any("bracket=False" in note for note in answer.notes)
    assert sent["again"]
    assert sent["notes"][: len(answer.notes)] == list(answer.notes)
    assert forecast.more is not None
    assert refused.status_code == 422


def test_the_remote_is_a_curator_elsewhere(fresh: Hospital) -> None:
    with dp.Remote(fresh.url, token=fresh.tokens["ada"], data="visits") as remote:
        assert remote.datasets() == ["visits"]
        assert "patient_id" in remote.schema()
        assert remote.preview(COUNT, epsilon=1).epsilon == pytest.approx(1)
        answer = remote.sql("SELECT sex, AVG(days) AS d FROM visits GROUP BY sex", epsilon=2)
        assert answer.table.column_names == ["sex", "d", "d_low", "d_high"]
        assert "±" in str(answer)
        assert "<table>" in answer._repr_html_()
        assert remote.sql("SELECT sex, AVG(days) AS d FROM visits GROUP BY sex", epsilon=2).again
        assert remote.account()["spent"]["epsilon"] == pytest.approx(2)
        assert dp.verify(remote.certificate(answer)).upper == pytest.approx(2, rel=1e-4)
        assert len(remote.history()) == 2
        with pytest.raises(InvalidQuery, match="Rows never leave"):
            remote.sql("SELECT * FROM visits", epsilon=1)
        with pytest.raises(BudgetExceeded, match="over its limit"):
            remote.sql(COUNT, epsilon=1e6)
        assert fresh.tokens["ada"] not in repr(remote)
        assert "spent ε = 2 of 400" in remote._repr_html_()
        assert "<li>visits</li>" in dp.Remote(fresh.url, token=fresh.tokens["ada"])._repr_html_()
    with pytest.raises(NotLoggedIn):
        dp.Remote(fresh.url, token="dnb_0123456789ab_x", data="visits").sql(COUNT, epsilon=1)


def test_the_remote_sends_its_token_nowhere_else() -> None:
    with pytest.raises(InvalidParameter, match="https"):
        dp.Remote("http://stats.example.org", token="x")
    with pytest.raises(InvalidParameter, match="address of a service"):
        dp.Remote("ftp://stats.example.org", token="x")
    with pytest.raises(LedgerError, match="cannot be reached"):
        dp.Remote("http://127.0.0.1:9", token="x", data="visits").sql(COUNT, epsilon=1)


def test_sessions_are_for_this_site_alone_and_end(fresh: Hospital) -> None:
    with fresh.client() as client:
        evil = {"Origin": "https://evil.example"}
        credentials = {"name": "ada", "password": PASSWORD}
        assert client.post("/v1/login", json=credentials, headers=evil).status_code == 403
        csrf = client.post("/v1/login", json=credentials).json()["csrf"]
        assert client.get("/v1/me").json() | {"name": "ada", "csrf": csrf} == client.get("/v1/me").json()
        ask = {"sql": COUNT, "epsilon": 0.1}
        for origin in ({}, evil, {"Origin": "null"}, {"Origin": fresh.url + ".evil.example"}):
            forged = origin | {"X-CSRF-Token": csrf}
            assert client.post("/v1/datasets/visits/queries", json=ask, headers=forged).status_code == 403
        own = {"Origin": fresh.url}
        with fresh.client() as other:
            hers = other.post("/v1/login", json=credentials).json()["csrf"]
        for token in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": hers}):
            said = client.post("/v1/datasets/visits/queries", json=ask, headers=own | token)
            assert said.status_code == 403
            assert "CSRF token" in said.json()["message"]
        assert fresh.spent() == 0
        own |= {"X-CSRF-Token": csrf}
        good = client.post("/v1/datasets/visits/queries", json=ask, headers=own)
        assert good.status_code == 200
        (cookie,) = client.cookies.jar
        assert cookie.has_nonstandard_attr("HttpOnly")
        assert cookie.get_nonstandard_attr("SameSite") == "strict"
        stolen = cookie.value
        assert client.post("/v1/logout", headers=own).status_code == 200
        assert client.get("/v1/me", headers={"Cookie": f"deniable={stolen}"}).status_code == 401


def test_every_answer_has_safe_headers(shared: Hospital) -> None:
    with shared.client() as client:
        for path in ("/v1/health", "/v1/me", "/nope", "/v1/openapi.json"):
            said = client.get(path)
            assert said.headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in said.headers["content-security-policy"]
            assert said.headers["x-frame-options"] == "DENY"
            assert said.headers["cache-control"] == "no-store"
            assert "server" not in said.headers


def test_a_body_that_is_too_long_is_not_read(shared: Hospital) -> None:
    with shared.client() as client:
        body = b'{"name": "' + b"x" * (2 << 20) + b'"}'
        try:
            said = client.post("/v1/login", content=body, headers={"content-type": "application/json"})
        except httpx.HTTPError:
            return
        assert said.status_code >= 400


def test_half_a_surrogate_pair_is_no_query(shared: Hospital) -> None:
    with shared.api("ada") as client:
        body = b'{"sql": "SELECT \\ud800", "epsilon": 1}'
        said = client.post(
            "/v1/datasets/visits/queries", content=body, headers={"content-type": "application/json"}
        )
    assert said.status_code == 422


def test_an_auditor_attacks_a_mechanism_and_runs_the_decisive_part_again(fresh: Hospital) -> None:
    with fresh.api("vera") as auditor, fresh.api("ada") as analyst:
        body = {"mechanism": "HalvedNoise", "epsilon": 1}
        done = auditor.post("/v1/audits", json=body)
        assert done.status_code == 201, done.text
        number = done.json()["audit"]
        (said,) = auditor.get("/v1/audits").json()
        assert said == auditor.get(f"/v1/audits/{number}").json()
        assert (said["finding"]["verdict"], said["person"]) == ("violation", "vera")
        again = auditor.post(f"/v1/audits/{number}/replay").json()
        assert again["verdict"] == "violation"
        assert analyst.get(f"/v1/audits/{number}").status_code == 403
        for wrong in ({"epsilon": 1}, {"mechanism": "x", "epsilon": 1}, {"data": "visits", "epsilon": 1}):
            assert auditor.post("/v1/audits", json=wrong).status_code in (404, 422)
    assert fresh.spent() == 0
