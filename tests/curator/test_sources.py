"""One question, every kind of source, the same seed: the same answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from deniable.curator import Curator
from deniable.errors import InvalidQuery
from deniable.sql.schema.declare import Schema
from deniable.sql.schema.infer import describe
from tests.sql.engines import real

QUESTION = (
    "SELECT diagnosis, COUNT(*) AS n, SUM(days) AS d, COUNT(DISTINCT patient_id) AS p FROM visits "
    "WHERE age BETWEEN 18 AND 90 AND admitted >= DATE '2024-02-01' GROUP BY diagnosis"
)

Open = Callable[..., Curator]


def parquet(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table, folder / "visits.parquet")
    return folder / "visits.parquet"


def parts(table: pa.Table, folder: Path) -> Any:
    (folder / "visits").mkdir()
    for i in range(3):
        pq.write_table(table.slice(i * 2000, 2000), folder / "visits" / f"{i}.parquet")
    pq.write_table(table.slice(6000), folder / "visits" / "3.parquet")
    return str(folder / "visits" / "*.parquet")


def csv(table: pa.Table, folder: Path) -> Any:
    pyarrow.csv.write_csv(table, folder / "visits.csv")
    return str(folder / "visits.csv")


def database(table: pa.Table, folder: Path) -> Any:
    with duckdb.connect(str(folder / "hospital.duckdb")) as connection:
        connection.register("source", table)
        connection.execute("CREATE TABLE visits AS FROM source")
    return str(folder / "hospital.duckdb")


def pandas(table: pa.Table, folder: Path) -> Any:
    return table.to_pandas()


def polars(table: pa.Table, folder: Path) -> Any:
    import polars

    return polars.DataFrame(table)


def postgres(table: pa.Table, folder: Path) -> Any:
    return real.ingest({"visits": table})


def spark(table: pa.Table, folder: Path) -> Any:
    return real.frames({"visits": table})


SOURCES = [
    parquet,
    parts,
    csv,
    database,
    pandas,
    polars,
    pytest.param(postgres, marks=pytest.mark.needs("postgres")),
    pytest.param(spark, marks=[pytest.mark.needs("spark"), pytest.mark.soak]),  # a minute to start and plan
]


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_answer(
    hospital: Open, table: pa.Table, tmp_path: Path, source: Callable[[pa.Table, Path], Any]
) -> None:
    schema = Schema((describe("visits", table),))
    answers = [
        hospital(where, schema=schema).sql(QUESTION, epsilon=1) for where in (table, source(table, tmp_path))
    ]
    assert answers[0].table.equals(answers[1].table)
    assert answers[0].value.num_rows == 8


def test_a_csv_file_without_a_schema_is_text_and_says_so(
    hospital: Open, table: pa.Table, tmp_path: Path
) -> None:
    """Types are never guessed from values: one person's "unknown" would change them."""
    with pytest.raises(InvalidQuery):
        hospital(csv(table, tmp_path), bounds={}).sql("SELECT SUM(days) AS d FROM visits", epsilon=1)
