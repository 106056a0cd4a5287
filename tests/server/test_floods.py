"""Bodies and heads that come slowly, data that swells when it is read, questions that take long: each is ended, in a
sentence or without one, and the door stays open for others."""

from __future__ import annotations

import resource
import socket
import time
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.datasets.visits import visits
from deniable.server.http import guard
from deniable.server.settings import Engines
from deniable.server.traffic import protocol
from tests.server.hospital import Hospital, hospital, register

HEAD = b"POST /v1/datasets/visits/queries HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def dripped(running: Hospital, first: bytes, drop: bytes) -> float:
    """Seconds until the service ends a connection that goes on in drops."""
    host, port = running.url.removeprefix("http://").split(":")
    begun = time.monotonic()
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.sendall(first)
        connection.settimeout(0.1)
        while time.monotonic() - begun < 30:
            try:
                if not connection.recv(65536):
                    break
            except TimeoutError:
                try:
                    connection.sendall(drop)
                except OSError:
                    break
            except OSError:
                break
    return time.monotonic() - begun


def test_a_head_or_a_body_that_comes_in_drops_is_not_waited_for(
    shared: Hospital, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(guard, "MOST_SECONDS", 0.5)
    token = f"Authorization: Bearer {shared.tokens['ada']}\r\n".encode()
    before = shared.spent()
    assert dripped(shared, b"GET /v1/health HTTP/1.1\r\nX-Slow: ", b"a") < 29
    assert dripped(shared, HEAD + token + b"Content-Length: 900000\r\n\r\n{", b" ") < 29
    assert shared.spent() == before
    assert httpx.get(f"{shared.url}/v1/health", trust_env=False).status_code == 200


def test_data_that_swells_is_stopped_by_its_limits_and_others_are_served(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    swollen(tmp_path / "data" / "bomb.parquet", 8)
    assert (tmp_path / "data" / "bomb.parquet").stat().st_size < 2_000_000
    limits = Engines(memory="60MB", seconds=20.0, threads=1)
    with hospital(tmp_path, rows=200, engines=limits) as running, running.api("olga") as owner:
        before = megabytes()
        made = register(owner, "bomb", "bomb.parquet")
        assert made.status_code in (201, 422), made.text
        if made.status_code == 201:
            asked = {"sql": "SELECT MEDIAN(cost) AS m FROM visits", "epsilon": 1}
            said = owner.post("/v1/datasets/bomb/queries", json=asked)
            assert said.status_code in (200, 423, 500), said.text
        assert megabytes() - before < 350  # of 700 that lie unpacked
        assert running.ask("ada").status_code == 200


def megabytes() -> float:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def swollen(path: Path, millions: int) -> None:
    """A small file of many rows: each of its groups is one value, over and over."""
    template = visits(1)
    rows = 1_000_000
    columns = [
        pa.array(range(rows)) if name == "patient_id" else pa.repeat(template.column(name)[0], rows)
        for name in template.column_names
    ]
    group = pa.table(columns, names=template.column_names).cast(template.schema)
    constant = [name for name in template.column_names if name != "patient_id"]
    delta = {"patient_id": "DELTA_BINARY_PACKED"}
    with pq.ParquetWriter(
        path, group.schema, compression="zstd", use_dictionary=constant, column_encoding=delta
    ) as writer:
        for _ in range(millions):
            writer.write_table(group)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + " + ".join(["COUNT(*)"] * 3000) + " AS n FROM visits",
        "SELECT COUNT(*) FROM visits WHERE " + "(" * 3000 + "age > 1" + ")" * 3000,
        "SELECT COUNT(*) FROM visits WHERE age IN (" + ", ".join(map(str, range(20_000))) + ")",
        "SELECT COUNT(*) FROM " + ", ".join(f"visits v{i}" for i in range(60)),
        "SELECT " + ", ".join(f"QUANTILE(cost, 0.{i:04}) AS q{i}" for i in range(1, 1500)) + " FROM visits",
    ],
    ids=["a long sum", "deep brackets", "a long list", "a wide join", "many quantiles"],
)
def test_a_question_that_would_take_long_is_refused_or_answered_and_the_door_stays_open(
    shared: Hospital, sql: str
) -> None:
    with shared.api("ada") as client:
        said = client.post("/v1/datasets/visits/preview", json={"sql": sql, "epsilon": 0.1})
        assert said.status_code in (200, 422), said.text
        assert client.get("/v1/health").status_code == 200
