"""One connection: its login, then messages until the client goes. Every message is bounded, and every error
ends in one sentence."""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlglot import expressions as exp

from deniable.errors import DeniableError, InvalidQuery, NotFound, NotLoggedIn, ProtocolError
from deniable.server.asking import Pending
from deniable.server.http.door import Door
from deniable.server.http.guard import locate_error
from deniable.server.traffic.addresses import host_of
from deniable.server.traffic.seats import working_for
from deniable.server.traffic.steps import on_loop
from deniable.server.wire import copies, states, trees, values
from deniable.server.wire.catalog import Catalogs
from deniable.server.wire.conversation import REPORTED, Asked, WireConversation, WireResult
from deniable.server.wire.messages import (
    ColumnDescription,
    MessageReader,
    authentication,
    message,
    report,
    row_description,
    text,
)
from deniable.server.wire.scram import MECHANISM, ScramExchange
from deniable.server.wire.statements import StatementKind, WireStatement, copy_form, statements

R = TypeVar("R")

MOST_BYTES = 1 << 20
MOST_NAMES = 1000
IDLE_SECONDS = 3600.0
MESSAGE_SECONDS = 60.0
"""From the head of a message to its end, and for an answer to be read."""
MESSAGE_COST = 1000
"""What a message counts for beside its bytes, among those that are handled together."""
TOGETHER = frozenset((b"P", b"B", b"D", b"E", b"C"))
"""Messages that a client sends in a row. Nobody waits for their answers before a Sync or a Flush."""
log = logging.getLogger("deniable.server")


@dataclass
class Prepared:
    """A statement with a name, and the types of its parameters."""

    statement: WireStatement
    oids: list[int]


@dataclass
class Portal:
    """A statement with its values. It is run once; executed again, it goes on where it was."""

    statement: WireStatement
    bound: list[exp.Expr]
    formats: list[int]
    result: WireResult | None = None
    columns: list[ColumnDescription] | None = None
    position: int = 0


@dataclass
class Names:
    """What a client has named."""

    statements: dict[str, Prepared] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)


def cancel_key(process: int, secret: int) -> str:
    """What a client shows to stop its query, by a connection of its own."""
    return f"wire {process} {secret}"


class Connection:
    """A client, from its login to its end."""

    def __init__(
        self,
        door: Door,
        catalogs: Catalogs,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._door = door
        self._service = door.service
        self._catalogs = catalogs
        self._reader = reader
        self._writer = writer
        self._names = Names()
        self._skipping = False
        self._buffer: list[bytes] = []
        self._owner = ""
        self._conversation: WireConversation | None = None
        self._key = (secrets.randbits(31), secrets.randbits(31))

    async def log_in(self, startup: dict[str, str]) -> str | None:
        """Log in. The person, or None where that was refused. The client hears that it is in by `serve`."""
        peer = self._writer.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        try:
            with (
                working_for(f"address {host_of(address)}"),
                self._service.throttle.token_login(address),
            ):
                return await self._login(startup)
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            raise
        except Exception as error:  # the client is told one sentence, and a bug is told to nobody
            await self.refuse(error)
            return None

    async def serve(self) -> None:
        """Answer until the client goes."""
        self._ready()
        await self._flush()
        while await self._turn():
            pass

    async def _in_thread(self, act: Callable[..., R], *args: Any) -> R:
        return await self._door.run(act, *args)

    def _send(self, part: bytes) -> None:
        self._buffer.append(part)

    async def _flush(self) -> None:
        """Send what there is. A client that does not read it is given up."""
        self._writer.write(b"".join(self._buffer))
        self._buffer.clear()
        async with asyncio.timeout(MESSAGE_SECONDS):
            await self._writer.drain()

    async def refuse(self, error: BaseException) -> None:
        if not isinstance(error, DeniableError):
            log.error("%s", locate_error(error))
        state, sentence = states.describe_error(error)
        if isinstance(error, NotLoggedIn):
            state = "28P01"
        # What was about to be sent belongs to a login that did not happen.
        self._buffer.clear()
        self._send(report(b"E", "FATAL", state, sentence))
        await self._flush()

    # -------------------------------------------------------------------------------------------- login

    async def _login(self, startup: dict[str, str]) -> str:
        person = startup.get("user", "")
        exchange = ScramExchange(self._service.roster, person)
        self._send(authentication(10, text(MECHANISM) + b"\0"))
        first = MessageReader(await self._password())
        if first.string() != MECHANISM:
            raise ProtocolError(f"Expected a login by {MECHANISM}.")
        self._send(
            authentication(11, exchange.first((first.value() or b"").decode(errors="replace")).encode())
        )
        transcript, proof = exchange.proof((await self._password()).decode(errors="replace"))
        # Whoever does not exist has no token that could have signed it, and hears the same sentence.
        outcome = await self._in_thread(self._service.roster.proof, person, transcript, proof)
        if outcome is None:
            raise NotLoggedIn(
                f'password authentication failed for user "{person[:60]}": expected a token of yours.'
            )
        caller, signature = outcome
        options = _options(startup)
        try:
            self._conversation = await self._in_thread(
                WireConversation,
                self._service,
                self._catalogs,
                caller,
                startup.get("database") or person,
                options,
            )
        # A data set that was not granted and one that does not exist are told in the same words.
        except NotFound:
            name = (startup.get("database") or person)[:60]
            raise NotFound(
                f'database "{name}" does not exist: name a data set that was granted to you.'
            ) from None
        self._send(authentication(12, b"v=" + _base64(signature)) + authentication(0))
        for name, value in REPORTED.items():
            self._send(message(b"S", text(name) + text(value)))
        self._send(message(b"S", text("session_authorization") + text(person)))
        self._send(message(b"K", struct.pack("!ii", *self._key)))
        self._owner = f"person {caller.name}"
        return caller.name

    async def _password(self) -> bytes:
        await self._flush()
        kind, body = await self._message(10_000)
        if kind != b"p":
            raise ProtocolError("Expected an answer to the login.")
        return body

    async def _message(self, limit: int = MOST_BYTES) -> tuple[bytes, bytes]:
        kind, size = struct.unpack("!ci", await self._reader.readexactly(5))
        if not 4 <= size <= limit:
            raise ProtocolError(f"Expected a message of at most {limit:,} bytes.")
        async with asyncio.timeout(MESSAGE_SECONDS):
            return kind, await self._reader.readexactly(size - 4)

    # -------------------------------------------------------------------------------------------- messages

    async def _turn(self) -> bool:
        """The messages up to one that is waited for. False when the client has gone or what it sends cannot
        be followed."""
        messages: list[tuple[bytes, bytes]] = []
        size = 0
        try:
            while size < MOST_BYTES:
                async with asyncio.timeout(IDLE_SECONDS):
                    kind, body = await self._message()
                messages.append((kind, body))
                size += len(body) + MESSAGE_COST
                if kind not in TOGETHER:
                    break
        except ProtocolError as error:
            await self.refuse(error)
            return False
        except TimeoutError:
            return False
        if kind == b"X":
            return False
        with working_for(self._owner):
            await self._door.drive(self._handle_all(messages))
        await self._flush()
        return True

    async def _handle_all(self, messages: list[tuple[bytes, bytes]]) -> None:
        """Handle messages in threads."""
        for kind, body in messages:
            await self._handle(kind, body)

    async def _handle(self, kind: bytes, body: bytes) -> None:
        # After an error everything up to the next Sync is skipped (protocol, 55.2.3): where a client sends
        # many in a row, a later one must not run and be charged after an earlier one failed.
        if kind == b"S":
            self._skipping = False
            self._ready()
            return
        if self._skipping and kind != b"Q":
            return
        try:
            with self._service.throttle.text(self._owner, len(body)):
                await self._dispatch(kind, MessageReader(body))
        except Exception as error:  # what rows steer is one fixed sentence by now; a bug is not told
            self._fail(error)
            self._skipping = kind != b"Q"
        if kind == b"Q":
            self._ready()

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, DeniableError):
            log.error("%s", locate_error(error))
        state, sentence = states.describe_error(error)
        self._send(report(b"E", "ERROR", state, sentence))
        if self._talk.status == b"T":
            self._talk.status = b"E"

    @property
    def _talk(self) -> WireConversation:
        assert self._conversation is not None
        return self._conversation

    def _ready(self) -> None:
        self._send(message(b"Z", self._talk.status))

    async def _dispatch(self, kind: bytes, reader: MessageReader) -> None:
        match kind:
            case b"Q":
                await self._simple(reader.string())
            case b"P":
                await self._parse(reader)
            case b"B":
                self._bind(reader)
            case b"D":
                await self._describe(reader.take(1), reader.string())
            case b"E":
                await self._execute(reader.string(), reader.numbers("i")[0])
            case b"C":
                self._close(reader.take(1), reader.string())
            case b"H":
                pass
            case b"d" | b"c" | b"f":
                pass  # what is left of a copy that was refused
            case _:
                raise ProtocolError("Function calls and other messages of this kind are not answered.")

    async def _simple(self, query: str) -> None:
        for statement in statements(query):
            result = await self._run(statement, [])
            if statement.kind is StatementKind.COPY:
                self._copy(statement, result)
                continue
            self._notify(result)
            if result.columns is not None:
                formats = [0] * len(result.columns)
                self._send(row_description(result.columns, formats))
                self._rows(result.columns, result.rows, formats)
            self._complete(result.tag)

    def _complete(self, tag: str) -> None:
        if tag:
            self._send(message(b"C", text(tag)))
        else:
            self._send(message(b"I"))

    async def _run(self, statement: WireStatement, bound: Sequence[exp.Expr]) -> WireResult:
        if statement.kind is StatementKind.COPY:
            copy_form(statement)  # what is wrong with it is told before anything is asked
        # What asks nothing of people needs no turn and no way to be stopped.
        if not self._talk.private(statement):
            return await self._in_thread(self._talk.run, statement, bound)
        key, talk = cancel_key(*self._key), self._talk
        questions: list[Asked] = []

        def make() -> Pending:
            questions.append(talk.prepare_query(statement, bound))
            self._door.stops.watch(key, questions[0].asking.cancel)
            return questions[0].asking

        try:
            return await on_loop(
                lambda: self._door.askings.answer(make, lambda answer: talk.to_result(questions[0], answer))
            )
        finally:
            self._door.stops.forget(key)

    # ---------------------------------------------------------------------------------- the extended protocol

    async def _parse(self, reader: MessageReader) -> None:
        name, query = reader.string(), reader.string()
        oids = list(reader.numbers(f"{reader.count()}i"))
        parts = statements(query)
        if len(parts) != 1:
            raise InvalidQuery("cannot insert multiple commands into a prepared statement")
        # A client that never closes what it names would fill the memory of the server.
        if len(self._names.statements) >= MOST_NAMES:
            raise InvalidQuery(
                f"There are {MOST_NAMES} prepared statements already. Nothing was charged. Close some."
            )
        self._names.statements[name] = Prepared(parts[0], self._types(parts[0], oids))
        self._send(message(b"1"))

    def _types(self, statement: WireStatement, oids: list[int]) -> list[int]:
        """Where a client leaves a type open, that of the column beside the parameter."""
        tree = None
        if statement.query:
            tree = trees.parse_statement(statement.query, "postgres")
        if tree is None:
            return [oid or values.TEXT for oid in oids]
        most = max([len(oids), *trees.places(tree)])
        all_oids = oids + [0] * (most - len(oids))
        beside = trees.infer_types(tree, self._talk.kinds())
        return [oid or beside.get(i, values.TEXT) for i, oid in enumerate(all_oids, 1)]

    def _bind(self, reader: MessageReader) -> None:
        name, source = reader.string(), reader.string()
        template = self._find_statement(source)
        codes = reader.numbers(f"{reader.count()}h")
        raw = [reader.value() for _ in range(reader.count())]
        formats = list(reader.numbers(f"{reader.count()}h"))
        if len(raw) != len(template.oids):
            raise ProtocolError(f"Expected {len(template.oids)} parameters, got {len(raw)}.")
        each = _spread(codes, len(raw))
        bound = [values.parameter(*item) for item in zip(raw, map(bool, each), template.oids, strict=True)]
        if len(self._names.portals) >= MOST_NAMES:
            raise InvalidQuery(f"There are {MOST_NAMES} portals already. Nothing was charged. Close some.")
        self._names.portals[name] = Portal(template.statement, bound, formats)
        self._send(message(b"2"))

    async def _describe(self, kind: bytes, name: str) -> None:
        if kind == b"S":
            template = self._find_statement(name)
            count = len(template.oids)
            self._send(message(b"t", struct.pack(f"!h{count}i", count, *template.oids)))
            # Columns follow from types alone, so a statement is described before its values are known.
            bound = [values.stand_in(oid) for oid in template.oids]
            columns = await self._in_thread(self._talk.shape, template.statement, bound)
            self._columns(columns, [])
            return
        portal = self._portal(name)
        portal.columns = await self._in_thread(self._talk.shape, portal.statement, portal.bound)
        self._columns(portal.columns, portal.formats)

    def _columns(self, columns: list[ColumnDescription] | None, formats: Sequence[int]) -> None:
        if columns is None:
            self._send(message(b"n"))
        else:
            self._send(row_description(columns, _spread(formats, len(columns))))

    async def _execute(self, name: str, limit: int) -> None:
        portal = self._portal(name)
        # Executed again, a portal goes on with the rows it has: a cursor in steps is one charge.
        if portal.result is None:
            portal.result = await self._run(portal.statement, portal.bound)
            self._notify(portal.result)
            if portal.statement.kind is StatementKind.COPY:
                self._copy(portal.statement, portal.result)
                return
        result = portal.result
        if result.columns is None:
            self._complete(result.tag)
            return
        end = len(result.rows)
        if limit > 0:
            end = min(portal.position + limit, end)
        part = result.rows[portal.position : end]
        self._rows(result.columns, part, _spread(portal.formats, len(result.columns)))
        portal.position = end
        if end < len(result.rows):
            self._send(message(b"s"))
        else:
            tag = result.tag
            if tag.startswith("SELECT"):
                tag = f"SELECT {len(part)}"
            self._complete(tag)

    def _close(self, kind: bytes, name: str) -> None:
        if kind == b"S":
            self._names.statements.pop(name, None)
        else:
            self._names.portals.pop(name, None)
        self._send(message(b"3"))

    def _find_statement(self, name: str) -> Prepared:
        if name not in self._names.statements:
            raise ProtocolError("There is no prepared statement of this name.")
        return self._names.statements[name]

    def _portal(self, name: str) -> Portal:
        if name not in self._names.portals:
            raise ProtocolError("There is no portal of this name.")
        return self._names.portals[name]

    # ------------------------------------------------------------------------------------------- what is sent

    def _notify(self, result: WireResult) -> None:
        for notice in result.notices:
            self._send(report(b"N", "NOTICE", "00000", notice))

    def _rows(
        self, columns: Sequence[ColumnDescription], rows: Sequence[tuple[Any, ...]], formats: Sequence[int]
    ) -> None:
        for row in rows:
            cells = (
                values.encode(value, column.oid, bool(code))
                for value, column, code in zip(row, columns, formats, strict=True)
            )
            self._send(message(b"D", struct.pack("!h", len(row)) + b"".join(cells)))

    def _copy(self, statement: WireStatement, result: WireResult) -> None:
        self._notify(result)
        for part in copies.copy_rows(result.columns or [], result.rows, copy_form(statement)):
            self._send(part)


def _spread(codes: Sequence[int], count: int) -> list[int]:
    """One code for each: none means text, one means the same for all."""
    if len(codes) > 1 and len(codes) != count:
        raise ProtocolError(f"Expected {count} formats, got {len(codes)}.")
    if len(codes) == count:
        return list(codes)
    return [codes[0] if codes else 0] * count


def _options(startup: dict[str, str]) -> dict[str, str]:
    """Settings in the connection: of its own, or as `options=-c name=value`."""
    options = {name: value for name, value in startup.items() if name.startswith("deniable.")}
    words = startup.get("options", "").replace("\\ ", "\0").split()
    for flag, word in zip(["", *words], words, strict=False):
        pair = ""
        if flag == "-c":
            pair = word
        elif word.startswith(("-c", "--")):
            pair = word[2:]
        name, sign, value = pair.partition("=")
        if sign:
            options[name] = value.replace("\0", " ")
    return options


def _base64(raw: bytes) -> bytes:
    return base64.b64encode(raw)
