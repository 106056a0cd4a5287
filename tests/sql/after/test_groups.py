"""Aggregates over groups with private keys are refused, however they are reached; groups by the same keys again
are answered."""

from __future__ import annotations

import pytest

from deniable.errors import InvalidQuery
from deniable.sql.after.split import split_query
from deniable.sql.schema.file import parse
from deniable.units import Unit

SCHEMA = parse(
    "tables: {visits: {unit: patient_id, columns: {patient_id: integer, sex: {type: text, keys: [F, M]}, ward: text, "
    "days: {type: integer, bounds: [0, 60]}}}}"
)
UNIT = Unit.column("patient_id", max_rows=4)
W = "WITH t AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)"
D = "WITH t AS (SELECT ward, sex, COUNT(*) AS n FROM visits GROUP BY ward, sex)"
S = f"{W}, s AS (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex)"
TOP = f"{D}, top AS (SELECT ward, SUM(n) AS m FROM t GROUP BY ward ORDER BY m DESC LIMIT 3)"
REFUSED = [
    f"{W} SELECT COUNT(*) FROM t",
    f"{W} SELECT MEAN(n) FROM t",
    f"{W} SELECT MAD(n), 1 FROM t",
    f"{W} SELECT PRODUCT(n) AS p FROM t",
    f"{W} SELECT ENTROPY(n) AS p FROM t",
    f"{W}, u AS (SELECT 1 AS ward FROM t) SELECT ward, COUNT(*) FROM u GROUP BY ward",
    f"{W}, u AS (SELECT n AS ward, ward AS w FROM t) SELECT ward, COUNT(*) FROM u GROUP BY ward",
    f"{W} SELECT t.ward, SUM(u.n) FROM t, t AS u GROUP BY t.ward",
    f"{W} SELECT t.ward, SUM(u.n) FROM t JOIN t AS u ON t.n > u.n GROUP BY t.ward",
    f"{W} SELECT u.ward, SUM(t.n) FROM t LEFT JOIN t AS u ON t.ward = u.ward GROUP BY u.ward",
    f"{W} SELECT (SELECT COUNT(*) FROM t) AS c, n FROM t",
    f"{W} SELECT ward FROM t WHERE n > (SELECT AVG(n) FROM t)",
    f"{W} SELECT ward FROM t WHERE EXISTS (SELECT COUNT(*) FROM t)",
    f"{W} SELECT ward FROM t WHERE n IN (SELECT MAX(n) FROM t)",
    f"{W} SELECT ward FROM t ORDER BY (SELECT COUNT(*) FROM t)",
    f"{W} SELECT RANK() OVER (ORDER BY (SELECT COUNT(*) FROM t)) FROM t",
    f"{W} SELECT 1 FROM t HAVING COUNT(*) > 1",
    f"{W} SELECT 1 FROM t ORDER BY COUNT(*)",
    f"{W} SELECT SUM(n) FROM (SELECT ward, n FROM t UNION ALL SELECT ward, n FROM t)",
    f"{W} SELECT x, SUM(n) FROM (SELECT ward AS x, n FROM t UNION ALL SELECT 'all', n FROM t) GROUP BY x",
    f"{W} SELECT SUM(n) OVER () AS x FROM t LIMIT 1",
    f"{W} SELECT DISTINCT COUNT(*) OVER () AS x FROM t",
    f"{W} SELECT ward, SUM(n) FROM t GROUP BY ROLLUP (ward)",
    f"{W} SELECT LOWER(ward), SUM(n) FROM t GROUP BY 1",
    f"{W} SELECT LENGTH(ward) AS ward, SUM(n) FROM t GROUP BY LENGTH(ward)",
    f"{D} SELECT sex, SUM(n) FROM t GROUP BY sex",
    f"{D} SELECT sex, SUM(n) FROM t GROUP BY ALL",
    f"{D} SELECT * FROM (SELECT sex, n FROM t) PIVOT (SUM(n) FOR sex IN ('F', 'M'))",
    f"{D} PIVOT t ON sex IN ('F','M') USING SUM(n) GROUP BY n",
    f"{D} SELECT * FROM t PIVOT (COUNT(ward) FOR sex IN ('F','M'))",
    f"{D} SELECT * FROM (SELECT *, LENGTH(ward) AS l FROM t) PIVOT (SUM(n) FOR l IN (1,2) GROUP BY sex)",
    "SELECT COUNT(*) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)",
    "SELECT AVG(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING COUNT(*) > 5)",
    "SELECT MAX(c) FROM (SELECT COUNT(*) OVER () AS c FROM (SELECT ward FROM visits GROUP BY ward))",
    "SELECT COUNT(*) FROM (SELECT DISTINCT ward FROM visits)",
    "SELECT COUNT(DISTINCT ward) FROM (SELECT ward, COUNT(*) n FROM visits GROUP BY ward)",
    f"{W} SELECT COUNT(*) FROM generate_series(1, 100) AS g(i) WHERE i IN (SELECT n FROM t)",
    f"{W} SELECT COUNT(*) FROM generate_series(1, 100) AS g(i) WHERE EXISTS (SELECT 1 FROM t WHERE t.n = i)",
    f"{W} SELECT SUM(CASE WHEN EXISTS (SELECT 1 FROM t WHERE t.n = i) THEN 1 END) FROM generate_series(1, 100) AS g(i)",
    f"{W} SELECT COUNT(*) FROM (SELECT i FROM generate_series(1, 100) AS g(i) WHERE i IN (SELECT n FROM t))",
    f"{S} SELECT sex, SUM(s.n) FROM s JOIN t ON s.n > t.n GROUP BY sex",
    f"{S} SELECT COUNT(*) FROM s SEMI JOIN t ON s.n > t.n",
    f"{W} SELECT ANY_VALUE(n) FROM t",
    f"{W} SELECT ARG_MAX(ward, n) FROM t",
    f"{W} SELECT STRING_AGG(ward, ',') FROM t",
    f"{W} SELECT QUANTILE_CONT(n, 0.5) FROM t",
    f"{W} SELECT COUNT(*) FILTER (WHERE n > 5) FROM t",
    f"{W}, a AS (SELECT * FROM t), b AS (SELECT * FROM a) SELECT COUNT(*) FROM b",
    f"{W}, a(x, y) AS (SELECT * FROM t) SELECT SUM(y) FROM a",
    "(SELECT COUNT(*) FROM (SELECT ward FROM visits GROUP BY ward)) UNION ALL (SELECT COUNT(*) FROM visits)",
    "WITH t AS (SELECT ward, AVG(days) AS d FROM visits GROUP BY ward) SELECT SUM(d) FROM t",
    "SELECT COUNT(*) FROM (SELECT CASE WHEN ward = 'A' THEN 'a' ELSE ward END AS k, COUNT(*) AS n FROM visits GROUP BY k)",
    f"{W} SELECT MEAN(n) FILTER (WHERE n > 3) AS m FROM t",
    f"{W} SELECT ROUND(MEAN(n), 2) AS m FROM t",
]
ANSWERED = [
    f"{W} SELECT ward, SUM(n) FROM t GROUP BY ward",
    f"{W}, u AS (SELECT ward AS w, n FROM t) SELECT w, SUM(n) FROM u GROUP BY w",
    f"{W} SELECT ward AS w, SUM(n) FROM t GROUP BY w",
    f"{W} SELECT ward AS w, SUM(n) FROM t GROUP BY 1",
    f"{W} SELECT ward, SUM(n) FROM t GROUP BY ALL",
    f"{W} SELECT t.ward, SUM(u.n) FROM t JOIN t AS u ON t.ward = u.ward GROUP BY t.ward",
    f"{W} SELECT t.ward, SUM(u.n) FROM t JOIN t AS u USING (ward) GROUP BY t.ward",
    f"{W} SELECT ward, SUM(u.n) FROM t JOIN t AS u USING (ward) GROUP BY ward",
    f"{W} SELECT t.ward, SUM(u.n) FROM t, t AS u WHERE t.ward = u.ward GROUP BY t.ward",
    f"{W} SELECT t.ward, SUM(u.n) FROM t LEFT JOIN t AS u ON t.ward = u.ward GROUP BY t.ward",
    f"{W} SELECT ward, SUM(u.n) FROM t FULL JOIN t AS u USING (ward) GROUP BY ward",
    f"{W} SELECT ward, SUM(u.n) FROM t NATURAL JOIN t u GROUP BY ward",
    f"{W} SELECT ward, n, RANK() OVER (ORDER BY n) FROM t",
    f"{W} SELECT ward, n / SUM(n) OVER () AS share FROM t",
    f"{W} SELECT ward, SUM(n) OVER (ORDER BY ward) AS x FROM t",
    f"{D} SELECT * FROM t PIVOT (SUM(n) FOR sex IN ('F', 'M'))",
    f"{D} PIVOT t ON sex IN ('F','M') USING SUM(n) GROUP BY ward",
    f"{D} SELECT * FROM t PIVOT (SUM(n) FOR ward IN ('A', 'B'))",
    f"{D} SELECT ward, SUM(n) FROM t GROUP BY ward",
    f"{D} SELECT ward, SUM(n) FILTER (WHERE sex = 'F') AS f FROM t GROUP BY ward HAVING SUM(n) > 4",
    f"{TOP} SELECT ward, sex, n FROM t WHERE ward IN (SELECT ward FROM top)",
    f"{TOP} SELECT ward, SUM(n) AS s FROM t WHERE ward IN (SELECT ward FROM top) GROUP BY ward",
    f"{W} SELECT ward, SUM(n) AS s FROM (SELECT ward, n FROM t UNION ALL SELECT ward, n FROM t) GROUP BY ward",
    "SELECT sex, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS s FROM visits GROUP BY sex",
    "WITH s AS (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) SELECT SUM(n), MEAN(n) AS m FROM s",
    "SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id)",
    f"{S} SELECT SUM(n) FROM s",
    f"{S} SELECT ward, t.n FROM t, s WHERE t.n > s.n",
    f"{W} SELECT ward, n FROM t WHERE n > 10 ORDER BY n LIMIT 3",
    f"{S} SELECT SUM(n) FROM s WHERE n > (SELECT n FROM t WHERE ward = 'A')",
    f"{W} SELECT DISTINCT n FROM t",
    f"{W} SELECT ward, MEAN(n) AS m FROM t GROUP BY ward",
    f"{W} SELECT t.*, t.n + 1 AS m FROM t",
    f"{D} SELECT ward, SUM(n) AS a, SUM(SUM(n)) OVER () AS b FROM t GROUP BY ward",
]


@pytest.mark.parametrize("text", REFUSED)
def test_an_aggregate_over_private_groups_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery, match="aggregates over groups by") as refusal:
        split_query(text, SCHEMA, UNIT)
    assert str(refusal.value).endswith(
        "Ask for the groups themselves, or have their public values declared (keys=, --keys). No data was read and "
        "nothing was charged."
    )


@pytest.mark.parametrize("text", ANSWERED)
def test_groups_by_the_same_keys_and_public_groups_are_answered(text: str) -> None:
    assert split_query(text, SCHEMA, UNIT).blocks


def test_joins_of_a_query_with_itself_are_read_in_bounded_space() -> None:
    """Each doubles keys and columns: forty would be a million million."""
    steps = ", ".join(f"c{i + 1} AS (SELECT * FROM c{i} AS a, c{i} AS b)" for i in range(40))
    text = f"{W}, c0 AS (SELECT * FROM t), {steps} SELECT {{}} FROM c40"
    assert split_query(text.format("1 AS x"), SCHEMA, UNIT).blocks
    with pytest.raises(InvalidQuery, match="aggregates over groups by ward"):
        split_query(text.format("COUNT(*)"), SCHEMA, UNIT)
