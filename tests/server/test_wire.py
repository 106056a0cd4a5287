"""The protocol itself: TLS, logins, cancel, portals, packets that lie, and what a connection may still do
after a revocation."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from deniable.errors import InvalidQuery, ProtocolError
from deniable.server.run import _listening
from deniable.server.settings import Address, Caps
from deniable.server.wire import trees, values
from deniable.server.wire.messages import MessageReader
from deniable.server.wire.statements import StatementKind, copy_form, statements
from tests.server.hospital import COUNT, Hospital, hospital

SSL, CANCEL = 80877103, 80877102


def test_an_answer_in_parts_waits_for_no_acknowledgement() -> None:
    """Without TCP_NODELAY a second small packet is held back until the client's system speaks: 40 ms a request."""

    async def option() -> int:
        connected: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()
        listener = _listening(Address("127.0.0.1", 0))
        server = await asyncio.start_server(
            lambda _, writer: connected.set_result(writer.get_extra_info("socket")), sock=listener
        )
        _, writer = await asyncio.open_connection(*listener.getsockname())
        value = (await connected).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()
        server.close()
        return value

    with ThreadPoolExecutor(1) as thread:  # a browser's tests leave a loop running in this one
        assert thread.submit(lambda: asyncio.run(option())).result() != 0


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine's loopback, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "c.pem", folder / "k.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    paths[1].write_bytes(private)
    return paths


def raw(port: int, *parts: bytes, until: bytes | None = None) -> bytes:
    """What the server says to these bytes: up to `until`, however long that takes, or
    before it closes or falls silent."""
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        sock.settimeout(1.0 if until is None else 60.0)
        said = b""
        try:
            for part in parts:
                sock.sendall(part)
            while (until is None or until not in said) and (part := sock.recv(65536)):
                said += part
        except (TimeoutError, ConnectionError):
            pass
        return said


def startup(version: int = 3 << 16, **given: str) -> bytes:
    body = b"".join(word.encode() + b"\0" for pair in given.items() for word in pair) + b"\0"
    return struct.pack("!ii", len(body) + 8, version) + body


def test_with_a_certificate_nothing_is_said_in_the_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with hospital(tmp_path, certificate=cert, key=key) as running:
        good = running.dsn(epsilon="0.5") + f" sslmode=verify-full sslrootcert={cert}"
        with psycopg.connect(good) as connection:
            assert connection.pgconn.ssl_in_use
            assert connection.execute(COUNT).fetchone() is not None
        with pytest.raises(psycopg.OperationalError, match="Expected TLS"):
            psycopg.connect(running.dsn() + " sslmode=disable")
        said = raw(running.port, startup(user="ada", database="visits"), until=b"Expected TLS")
        assert said.startswith(b"E")
        assert b"SCRAM" not in said
        # What somebody between slips in before TLS begins is not taken for the client's.
        wish = struct.pack("!ii", 8, SSL)
        assert raw(running.port, wish + startup(user="ada", database="visits")) == b""
        assert raw(running.port, wish, until=b"S") == b"S"


def test_a_wrong_token_an_unknown_person_and_a_wrong_data_set_open_nothing(shared: Hospital) -> None:
    port, good = shared.port, shared.tokens["ada"]
    place = f"host=127.0.0.1 port={port} dbname=visits"
    said = set()
    for user, password in (
        ("ada", "wrong"),
        ("nobody", "wrong"),
        ("bob", good),
        ("ada", shared.tokens["bob"]),
    ):
        with pytest.raises(psycopg.OperationalError) as refused:
            psycopg.connect(f"{place} user={user} password={password}")
        said.add(str(refused.value).split('"')[2] if '"' in str(refused.value) else "")
    assert len(said) == 1
    for data in ("other", "visits/bob", "state"):
        with pytest.raises(psycopg.OperationalError, match="does not exist"):
            psycopg.connect(shared.dsn(data=data))
    with pytest.raises(psycopg.OperationalError, match="scope ask"):
        psycopg.connect(shared.dsn("vera"))


def test_somebody_who_does_not_exist_is_asked_for_a_proof_like_everybody(shared: Hospital) -> None:
    salts = []
    for user in ("ada", "nobody", "nobody"):
        first = b"n,,n=,r=0123456789abcdef"
        body = b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first
        proof = b"p" + struct.pack("!i", len(body) + 4) + body
        said = raw(shared.port, startup(user=user, database="visits"), proof, until=b",i=4096")
        salts.append(said.split(b",s=")[1].split(b",")[0])
        assert b",i=4096" in said
    assert salts[0] != salts[1] == salts[2]


@pytest.mark.parametrize(
    "packet",
    [
        struct.pack("!ii", 1 << 30, 3 << 16),
        struct.pack("!ii", 4, 3 << 16),
        struct.pack("!ii", -1, 3 << 16),
        startup(2 << 16, user="ada"),
        startup(user="ada") + b"p" + struct.pack("!i", 1 << 30),
        startup(user="ada") + b"p" + struct.pack("!i", 3),
        startup(user="ada") + b"Q" + struct.pack("!i", 13) + b"SELECT 1\0",
        startup(user="ada") + b"p" + struct.pack("!i", 18) + b"SCRAM-SHA-1\0\0\0",
        startup(user="ada") + b"p\0\0\0\x18SCRAM-SHA-256\0\0\0\0\x02p=",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01" + b"\0" * 40,
        struct.pack("!ii", 16, CANCEL) + b"\1\2\3\4\5\6\7\x08",
        struct.pack("!ii", 8, SSL) * 9,
    ],
)
def test_packets_that_lie_end_the_connection_and_the_door_stays_open(shared: Hospital, packet: bytes) -> None:
    said = raw(shared.port, packet)
    assert b"Z\0\0\0\5" not in said  # nobody is let in
    assert b"Traceback" not in said
    with psycopg.connect(shared.dsn()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_later_minor_versions_are_told_what_is_spoken_here(shared: Hospital) -> None:
    said = raw(shared.port, startup((3 << 16) + 2, user="ada", **{"_pq_.x": "1"}), until=b"_pq_.x")
    assert said.startswith(b"v")
    assert struct.unpack_from("!ii", said, 5) == (3 << 16, 1)


def cancelled(running: Hospital, connection: psycopg.Connection, first: int = 0) -> str:
    """A query that was stopped after its charge. On a busy machine the wish may come
    after the answer: then another one is."""
    for i in range(first, first + 20):
        query, before = f"{COUNT} WHERE age > {i}", running.spent()

        def stop(before: float = before) -> None:
            while running.spent() == before:
                time.sleep(0.02)
            connection.cancel_safe(timeout=600)

        thread = threading.Thread(target=stop)
        thread.start()
        try:
            connection.execute(query)  # type: ignore[call-overload]
        except psycopg.errors.QueryCanceled as error:
            assert "what was charged for it stays charged" in str(error)  # noqa: PT017
            return query
        finally:
            thread.join()
    raise AssertionError("No query was stopped in time.")


def test_a_cancelled_query_is_charged_releases_nothing_and_is_told_once(tmp_path: Path) -> None:
    with (
        hospital(tmp_path, floor=2.0, rows=200) as running,
        psycopg.connect(running.dsn(epsilon="0.5"), autocommit=True) as connection,
    ):
        query = cancelled(running, connection)
        spent = running.spent()
        with pytest.raises(psycopg.Error, match=r"was paid .* not kept") as told:
            connection.execute(query)  # type: ignore[call-overload]
        assert told.value.sqlstate == "55000"
        assert running.spent() == spent
        assert connection.execute(query).fetchone() is not None  # type: ignore[call-overload]
        assert running.spent() == pytest.approx(spent + 0.5)  # said once; now it was a new charge
        connection.cancel_safe(timeout=600)  # nothing is being asked
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_portal_executed_again_goes_on_and_charges_nothing(fresh: Hospital) -> None:
    with psycopg.connect(fresh.dsn(epsilon="0.5")) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", prepare=True)
        rows = cursor.fetchall()
        for _ in range(3):
            assert (
                connection.execute(
                    "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", prepare=True
                ).fetchall()
                == rows
            )
    assert fresh.spent() == pytest.approx(0.5)


def test_a_revoked_token_and_a_lost_role_close_an_open_connection(fresh: Hospital) -> None:
    with (
        psycopg.connect(fresh.dsn(epsilon="0.5"), autocommit=True) as ada,
        psycopg.connect(fresh.dsn("bob", epsilon="0.5"), autocommit=True) as bob,
    ):
        ada.execute(COUNT)
        with closing(fresh.session("olga")) as owner:
            assert owner.delete(f"/v1/tokens/{fresh.tokens['ada'].split('_')[1]}").is_success
            assert owner.patch("/v1/people/bob", json={"roles": ["auditor"]}).is_success
        for connection in (ada, bob):
            with pytest.raises(psycopg.Error) as refused:
                connection.execute("SELECT COUNT(*) AS m FROM visits WHERE age > 1")
            assert refused.value.sqlstate in ("28000", "42501")
    assert fresh.spent() == pytest.approx(0.5)


def test_caps_of_a_connection_and_of_a_day_hold(tmp_path: Path) -> None:
    with hospital(tmp_path, caps=Caps(session=1.0, day=1.5)) as running:
        outcomes = []
        for first in (0, 10):
            with psycopg.connect(running.dsn(epsilon="0.5"), autocommit=True) as connection:
                outcomes += [outcome(connection, f"{COUNT} WHERE age > {first + i}") for i in range(1, 4)]
        assert outcomes == [None, None, "53400", None, "53400", "53400"]
        assert running.spent("visits/ada") == pytest.approx(1.5)
        assert running.ask("ada", "SELECT COUNT(*) AS n FROM visits WHERE age > 50").status_code == 409
        assert running.ask("ada", "SELECT COUNT(*) AS n FROM visits WHERE age > 1", epsilon="0.5").json()[
            "again"
        ]


def outcome(connection: psycopg.Connection, query: str) -> str | None:
    """The state of the error that a query ends with, if it does."""
    try:
        connection.execute(query)
    except psycopg.Error as error:
        return error.sqlstate
    return None


# ------------------------------------------------------------------------------------------------ pieces


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("", [StatementKind.EMPTY]),
        (" ; ;-- nothing\n", [StatementKind.EMPTY]),
        ("SELECT ';' ; SET a = 'b;c'", [StatementKind.QUERY, StatementKind.SET]),
        ("/* ; */ SELECT 1", [StatementKind.QUERY]),
        ("BEGIN; SELECT $$;$$; COMMIT", [StatementKind.CONTROL, StatementKind.QUERY, StatementKind.CONTROL]),
        ("explain select 1", [StatementKind.EXPLAIN]),
        ("COPY (SELECT (1)) TO STDOUT (FORMAT csv)", [StatementKind.COPY]),
    ],
)
def test_statements_are_told_apart_by_their_tokens(text: str, kinds: list[StatementKind]) -> None:
    assert [statement.kind for statement in statements(text)] == kinds


@pytest.mark.parametrize(
    "text",
    [
        *(
            "INSERT INTO visits VALUES (1)",
            "DELETE FROM visits",
            "CREATE TABLE x (a int)",
            "ATTACH 'x.db'",
            "PRAGMA x",
            "CALL f()",
        ),
        *(
            "COPY visits TO '/tmp/x'",
            "COPY (SELECT 1) TO '/tmp/x'",
            "COPY (SELECT 1) TO PROGRAM 'sh'",
            "LOAD 'x'",
            "VACUUM",
            "DO $$x$$",
        ),
        *(
            "EXPLAIN (ANALYZE) SELECT 1",
            "EXPLAIN DELETE FROM visits",
            "EXPLAIN",
            "DECLARE c CURSOR FOR SELECT 1",
            "'x",
            "LISTEN x",
        ),
    ],
)
def test_what_is_not_named_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery):
        statements(text)


@pytest.mark.parametrize("options", ["(FORMAT xml)", "(FORCE_QUOTE *)", "TO x", "(DELIMITER 'ab')"])
def test_options_of_a_copy_are_the_three(options: str) -> None:
    with pytest.raises(InvalidQuery):
        copy_form(statements(f"COPY (SELECT 1) TO STDOUT {options}")[0])


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT 1 /* epsilon=0.5 */", "0.5"),
        ("SELECT 1 -- epsilon = .25", None),
        ("SELECT 1 -- epsilon = 0.25", "0.25"),
        ("SELECT '/* epsilon=9 */'", None),
        ('SELECT "/* epsilon=9 */"', None),
    ],
)
def test_an_epsilon_is_read_in_comments_and_nowhere_else(text: str, hint: str | None) -> None:
    assert statements(text)[0].hint == hint


@pytest.mark.parametrize(
    "value",
    [
        "x' OR '1'='1",
        "\\",
        "\\'",
        "'",
        "''",
        "; DROP TABLE visits --",
        "$1",
        "/* epsilon=9 */",
        "é\u202e\U0001f600",
        "%s",
        "\n\t",
    ],
)
def test_a_text_parameter_stays_one_literal(value: str) -> None:
    made = trees.ready(
        "SELECT COUNT(*) FROM visits WHERE ward = $1", "visits", [values.parameter(value.encode(), False, 25)]
    )
    tree = trees.parse_statement(made, "duckdb")
    assert tree is not None
    assert [(node.name, node.is_string) for node in tree.find_all(trees.exp.Literal)] == [(value, True)]


@pytest.mark.parametrize("value", ["1; DROP", "1 OR 1", "NaN", "Infinity", "0x10", "1e9999", "", "1_000"])
def test_a_number_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(InvalidQuery, match="not of the type"):
        values.parameter(value.encode(), False, values.INT8)


@pytest.mark.parametrize(
    "text", ["0", "1", "-1.5", "12345678.00012", "0.0001", "99999999999999999999.5", "1E+10", "-0.10", "1000"]
)
def test_decimals_go_there_and_back(text: str) -> None:
    back = values.parameter(values.numeric(Decimal(text)), True, values.NUMERIC)
    assert Decimal(back.sql()) == Decimal(text)


@pytest.mark.parametrize("body", [b"abc", struct.pack("!h", -1), b"\xff\0"])
def test_half_messages_are_errors_of_the_protocol(body: bytes) -> None:
    for read in (lambda r: r.string(), lambda r: [r.count(), r.string()], lambda r: r.value()):
        with pytest.raises(ProtocolError):
            read(MessageReader(body))


@pytest.mark.parametrize(
    ("text", "oid", "literal"),
    [
        ("2000-01-31 +00", values.DATE, "CAST('2000-01-31' AS DATE)"),
        ("2000-01-31", values.DATE, "CAST('2000-01-31' AS DATE)"),
        ("2000-01-31 10:20:30.5+02:00", values.TIMESTAMP, "CAST('2000-01-31 10:20:30.5' AS TIMESTAMP)"),
        ("yes", values.BOOL, "TRUE"),
        ("f", values.BOOL, "FALSE"),
    ],
)
def test_a_parameter_in_text_is_read_as_postgresql_reads_it(text: str, oid: int, literal: str) -> None:
    assert values.parameter(text.encode(), False, oid).sql() == literal


@pytest.mark.parametrize(
    ("text", "oid"), [("maybe", values.BOOL), ("2000-01-31 X", values.DATE), ("2000-01-31-1", values.DATE)]
)
def test_a_parameter_of_another_type_is_refused(text: str, oid: int) -> None:
    with pytest.raises(InvalidQuery, match="not of the type"):
        values.parameter(text.encode(), False, oid)
