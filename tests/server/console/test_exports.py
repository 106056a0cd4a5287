"""Files to take away: formulas are guarded in texts and headers alone, and programs are programs."""

from __future__ import annotations

import ast
import csv
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.curator import Answer
from deniable.curator.question import Question
from deniable.loss import Pure
from deniable.server.console import exports
from deniable.units import Unit


def answer() -> Answer:
    value = pa.table({"=key": ["=1+1", "@x", "-2", " +3", "flu", None], "n": [-3.2, -1, 0, 1, 2, None]})
    side = pa.table({"n": [-4.0, -2.0, -1.0, 0.0, 1.0, None]})
    return Answer(value=value, loss=Pure(1), unit=Unit.row(), entry="1:ff", private=True, low=side, high=side)


def test_texts_and_headers_are_guarded_and_numbers_stay_numbers() -> None:
    text = exports.comma_separated(answer()).decode("utf-8-sig")
    head, *rows = csv.reader(io.StringIO(text))
    assert head == ["'=key", "n", "n_low", "n_high"]
    assert [row[0] for row in rows] == ["'=1+1", "'@x", "'-2", "' +3", "flu", ""]
    assert [row[1] for row in rows] == ["-3.2", "-1.0", "0.0", "1.0", "2.0", ""]
    assert rows[0][2] == "-4.0"


@pytest.mark.parametrize("begin", "=+-@\t\r\n|%")
def test_every_beginning_of_a_formula_is_guarded(begin: str) -> None:
    assert exports.guard_formula(f"{begin}cmd") == f"'{begin}cmd"


def test_parquet_holds_the_intervals() -> None:
    assert pq.read_table(io.BytesIO(exports.parquet(answer()))).column_names == [
        "=key",
        "n",
        "n_low",
        "n_high",
    ]


def test_a_program_says_the_same_question_whatever_it_holds() -> None:
    text = 'SELECT \'"""\\n\' || "a" FROM t -- \' + __import__("os").abort() #'
    question = Question.read(text, within="0.1", confidence=0.9, discover=True)
    program = exports.program(question, 'a"b', "http://h'x")
    calls = [node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Call)]
    said = next(call for call in calls if getattr(call.func, "attr", "") == "sql")
    assert ast.literal_eval(said.args[0]) == text
    assert {k.arg: ast.literal_eval(k.value) for k in said.keywords} == {
        "within": 0.1,
        "confidence": 0.9,
        "discover": True,
    }
    names = {getattr(call.func, "id", "") for call in calls}
    assert "__import__" not in names
