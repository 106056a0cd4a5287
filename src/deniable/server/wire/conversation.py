"""What one connection asks, statement by statement: private queries of the service, the catalog's own,
settings and transactions.

Nothing here undoes a charge. ROLLBACK ends a transaction in name only, and a portal that is executed again
goes on where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import expressions as exp

from deniable.curator import Answer, Curator
from deniable.curator.question import TERMS, Question
from deniable.errors import InvalidParameter, InvalidQuery
from deniable.server.asking import Pending
from deniable.server.people.rights import Caller
from deniable.server.purse import Purse
from deniable.server.service import Service
from deniable.server.wire import trees, values
from deniable.server.wire.catalog import VERSION, Catalogs, Identity
from deniable.server.wire.messages import ColumnDescription
from deniable.server.wire.statements import StatementKind, WireStatement
from deniable.sql.after.afterwards import answer_fields
from deniable.sql.read.clause import without_clause

SETTINGS = (*(f"deniable.{name}" for name in TERMS), "deniable.intervals")
"""What may be SET: the terms of a question, and whether the ends of intervals are columns of the answer."""
REPORTED = {
    "server_version": VERSION,
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "IntervalStyle": "postgres",
    "is_superuser": "off",
    "default_transaction_read_only": "on",
    "in_hot_standby": "off",
}
SHOWN = {name.lower(): value for name, value in REPORTED.items()} | {
    "transaction isolation level": "read committed",
    "transaction_isolation": "read committed",
    "search_path": "public",
    "max_identifier_length": "63",
    "extra_float_digits": "1",
}
NO_EPSILON = (
    "No ε was named, so nothing was asked and nothing was charged. Say what the query may cost: SET "
    "deniable.epsilon = 0.1, or SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) …, or /* "
    "epsilon=0.1 */ in the query, or options=-c deniable.epsilon=0.1 in the connection. EXPLAIN tells "
    "beforehand what it brings."
)
FREE = ("ROLLBACK", "ABORT", "COMMIT", "END")


@dataclass
class WireResult:
    """What a statement comes to: rows under columns, or a tag alone."""

    tag: str
    columns: list[ColumnDescription] | None = None
    rows: Sequence[tuple[Any, ...]] = ()
    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Asked:
    """A private query that is ready to be asked, and the columns that it will have."""

    asking: Pending
    columns: list[ColumnDescription]


class WireConversation:
    """A person, a data set, and her settings."""

    def __init__(
        self, service: Service, catalogs: Catalogs, caller: Caller, data: str, options: dict[str, str]
    ) -> None:
        self._service = service
        self._catalogs = catalogs
        self._caller = caller
        self._data = data
        self._purse = Purse()
        self._column_cache: dict[tuple[str, str], Sequence[tuple[str, Any]]] = {}
        self.curator: Curator = service.curator(caller, data)
        self.settings: dict[str, str] = {}
        self.status = b"I"
        for name, value in options.items():
            self._set(name, value)

    # -------------------------------------------------------------------------------------------- statements

    def run(self, statement: WireStatement, bound: Sequence[exp.Expr] = ()) -> WireResult:
        """Run one statement, but for a private query. Who asks is looked up anew: a token that was revoked
        opens nothing more."""
        self._check_transaction(statement)
        match statement.kind:
            case StatementKind.EMPTY:
                return WireResult("")
            case StatementKind.SET:
                return self._run_set(statement)
            case StatementKind.SHOW:
                return self._show(statement)
            case StatementKind.CONTROL:
                return self._control(statement)
            case StatementKind.EXPLAIN:
                return self._explain(statement, bound)
            case _:
                return self._look_up(statement, bound)

    def _check_transaction(self, statement: WireStatement) -> None:
        if self.status == b"E" and not (
            statement.kind is StatementKind.CONTROL and statement.words[0] in FREE
        ):
            raise InvalidQuery(
                "current transaction is aborted, commands ignored until end of transaction block"
            )

    def shape(self, statement: WireStatement, bound: Sequence[exp.Expr]) -> list[ColumnDescription] | None:
        """The columns that a statement will return, told before it is run; None if it returns none."""
        match statement.kind:
            case StatementKind.SHOW:
                return [ColumnDescription(_name(statement.words[1:]), values.TEXT)]
            case StatementKind.EXPLAIN:
                return [ColumnDescription("QUERY PLAN", values.TEXT)]
            case StatementKind.QUERY:
                tree = trees.parse_statement(statement.query, "postgres")
                if tree is not None and trees.asks_catalog(tree):
                    return self._ask_catalog(tree, bound)[0]
                return self._columns(trees.ready(without_clause(statement.query)[0], self._data, bound))
            case _:
                return None

    def kinds(self) -> dict[str, int]:
        """The type of each declared column, by its name."""
        tables = self.curator.schema.tables
        return {
            column.name.lower(): values.KINDS[column.type.kind.value]
            for table in tables
            for column in table.columns
        }

    def _columns(self, text: str) -> list[ColumnDescription]:
        columns: list[ColumnDescription] = []
        fields = self._fields(text)
        names = {name for name, _ in fields}
        for name, kind in fields:
            columns.append(ColumnDescription(name, values.KINDS[kind.value]))
            if self._flag("intervals") and kind.value in ("integer", "decimal", "float"):
                for side in ("low", "high"):
                    limit = f"{name}_{side}"
                    while limit in names:
                        limit += "_"
                    names.add(limit)
                    columns.append(ColumnDescription(limit, values.FLOAT8))
        return columns

    def _fields(self, text: str) -> Sequence[tuple[str, Any]]:
        """Told before a query and again with its answer: read once."""
        key = (self.curator.schema.version, text)
        if key not in self._column_cache:
            account = self.curator.account
            run = self._service.pool(account.name, lambda: False)
            self._column_cache = {key: answer_fields(text, self.curator.schema, account.unit, run)}
        return self._column_cache[key]

    # -------------------------------------------------------------------------------------------- queries

    def private(self, statement: WireStatement) -> bool:
        """Whether a statement asks about private data, and not about the catalog."""
        if statement.kind not in (StatementKind.QUERY, StatementKind.COPY):
            return False
        tree = trees.parse_statement(statement.query, "postgres")
        return tree is None or not trees.asks_catalog(tree)

    def prepare_query(self, statement: WireStatement, bound: Sequence[exp.Expr]) -> Asked:
        """A private query, made ready to be asked."""
        self._check_transaction(statement)
        question = self._question(statement, bound)
        self.refresh()
        columns = self._columns(question.text)
        asking = self._service.asking(self._caller, self.curator, self._data, question, purse=self._purse)
        return Asked(asking, columns)

    def _look_up(self, statement: WireStatement, bound: Sequence[exp.Expr]) -> WireResult:
        tree = trees.parse_statement(statement.query, "postgres")
        assert tree is not None
        columns, rows = self._ask_catalog(tree, bound)
        return WireResult(f"SELECT {len(rows)}", columns, rows)

    def to_result(self, query: Asked, answer: Answer) -> WireResult:
        """What is told of an answer."""
        rows = _rows(answer, query.columns)
        return WireResult(f"SELECT {len(rows)}", query.columns, rows, self._notices(answer))

    def _notices(self, answer: Answer) -> list[str]:
        left = self.curator.account.remaining().epsilon
        cost = f"Cost: {answer.cost}."
        if answer.again:
            cost = f"Free: {answer.cost}, before."
        return [f"{cost} Left for one charge: ε ≤ {left:.4g}.", *answer.notes]

    def _explain(self, statement: WireStatement, bound: Sequence[exp.Expr]) -> WireResult:
        tree = trees.parse_statement(statement.query, "postgres")
        if tree is not None and trees.asks_catalog(tree):
            raise InvalidQuery("The catalog is free, and has no plan to tell. Nothing was charged.")
        question = self._question(statement, bound)
        self.refresh()
        self._service.throttle.hit("previews", self._caller.name)
        preview = self.curator.inquire(question).preview()
        return WireResult(
            "EXPLAIN", [ColumnDescription("QUERY PLAN", values.TEXT)], [(line,) for line in preview.lines()]
        )

    def _question(self, statement: WireStatement, bound: Sequence[exp.Expr]) -> Question:
        """The price is what the query's own clause says, else a comment in it, else the settings."""
        bare, clause = without_clause(statement.query)
        clause.check(self.curator.account.unit)
        text = trees.ready(bare, self._data, bound)
        terms: dict[str, Any] = {name: self.settings.get(f"deniable.{name}") for name in TERMS}
        if statement.hint is not None or clause.epsilon is not None:
            terms |= {"epsilon": statement.hint, "within": None}
        terms |= clause.terms
        text_terms = without_clause(text)[1].terms
        terms |= dict.fromkeys(text_terms)  # the text goes before what was set for all of them
        if "epsilon" in text_terms:
            terms["within"] = None
        if "epsilon" not in text_terms and terms["epsilon"] is None and terms["within"] is None:
            raise InvalidParameter(NO_EPSILON)
        for name, value in terms.items():
            if isinstance(value, str):
                terms[name] = TERMS[name].read(value)
        return Question.read(text, **terms)

    def refresh(self) -> None:
        """The caller and her part of the data set, as things stand now: roles, revocations and versions count
        at once."""
        self._caller = self._service.roster.refresh_caller(self._caller)
        self.curator = self._service.curator(self._caller, self._data)

    def _ask_catalog(
        self, tree: exp.Expr, bound: Sequence[exp.Expr]
    ) -> tuple[list[ColumnDescription], list[tuple[Any, ...]]]:
        query = trees.substitute(tree, bound)
        catalog = self._catalogs.get(self.curator.schema, self._data)
        run = self._service.pool(self._caller.name, lambda: False)
        return catalog.run(query, Identity(self._caller.name, self._data), run.look_up)

    # -------------------------------------------------------------------------------------------- settings

    def _flag(self, name: str) -> bool:
        return self.settings.get(f"deniable.{name}", "off").lower() in ("on", "true", "1", "yes")

    def _run_set(self, statement: WireStatement) -> WireResult:
        words = [word for word in statement.words[1:] if word not in ("SESSION", "LOCAL")]
        if words[:1] in (["TRANSACTION"], ["CHARACTERISTICS"]) or words[:2] == ["TIME", "ZONE"]:
            return WireResult("SET")
        name, value = _assignment(statement.text)
        self._set(name, value)
        return WireResult("SET")

    def _set(self, name: str, value: str) -> None:
        name = name.lower()
        if not name.startswith("deniable."):
            return  # a tool's own wishes (search_path, DateStyle, …) change nothing here
        if name not in SETTINGS:
            raise InvalidParameter(
                f"The setting {name[:60]} is not known. Nothing was set. There are: "
                f"{', '.join(sorted(SETTINGS))}."
            )
        if value.lower() in ("default", ""):
            self.settings.pop(name, None)
            return
        term = name.removeprefix("deniable.")
        if term in TERMS:
            TERMS[term].read(value)  # what cannot be read is refused now
        self.settings[name] = value

    def _show(self, statement: WireStatement) -> WireResult:
        name = _name(statement.words[1:])
        account = self.curator.account
        own = {
            "deniable.left": lambda: account.remaining().epsilon,
            "deniable.spent": lambda: account.spent().epsilon,
        }
        if name in own:
            self.refresh()
            value = f"{own[name]():.6g}"
        else:
            value = self.settings.get(name, SHOWN.get(name, ""))
        return WireResult("SHOW", [ColumnDescription(name, values.TEXT)], [(value,)])

    def _control(self, statement: WireStatement) -> WireResult:
        first, rest = statement.words[0], statement.words[1:]
        if first in ("BEGIN", "START") or (first in ("ROLLBACK", "ABORT") and "TO" in rest):
            self.status = b"T"
        elif first in FREE:
            self.status = b"I"
        elif first == "DISCARD" or (first == "RESET" and rest[:1] == ("ALL",)):
            self.settings = {}
        elif first == "RESET" and rest:
            self.settings.pop(_name(rest), None)
        return WireResult(statement.tag)


def _rows(answer: Answer, columns: Sequence[ColumnDescription]) -> list[tuple[Any, ...]]:
    """The rows of an answer, under the columns that were told."""
    table = answer.table
    names = {column.name for column in columns} & set(table.column_names)
    cells = {name: table.column(name).to_pylist() for name in names}
    nothing = [None] * len(table)
    cells_in_order = [cells.get(column.name, nothing) for column in columns]
    return list(zip(*cells_in_order, strict=True))


def _name(words: Sequence[str]) -> str:
    """A setting's name, of which a dot is a word of its own."""
    phrase = " ".join(words).replace(" . ", ".").lower()
    return phrase.strip('"') or "all"


def _assignment(text: str) -> tuple[str, str]:
    """The name and the value of SET name = value, or TO value."""
    rest = ""
    if " " in text:
        rest = text.split(None, 1)[1]
    for word in ("session ", "local "):
        if rest.lower().startswith(word):
            rest = rest[len(word) :]
    cut = min((at for sign in ("=", " to ", " TO ", " To ") if (at := rest.find(sign)) > 0), default=-1)
    if cut < 0:
        raise InvalidQuery("Expected SET name = value. Nothing was set.")
    value = rest[cut:].lstrip("=").strip()
    if value[:3].lower() == "to ":
        value = value[3:].strip()
    return rest[:cut].strip().strip('"'), value.strip("'").strip()
