"""What a person asked here, with its terms: asked the same again, it is free."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import sqlalchemy as sa

from deniable.curator.question import Question
from deniable.server.people import store
from deniable.server.people.store import State

MOST = 50
"""Questions that are remembered of one person and data set."""


@dataclass(frozen=True)
class Remembered:
    """A question of a person's own, as she typed it."""

    text: str
    fields: dict[str, str]
    entry: int
    epsilon: float
    time: float


def remember(
    state: State,
    person: str,
    data: str,
    question: Question,
    fields: dict[str, str],
    entry: int,
    epsilon: float,
) -> None:
    """Keep a question once; the newest is the first."""
    table = store.asked
    mine = (table.c.person == person) & (table.c.data == data)
    row = {"person": person, "data": data, "digest": question.digest, "typed": json.dumps(fields)}
    with state.writing() as connection:
        connection.execute(table.delete().where(mine & (table.c.digest == question.digest)))
        connection.execute(table.insert().values(**row, entry=entry, epsilon=epsilon, time=time.time()))
        old = sa.select(table.c.time).where(mine).order_by(table.c.time.desc()).offset(MOST).limit(1)
        last = connection.execute(old).first()
        if last is not None:
            connection.execute(table.delete().where(mine & (table.c.time <= last[0])))


def recent(state: State, person: str, data: str, count: int = 6) -> list[Remembered]:
    table = store.asked
    query = sa.select(table).where((table.c.person == person) & (table.c.data == data))
    with state.reading() as connection:
        rows = list(connection.execute(query.order_by(table.c.time.desc()).limit(count)).mappings())
    return [_read(row) for row in rows]


def _read(row: sa.RowMapping) -> Remembered:
    form = json.loads(row["typed"])
    return Remembered(form["sql"], form, row["entry"], row["epsilon"], row["time"])
