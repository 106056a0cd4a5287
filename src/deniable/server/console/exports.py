"""An answer to take away: a table for a spreadsheet, for a data frame, and the program that asks it again.

A spreadsheet runs text that begins like a formula. Texts and headers get an apostrophe in front of such a
beginning; numbers stay numbers: a noisy −3.2 is no formula.
"""

from __future__ import annotations

import csv
import io
from fractions import Fraction
from numbers import Number
from typing import Any

import pyarrow.parquet as pq

from deniable.curator import Answer
from deniable.curator.question import Question

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%", "＝", "＋", "－", "＠")
KINDS = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "py": "text/x-python; charset=utf-8",
}


def comma_separated(answer: Answer) -> bytes:
    """The answer with its intervals, `x_low` and `x_high` beside `x`."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\r\n")
    table = answer.table
    writer.writerow([guard_formula(name) for name in table.column_names])
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        writer.writerow([_cell(value) for value in row])
    return b"\xef\xbb\xbf" + sink.getvalue().encode(errors="replace")


def guard_formula(text: str) -> str:
    """
    >>> guard_formula("=HYPERLINK(1)"), guard_formula("flu"), guard_formula(" =1+1")
    ("'=HYPERLINK(1)", 'flu', "' =1+1")
    """
    if text.lstrip(" ").startswith(FORMULA):
        return f"'{text}"
    return text


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        if value:
            return "true"
        return "false"
    if isinstance(value, Number):
        return value
    return guard_formula(str(value))


def parquet(answer: Answer) -> bytes:
    sink = io.BytesIO()
    pq.write_table(answer.table, sink)
    return sink.getvalue()


def program(question: Question, data: str, url: str) -> str:
    """The Python program that asks the same again. Whatever was typed stands in it as a literal."""
    terms = "".join(f",\n        {name}={_literal(value)}" for name, value in question.changes.items())
    return (
        '"""Ask a service of Deniable: pip install deniable. The same question was paid for; it costs '
        'nothing again."""\n\n'
        f"import os\n\nimport deniable as dp\n\n"
        f'# A token with the scope "ask", made on the page People; keep it out of programs.\n'
        f'with dp.Remote({url!r}, token=os.environ["DENIABLE_TOKEN"], data={data!r}) as remote:\n'
        f"    answer = remote.sql(\n        {question.text!r}{terms},\n    )\n"
        f"    print(answer)\n    frame = answer.to_pandas()\n"
    )


def _literal(value: Any) -> str:
    if isinstance(value, Fraction):
        number = float(value)
        if Fraction(repr(number)) == value:
            return repr(number)
        return repr(str(value))
    return repr(value)
