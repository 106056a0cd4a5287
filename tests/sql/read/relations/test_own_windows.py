"""Windows within one person's rows: which frames are read, and as what. (Their rows on engines: tests/sql/write.)"""

from __future__ import annotations

import re

import pytest

from deniable.errors import InvalidQuery
from deniable.sql.read.relations.own_windows import WHOLE
from tests.sql.hospital import checked

ROWS = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
FRAMES = {
    "": "",
    "RANGE UNBOUNDED PRECEDING": "",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW": "",
    "GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW": "",
    "ROWS UNBOUNDED PRECEDING": ROWS,
    ROWS: ROWS,
    WHOLE: WHOLE,
    "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING": WHOLE,
    "ROWS 0 PRECEDING": "ROWS BETWEEN 0 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 1000 PRECEDING AND CURRENT ROW": "ROWS BETWEEN 1000 PRECEDING AND CURRENT ROW",
}
REFUSED = [
    "ROWS BETWEEN 1001 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN 3 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
]


def frame(words: str, function: str = "SUM(days)", order: str = "ORDER BY admitted") -> str:
    window = f"{function} OVER (PARTITION BY patient_id {order} {words})"
    query = checked(f"SELECT COUNT(*) FROM (SELECT {window} AS s FROM visits) t WHERE s > 2")
    (reading,) = set(re.findall(r"frame='([^']*)'", repr(query.relation)))
    return str(reading)


@pytest.mark.parametrize("words", FRAMES)
def test_a_frame_is_read_in_upper_and_in_lower_case(words: str) -> None:
    assert frame(words) == frame(words.lower()) == FRAMES[words]


@pytest.mark.parametrize("words", REFUSED)
def test_other_frames_are_refused_with_those_that_are_answered(words: str) -> None:
    for text in (words, words.lower()):
        with pytest.raises(InvalidQuery, match=r"This frame of SUM .* Write none, ROWS BETWEEN UNBOUNDED"):
            frame(text)


def test_last_value_looks_at_all_rows_or_is_refused() -> None:
    assert frame(WHOLE, "LAST_VALUE(days)") == WHOLE
    for words in ("", ROWS):
        with pytest.raises(InvalidQuery, match="This frame of LAST_VALUE"):
            frame(words, "LAST_VALUE(days)")


def test_a_number_has_no_frame() -> None:
    assert frame(ROWS, "ROW_NUMBER()") == ""


def test_rows_back_need_an_order() -> None:
    with pytest.raises(InvalidQuery, match="This frame of SUM"):
        frame("ROWS 3 PRECEDING", order="")
