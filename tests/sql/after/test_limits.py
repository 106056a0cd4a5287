"""What a text over released results may cost in the process that reads it, and, in `make soak`, all bombs where they run."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import pyarrow as pa
import pytest

from deniable.errors import InvalidQuery
from deniable.server.after.pool import Pool
from deniable.sql.after.afterwards import Afterwards
from deniable.sql.after.arithmetic import MOST_IN_ENDS, NodeAllowance, TooLong
from deniable.sql.after.closed.connection import Closed
from deniable.sql.after.closed.runs import RunClosed, run_here, with_distinct_names
from deniable.sql.after.release import ReleasedBlock
from deniable.sql.after.split import split_query
from deniable.sql.answer.table import arrow_type
from tests.sql.after import bombs
from tests.sql.hospital import PATIENT, SCHEMA

T = "WITH t AS (SELECT diagnosis AS g, COUNT(*) AS n FROM visits GROUP BY diagnosis)"


def asked(text: str, run: RunClosed = run_here) -> Afterwards:
    query = split_query(text.replace(bombs.T, T), SCHEMA, PATIENT)
    assert query.after is not None
    return Afterwards(query.blocks, query.after, run)


def reaches(text: str) -> list[bool] | None:
    """Whether each column of an answer has ends; None where none has."""
    columns = asked(text)._with_ends[1]
    return columns and [column.reach is not None for column in columns]


# ------------------------------------------------------------------------------------ the ends of computed numbers


@pytest.mark.parametrize("sign", ["*", "/"])
@pytest.mark.parametrize("many", [5, 7, 100])
def test_a_product_of_many_numbers_has_no_ends_instead_of_endless_ones(sign: str, many: int) -> None:
    text, columns = asked(f"{T} SELECT n, {sign.join(['n'] * many)} AS x FROM t")._with_ends
    assert len(text) < 100 * MOST_IN_ENDS
    assert [column.reach is not None for column in columns or ()] == [True, False]


def test_a_product_of_four_numbers_still_has_its_ends() -> None:
    assert reaches(f"{T} SELECT n * n * n * n AS x, 100.0 * n / SUM(n) OVER () AS share FROM t") == [
        True,
        True,
    ]


def test_sums_that_double_from_result_to_result_count_no_more_cells_than_they_may() -> None:
    chain = "".join(f", c{i + 1} AS (SELECT n + n AS n FROM c{i})" for i in range(40))
    assert reaches(f"{T}, c0 AS (SELECT n FROM t){chain} SELECT n FROM c40") == [False]
    assert reaches(f"{T}, c0 AS (SELECT n FROM t){chain} SELECT n FROM c3") == [True]


def test_a_long_union_is_read_once_for_each_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was read twice for each level: two to the power of fifty times."""
    taken: list[int] = []
    take = NodeAllowance.take
    monkeypatch.setattr(NodeAllowance, "take", lambda self, node: taken.append(1) or take(self, node))  # type: ignore[func-returns-value]
    assert reaches(f"{T} " + " UNION ALL ".join(["SELECT n FROM t"] * 50)) == [True]
    assert len(taken) < 500


def test_queries_in_one_another_end_by_the_space_for_all() -> None:
    nested = "n"
    for _ in range(12):
        nested = f"(SELECT SUM({nested}) FROM t)"
    assert reaches(f"{T} SELECT {nested} AS x FROM t") in (None, [False])
    with pytest.raises(TooLong):
        NodeAllowance(3).take(asked(f"{T} SELECT n FROM t").tree)


@pytest.mark.parametrize(
    "text", ["SELECT 1; SELECT 2", "CREATE TABLE x AS SELECT 1; SELECT 2", "", "SET threads = 9"]
)
def test_the_closed_connection_answers_one_select_and_nothing_beside_it(text: str) -> None:
    with Closed({}) as connection, pytest.raises(InvalidQuery, match="is not one SELECT"):
        connection.answer(text)


# ------------------------------------------------------------------------------------------------------ all bombs


def released(after: Afterwards) -> list[ReleasedBlock]:
    blocks = []
    for query in after.blocks:
        kinds = {output.name: arrow_type(output.of.type) for output in query.outputs}
        table = pa.table(
            {n: pa.array(["F", "M"] if k == pa.string() else [812, 903], k) for n, k in kinds.items()}
        )
        ends = pa.table({n: [800.0, 900.0] for n, k in kinds.items() if k != pa.string()})
        blocks.append(ReleasedBlock(table, dict.fromkeys((1, 2, 4, 16), (ends, ends)), {}))
    return blocks


def explode(text: str) -> tuple[float, float, float, float]:
    """Ask it: seconds and megabytes of the processes that ran it, and of the one that asked."""
    pool = Pool(1)
    try:
        after = asked(text, pool("ada", lambda: False))
        _ = after.schema, after.direct, after.numbers
        after.answer(released(after))
    except InvalidQuery:
        pass
    pool.close()
    of: Callable[[int], resource.struct_rusage] = resource.getrusage
    children, own = of(resource.RUSAGE_CHILDREN), of(resource.RUSAGE_SELF)
    seconds = [each.ru_utime + each.ru_stime for each in (children, own)]
    return seconds[0], children.ru_maxrss / 1000, seconds[1], own.ru_maxrss / 1000


def test_a_hundred_bombs_differ() -> None:
    assert len(set(bombs.bombs().values())) >= 100


@pytest.mark.soak
@pytest.mark.parametrize("name", bombs.bombs())
def test_every_bomb_ends_within_12_seconds_and_700_megabytes(name: str) -> None:
    """With .5 s for the start of each of the two processes that one may need, and the imports of who asks."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as executor:
        seconds, megabytes, own_seconds, own_megabytes = executor.submit(
            explode, bombs.bombs()[name]
        ).result()
    assert seconds < 12 + 2 * 0.5
    assert megabytes < 700
    assert own_seconds < 8
    assert own_megabytes < 500


# ---------------------------------------------------------------------------------------------------------- names


def test_columns_of_one_name_are_told_apart_by_a_number() -> None:
    table = pa.table([pa.array([1])] * 5, names=["c", "C_2", "c", "C", "c"])
    assert with_distinct_names(table).column_names == ["c", "C_2", "c_3", "C_4", "c_5"]
