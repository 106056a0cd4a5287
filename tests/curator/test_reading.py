"""Answers say how they are to be read; counts are not negative where the reader wants that, for nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from deniable import Budget, Curator, Unit
from deniable.randomness import SeededRandom

ROWS = pa.table(
    {
        "who": list(range(400)),
        "ward": [None if i % 5 == 0 else "AB"[i % 2] for i in range(400)],
        "x": [i % 97 for i in range(400)],
    }
)


def opened(seed: int = 3, limit: float = 1000) -> Curator:
    return Curator.open(
        ROWS, name="t", unit=Unit.column("who", max_rows=1), limit=Budget(limit, 1e-6), ledger="sqlite://",
        bounds={"x": (0, 100)}, keys={"ward": ["A", "B", "C", None]}, rng=SeededRandom(seed),
    )  # fmt: skip


BY_WARD = "SELECT ward, COUNT(*) AS n, SUM(x) AS total, SUM(x - 50) AS moved FROM t GROUP BY ward"


def test_counts_are_not_negative_for_a_reader_who_wants_that_and_it_is_free() -> None:
    """Four wards, of which C has nobody: at ε = .05 its count is often negative."""
    with opened() as curator:
        terms = {"epsilon": 0.05, "most_rows": 1}
        answers = [curator.sql(BY_WARD + f" HAVING COUNT(*) < {10**6 + i}", **terms) for i in range(8)]
        assert min(min(answer.value["n"].to_pylist()) for answer in answers) < 0
        spent = curator.account.spent()
        for i, answer in enumerate(answers):
            read = curator.sql(BY_WARD + f" HAVING COUNT(*) < {10**6 + i}", nonnegative=True, **terms)
            assert read.again
            for column in ("n", "total"):
                pairs = zip(answer.value[column].to_pylist(), read.value[column].to_pylist(), strict=True)
                assert all(after == max(0, before) for before, after in pairs)
                for before, after in ((answer.low, read.low), (answer.high, read.high)):
                    assert after[column].to_pylist() == [max(0.0, end) for end in before[column].to_pylist()]
            assert read.value["moved"] == answer.value["moved"]
        assert curator.account.spent() == spent
        assert min(
            curator.sql(BY_WARD + f" HAVING COUNT(*) < {10**6}", **terms).value["n"].to_pylist()
        ) == min(answers[0].value["n"].to_pylist())


def test_what_is_shown_over_released_counts_is_not_negative_either() -> None:
    text = "SELECT ward, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*)) AS place FROM t GROUP BY ward"
    with opened(5) as curator:
        free = [curator.sql(text, epsilon=e / 1000, nonnegative=True, most_rows=1) for e in range(5, 15)]
        plain = [curator.sql(text, epsilon=e / 1000, most_rows=1) for e in range(5, 15)]
    assert min(min(answer.value["n"].to_pylist()) for answer in free) == 0
    assert min(min(answer.value["n"].to_pylist()) for answer in plain) < 0


def test_null_among_keys_is_explained() -> None:
    with opened() as curator:
        plain = curator.sql(BY_WARD, epsilon=1)
        totals = curator.sql("SELECT ward, COUNT(*) AS n FROM t GROUP BY ROLLUP (ward)", epsilon=1)
        few = curator.sql(
            "SELECT ward, COUNT(*) AS n FROM t WHERE ward = 'A' GROUP BY ward ORDER BY n DESC LIMIT 1",
            epsilon=1,
        )
    own = "NULL in ward: the rows that have no value there, a group like any other."
    assert own in plain.notes
    public = "that are on its public list (rows with any other are left out)"
    assert (
        f"NULL in ward: the total over all its values {public}, or {own.partition(': ')[2]}" in totals.notes
    )
    assert not any("NULL" in note for note in few.notes)
    assert own in str(plain)


def test_least_and_largest_values_say_what_they_are() -> None:
    with opened() as curator:
        answer = curator.sql("SELECT MAX(x) AS top, MAX(x) - MIN(x) AS spread FROM t", epsilon=2)
        again = curator.sql("SELECT MAX(x) AS top, MAX(x) - MIN(x) AS spread FROM t", epsilon=2)
    notes = [note for note in answer.notes if "nobody's own value" in note]
    assert [note.split(" is")[0] for note in notes] == ["MAX in top", "MAX in spread", "MIN in spread"]
    assert (
        "rows lie above it (probability 0.95), and the largest one lies between it and the bound" in notes[0]
    )
    assert again.again
    assert again.remarks == answer.remarks == tuple(notes)


def test_the_rows_beyond_a_largest_value_are_as_few_as_is_said() -> None:
    values = np.array(ROWS["x"].to_pylist())
    with opened(11) as curator:
        answers = [
            curator.sql(f"SELECT MAX(x) AS top FROM t HAVING COUNT(*) > -{i + 10**6}", epsilon=1)
            for i in range(40)
        ]
    said = int(answers[0].remarks[0].split("no more than ")[1].split(" rows")[0].replace(",", ""))
    beyond = [(values > answer.value["top"][0].as_py()).sum() for answer in answers]
    assert sum(count > said for count in beyond) <= 8
    assert said < 400


def test_without_a_bracket_a_median_has_all_of_epsilon_and_no_interval() -> None:
    with opened() as curator:
        alone = curator.preview("SELECT MEDIAN(x) AS m FROM t", epsilon=0.5, bracket=False)
        both = curator.preview("SELECT MEDIAN(x) AS m FROM t", epsilon=0.5)
        answer = curator.sql("SELECT MEDIAN(x) AS m FROM t", epsilon=0.5, bracket=False)
        other = curator.sql("SELECT MEDIAN(x) AS m FROM t", epsilon=0.5)
    rows = [int(p.expected["m"].split("within ")[1].split(" rows")[0]) for p in (alone, both)]
    assert rows[0] == pytest.approx(rows[1] * 3 / 4, abs=1)
    assert alone.epsilon == both.epsilon == 0.5
    assert "m: all of ε went to the number (bracket=False), so it has no ±." in answer.notes
    assert answer.low["m"].to_pylist() == [-np.inf]
    assert "unbounded" in str(answer)
    assert not other.again
    assert np.isfinite(other.high["m"][0].as_py())


def test_logarithms_say_what_they_leave_out() -> None:
    terms = {"epsilon": 1, "most_rows": 1}
    with opened() as curator:
        notes = curator.sql("SELECT AVG(LN(x + 1)) AS l, AVG(x) AS m FROM t", **terms).notes
        assert any(note.startswith("l: rows where a logarithm") for note in notes)
        assert not any("logarithm" in note for note in curator.sql("SELECT AVG(x) FROM t", **terms).notes)


def test_without_an_interval_nothing_is_said_of_one() -> None:
    with opened() as curator:
        notes = curator.sql("SELECT MEDIAN(x) AS m FROM t", epsilon=1, bracket=False).notes
        assert not any(note.startswith("± holds") for note in notes)
        with_bracket = curator.sql("SELECT MEDIAN(x) AS m FROM t", epsilon=1).notes
        assert any(note.startswith("± holds") for note in with_bracket)
