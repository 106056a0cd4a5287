"""Refusals that ordinary queries met, each with what its way out says to type: that is answered."""

from __future__ import annotations

import pytest

from deniable.errors import InvalidQuery
from deniable.sql.after.split import split_query
from tests.sql.corpus.tables import schema, unit

PAIRS = [
    (
        "dashboards",
        "SELECT s, COUNT(*) FROM (SELECT user_id, arg_min(status, created_at) AS s FROM orders GROUP BY user_id) f GROUP BY 1",
        "FIRST_VALUE(x) OVER (PARTITION BY person ORDER BY day)",
        "SELECT s, COUNT(*) FROM (SELECT DISTINCT user_id, FIRST_VALUE(status) OVER (PARTITION BY user_id ORDER BY created_at) "
        "AS s FROM orders) f GROUP BY 1",
    ),
    (
        "census",
        "PIVOT adult ON sex USING COUNT(*) GROUP BY education",
        "COUNT(*) FILTER (WHERE b = 'x') AS x",
        "SELECT education, COUNT(*) FILTER (WHERE sex = 'Female') AS f FROM adult GROUP BY education",
    ),
    (
        "census",
        "SELECT * FROM (SELECT education, income FROM adult) PIVOT (COUNT(*) FOR income IN ('<=50K', '>50K'))",
        "SELECT * FROM t PIVOT (SUM(n) FOR b IN (…))",
        "WITH t AS (SELECT education, income, COUNT(*) AS n FROM adult GROUP BY education, income) "
        "SELECT * FROM t PIVOT (SUM(n) FOR income IN ('<=50K', '>50K'))",
    ),
    (
        "hospital",
        "SELECT w.building, COUNT(*) FROM stays s JOIN wards w ON s.ward <= w.ward GROUP BY 1",
        "a generate_series(…) or VALUES that the query writes out is joined by any condition",
        "SELECT d, COUNT(*) FROM generate_series(DATE '1995-01-01', DATE '1995-01-02', INTERVAL 1 DAY) AS g(d) "
        "JOIN stays ON admitted <= d GROUP BY 1",
    ),
    (
        "taxi",
        "SELECT COUNT(*) FROM trips a WHERE dropoff_zone = (SELECT b.pickup_zone FROM trips b WHERE b.rider_id = a.rider_id "
        "ORDER BY b.pickup_at LIMIT 1)",
        "ROW_NUMBER() OVER (PARTITION BY person ORDER BY day) AS r",
        "SELECT COUNT(*) FROM trips a JOIN (SELECT rider_id, pickup_zone FROM (SELECT rider_id, pickup_zone, ROW_NUMBER() OVER "
        "(PARTITION BY rider_id ORDER BY pickup_at) AS r FROM trips) s WHERE r = 1) f ON f.rider_id = a.rider_id "
        "WHERE a.dropoff_zone = f.pickup_zone",
    ),
    (
        "product",
        "SELECT p.list_price, COUNT(*) FROM subscriptions s JOIN plans p ON p.plan = s.plan GROUP BY 1",
        "CAST(x AS DECIMAL(18, 2))",
        "SELECT CAST(p.list_price AS DECIMAL(18, 2)), COUNT(*) FROM subscriptions s JOIN plans p ON p.plan = s.plan GROUP BY 1",
    ),
    (
        "dashboards",
        "SELECT string_split(email, '@') AS domain, COUNT(*) FROM people GROUP BY 1",
        "regexp_extract(x, '@([a-z]+)', 1)",
        "SELECT regexp_extract(email, '@([a-z]+)', 1) AS domain, COUNT(*) FROM people GROUP BY 1",
    ),
    (
        "dashboards",
        "SELECT SUBSTRING(email FROM POSITION('@' IN email) + 1) AS domain, COUNT(*) FROM people GROUP BY 1",
        "split_part(x, '@', 2)",
        "SELECT split_part(email, '@', 2) AS domain, COUNT(*) FROM people GROUP BY 1",
    ),
    (
        "taxi",
        "SELECT COUNT(*) FROM trips WHERE pickup_at::time > dropoff_at::time",
        "extract(hour FROM x)",
        "SELECT COUNT(*) FROM trips WHERE extract(hour FROM pickup_at) >= 7",
    ),
    (
        "taxi",
        "SELECT SUM(g) FROM (SELECT RANK() OVER (PARTITION BY vendor ORDER BY pickup_at) AS g FROM trips) t",
        "OVER (PARTITION BY rider_id …)",
        "SELECT SUM(g) FROM (SELECT RANK() OVER (PARTITION BY rider_id ORDER BY pickup_at) AS g FROM trips) t",
    ),
    (
        "hospital",
        "SELECT ward, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY admitted) FROM stays",
        "WHERE r = 1 GROUP BY ward",
        "SELECT ward, COUNT(*) FROM (SELECT ward, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY admitted) AS r "
        "FROM stays) v WHERE r = 1 GROUP BY ward",
    ),
]


@pytest.mark.parametrize(("name", "text", "says", "typed"), PAIRS)
def test_the_way_out_can_be_followed(name: str, text: str, says: str, typed: str) -> None:
    with pytest.raises(InvalidQuery) as refusal:
        split_query(text, schema(name), unit(name))
    assert says in str(refusal.value)
    assert split_query(typed, schema(name), unit(name)).blocks
