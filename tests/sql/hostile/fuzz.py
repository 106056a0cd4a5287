"""Random queries of the grammar that the curator takes, biased towards what breaks engines."""

from __future__ import annotations

import random
from collections.abc import Callable

Make = Callable[[], str]

NUMBERS = (
    "0",
    "1",
    "-1",
    "41",
    "2",
    "7",
    "9223372036854775807",
    "-9223372036854775808",
    "0.5",
    "1e308",
    "1e-300",
    "NULL",
)
TEXTS = ("'flu'", "'secret'", "''", "'x'", "'1'", "'2020-01-01'", "'%'", "NULL", "'a''b'")


class Fuzz:
    """One random query for each seed."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)

    # -------------------------------------------------------------------------------------------- expressions

    def number(self, depth: int) -> str:
        a, b = (lambda: self.number(depth - 1)), (lambda: self.text(depth - 1))
        leaves: list[Make] = [
            lambda: self.pick.choice(("age", "days", "cost", "price")),
            lambda: self.pick.choice(NUMBERS),
        ]
        deeper: list[Make] = [
            lambda: f"({a()} {self.pick.choice(('+', '-', '*', '/', '//', '%'))} {a()})",
            lambda: (
                f"{self.pick.choice(('ABS', 'FLOOR', 'CEIL', 'SQRT', 'LN', 'LOG10', 'EXP', 'SIGN', '-'))}({a()})"
            ),
            lambda: f"ROUND({a()}, {self.pick.randrange(4)})",
            lambda: f"POWER({a()}, {a()})",
            lambda: f"{self.pick.choice(('GREATEST', 'LEAST', 'COALESCE', 'NULLIF'))}({a()}, {a()})",
            lambda: f"CASE WHEN {self.condition(depth - 1)} THEN {a()} ELSE {a()} END",
            lambda: (
                f"CAST({self.pick.choice((a, b))()} AS "
                f"{self.pick.choice(('BIGINT', 'DOUBLE', 'DECIMAL(9, 2)', 'INTEGER'))})"
            ),
            lambda: f"LENGTH({b()})",
            lambda: f"EXTRACT({self.pick.choice(('year', 'month', 'day', 'hour'))} FROM seen)",
            lambda: (
                "DATE_DIFF('day', admitted, DATE "
                f"'{self.pick.choice(('2020-02-29', '0001-01-01', '9999-12-31'))}')"
            ),
            lambda: f"CLAMP({a()}, 0, 100)",
            lambda: f"(SELECT {self.pick.choice(('MAX', 'SUM', 'AVG', 'COUNT'))}(floor) FROM wards)",
        ]
        return self.pick.choice(leaves if depth <= 0 else leaves + 2 * deeper)()

    def text(self, depth: int) -> str:
        a = lambda: self.text(depth - 1)  # noqa: E731
        leaves: list[Make] = [
            lambda: self.pick.choice(("note", "diagnosis", "ward")),
            lambda: self.pick.choice(TEXTS),
        ]
        deeper: list[Make] = [
            lambda: f"{self.pick.choice(('UPPER', 'LOWER', 'TRIM'))}({a()})",
            lambda: f"SUBSTRING({a()}, {self.pick.randrange(1, 5)}, {self.pick.randrange(5)})",
            lambda: f"({a()} || {a()})",
            lambda: f"REPLACE({a()}, 'x', 'yy')",
            lambda: f"COALESCE({a()}, {a()})",
            lambda: f"CAST({self.number(depth - 1)} AS VARCHAR)",
            lambda: f"CASE WHEN {self.condition(depth - 1)} THEN {a()} ELSE {a()} END",
        ]
        return self.pick.choice(leaves if depth <= 0 else leaves + deeper)()

    def condition(self, depth: int) -> str:
        n, t, c = (
            (lambda: self.number(depth - 1)),
            (lambda: self.text(depth - 1)),
            (lambda: self.condition(depth - 1)),
        )
        compare = self.pick.choice(("=", "<>", "<", "<=", ">", ">="))
        leaves: list[Make] = [
            lambda: "smoker",
            lambda: f"{n()} {compare} {n()}",
            lambda: f"{t()} {compare} {t()}",
            lambda: f"{n()} IS {self.pick.choice(('', 'NOT '))}NULL",
            lambda: f"age BETWEEN {self.pick.randrange(50)} AND {self.pick.randrange(100)}",
            lambda: f"{t()} LIKE '{self.pick.choice(('%', 'a%', '_o%', '%x'))}'",
            lambda: f"age IN ({', '.join(map(str, self.pick.sample(range(99), 3)))})",
            lambda: "admitted < DATE '2020-02-29'",
            lambda: f"{self.pick.choice(('ward', 'note', 'UPPER(ward)'))} {self.among()}",
            lambda: f"EXISTS (SELECT 1 FROM wards WHERE floor = {self.pick.randrange(4)})",
        ]
        deeper: list[Make] = [
            lambda: f"({c()} AND {c()})",
            lambda: f"({c()} OR {c()})",
            lambda: f"NOT ({c()})",
        ]
        return self.pick.choice(leaves if depth <= 0 else leaves + deeper)()

    def among(self) -> str:
        negated = self.pick.choice(("", "NOT "))
        return f"{negated}IN (SELECT ward FROM wards WHERE floor > {self.pick.randrange(4)})"

    # -------------------------------------------------------------------------------------------- queries

    def aggregate(self) -> str:
        of = self.number(2)
        made = self.pick.choice(
            (
                "COUNT(*)",
                f"COUNT({of})",
                f"COUNT(DISTINCT {self.text(1)})",
                "COUNT(DISTINCT patient_id)",
                f"SUM(CLAMP({of}, -50, 50))",
                f"AVG(CLAMP({of}, -50, 50))",
                f"STDDEV(CLAMP({of}, 0, 10))",
                f"MEDIAN(CLAMP({of}, 0, 100))",
                f"MAX(CLAMP({of}, 0, 100))",
                f"SUM({self.pick.choice(('age', 'days', 'cost', 'price'))})",
            )
        )
        return f"{made} FILTER (WHERE {self.condition(1)})" if self.pick.random() < 0.3 else made

    def relation(self) -> str:
        return self.pick.choice(
            (
                "visits",
                "visits",
                f"(SELECT * FROM visits WHERE {self.condition(1)})".replace("*", COLUMNS),
                f"(SELECT {COLUMNS} FROM visits UNION ALL SELECT {COLUMNS} FROM visits)",
                f"(SELECT {COLUMNS} FROM visits JOIN wards USING (ward))",
            )
        )

    def query(self) -> str:
        keys = self.pick.sample(
            (
                "diagnosis",
                "ward",
                "smoker",
                "note",
                "bucket(age, [0, 30, 60])",
                "EXTRACT(month FROM admitted)",
            ),
            self.pick.choice((0, 0, 1, 1, 2)),
        )
        shown = [*keys, *(self.aggregate() for _ in range(self.pick.randint(1, 3)))]
        text = f"SELECT {', '.join(shown)} FROM {self.relation()}"
        if self.pick.random() < 0.7:
            text += f" WHERE {self.condition(2)}"
        if keys:
            listed = ", ".join(str(i + 1) for i in range(len(keys)))
            text += f" GROUP BY {f'ROLLUP ({listed})' if self.pick.random() < 0.15 else listed}"
        if self.pick.random() < 0.2:
            text += " HAVING COUNT(*) > 1"
        return text + (f" ORDER BY {len(shown)} DESC LIMIT 3" if self.pick.random() < 0.2 else "")


COLUMNS = "patient_id, age, days, cost, price, diagnosis, ward, note, admitted, seen, smoker"
