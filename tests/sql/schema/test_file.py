"""A schema as YAML: what is written is read back, and what is wrong is said with its place."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.errors import DataError, InvalidParameter
from deniable.sql.schema import file
from deniable.sql.schema.declare import ColumnInfo, Schema, TableInfo
from deniable.sql.tree import Kind, Type, Value

HOSPITAL = """
version: 2024-05
tables:
  visits:
    unit: patient_id
    columns:
      patient_id: integer
      visit_id: integer
      days: {type: integer, bounds: [0, 60]}
      cost: {type: decimal, scale: 2, bounds: [0, 0.1]}
      weight: {type: float, bounds: [-1.5, 1e3]}
      diagnosis: {type: text, length: 3, keys: [flu, "no", no, asthma]}
      day: {type: date, keys: [2024-02-29]}
  prescriptions:
    path: [visit_id -> visits.visit_id]
    columns: {visit_id: integer, drug: text}
  drugs:
    public: true
    unique: [drug]
    columns: {drug: text}
"""


def test_a_schema_means_what_it_says() -> None:
    visits, prescriptions, drugs = file.parse(HOSPITAL.replace('"no", no', '"no"')).tables
    days, cost, weight, diagnosis, day = visits.columns[2:]
    assert visits.unit == "patient_id"
    assert (days.lower, days.upper) == (Fraction(0), Fraction(60))
    assert (cost.type, cost.upper) == (Type(Kind.DECIMAL, scale=2), Fraction(1, 10))
    assert (weight.lower, weight.upper) == (Fraction(-3, 2), Fraction(1000))
    assert diagnosis.keys == ("flu", "no", "ast")
    assert day.keys == (date(2024, 2, 29),)
    assert prescriptions.path == (("visit_id", "visits", "visit_id"),)
    assert (drugs.public, drugs.unique) == (True, ("drug",))


def test_a_file_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("tables: {t: {columns: {a: text}}}", encoding="utf-8")
    assert file.load(tmp_path / "s.yaml") == Schema((TableInfo("t", (ColumnInfo("a", Type(Kind.TEXT)),)),))
    with pytest.raises(DataError, match="cannot be read"):
        file.load(tmp_path / "none.yaml")


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(
    lambda name: not name.startswith("_") and name == name.strip()
)
KEYS: dict[Kind, st.SearchStrategy[Value]] = {
    Kind.INTEGER: st.integers(-(2**63), 2**63 - 1),
    Kind.DECIMAL: st.decimals(-1000, 1000, places=3),
    Kind.FLOAT: st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda x: x + 0.0),
    Kind.TEXT: st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=10),
    Kind.BOOLEAN: st.booleans(),
    Kind.DATE: st.dates(),
    Kind.TIMESTAMP: st.datetimes(),
}


@st.composite
def columns(draw: st.DrawFn) -> ColumnInfo:
    kind = draw(st.sampled_from(list(Kind)))
    shape = Type(kind, scale=draw(st.integers(0, 18)) if kind is Kind.DECIMAL else 0)
    lower = upper = None
    if kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT) and draw(st.booleans()):
        lower, upper = sorted(Fraction(draw(st.decimals(-(10**9), 10**9, places=6))) for _ in range(2))
    keys = draw(st.none() | st.lists(KEYS[kind], unique=True, max_size=4).map(tuple))
    return ColumnInfo(draw(NAMES), shape, lower, upper, keys)


@given(
    st.lists(columns(), min_size=1, max_size=5, unique_by=lambda column: column.name.casefold()),
    NAMES,
    st.text("0123456789.eE", min_size=1),
)
def test_what_is_saved_is_read_back(found: list[ColumnInfo], name: str, version: str) -> None:
    schema = Schema((TableInfo(name, tuple(found), unit=found[0].name),), version)
    assert file.parse(file.save(schema)) == schema


def test_moments_and_decimals_keep_their_digits() -> None:
    keys = (Decimal("0.10"), Decimal("1e-7"))
    column = ColumnInfo("a", Type(Kind.DECIMAL, scale=9), Fraction(1, 1024), Fraction(10**30), keys)
    moment = ColumnInfo("b", Type(Kind.TIMESTAMP), keys=(datetime(2024, 2, 29, 1, 2, 3, 4),))
    schema = Schema((TableInfo("t", (column, moment)),))
    assert file.parse(file.save(schema)) == schema


def test_a_bound_without_end_is_not_written() -> None:
    column = ColumnInfo("a", Type(Kind.FLOAT), Fraction(0), Fraction(1, 3))
    with pytest.raises(InvalidParameter, match="has no end in decimal digits"):
        file.save(Schema((TableInfo("t", (column,)),)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tables: [", "The schema is not YAML"),
        ("- 1", "In the schema: expected names with values"),
        ("tables: {}", "expected at least one table"),
        ("tables: {t: {columns: {a: text}}}\nother: 1", "In the schema: 'other' is not known"),
        ("tables: {t: {colums: {a: text}}}", "In t: 'colums' is not known"),
        ("tables: {t: {columns: 3}}", "In t.columns: expected names with values"),
        ("tables: {t: {columns: {a: int}}}", "In t.a: expected a type among boolean"),
        ("tables: {t: {columns: {a: {type: text, min: 3}}}}", "In t.a: 'min' is not known"),
        ("tables: {t: {columns: {a: {type: integer, bounds: [5, 1]}}}}", "lower ≤ upper"),
        ("tables: {t: {columns: {a: {type: integer, bounds: [1]}}}}", "lower ≤ upper"),
        ("tables: {t: {columns: {a: {type: integer, bounds: [0, .inf]}}}}", "In t.a: expected a number"),
        ("tables: {t: {columns: {a: {type: text, bounds: [0, 1]}}}}", "bounds are for numbers"),
        ("tables: {t: {columns: {a: {type: integer, scale: 2}}}}", "a scale is for decimals"),
        (
            "tables: {t: {columns: {a: {type: decimal, scale: 19}}}}",
            r"scale=19 as a whole number in \[0, 18\]",
        ),
        ("tables: {t: {columns: {a: {type: text, length: 0}}}}", "length=0"),
        (
            "tables: {t: {columns: {a: {type: text, keys: [1]}}}}",
            "the key 1 is not of type text; texts go in quotes",
        ),
        ("tables: {t: {columns: {a: {type: integer, keys: [true]}}}}", "is not of type integer"),
        ("tables: {t: {columns: {a: {type: text, keys: [x, x]}}}}", "expected keys that differ"),
        ("tables: {t: {columns: {a: {type: text, length: 1, keys: [xa, xb]}}}}", "expected keys that differ"),
        ("tables: {t: {columns: {a: text, a: text}}}", "A name stands twice"),
        ("tables: {t: {columns: {a: text, A: text}}}", "stands there twice"),
        ("tables: {t: {columns: {_unit: text}}}", 'does not begin with "_"'),
        ("tables: {t: {unit: b, columns: {a: text}}}", 'In t: the column "b" is not declared'),
        ("tables: {t: {unit: [a], columns: {a: text}}}", "unit as the name of a column"),
        ("tables: {t: {unit: a, public: true, columns: {a: text}}}", "a public table has no unit"),
        ("tables: {t: {path: [a], columns: {a: text}}}", 'expected "column -> table.column"'),
        (
            "tables: {t: {path: [a -> u.b], columns: {a: text}}}",
            'the step "a -> u.b" names what is not declared',
        ),
        (
            "tables: {t: {path: [a -> u.b], columns: {a: text}}, u: {columns: {b: text}}}",
            "which declares no unit",
        ),
        ("tables: !!python/object:os.system {}", "The schema is not YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, told: str) -> None:
    with pytest.raises(InvalidParameter, match=told):
        file.parse(text)
