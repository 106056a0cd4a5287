"""The queries of the corpus: in each .sql file one a paragraph. A comment above those that are not answered has
their refusal: `refused` where that is right, `missing` where they could be answered."""

from __future__ import annotations

from dataclasses import dataclass

from tests.sql.corpus.tables import DATA_SETS, HERE

MARKS = {"refused": "-- refused: ", "missing": "-- missing: "}


@dataclass(frozen=True)
class Written:
    """A query, and what its refusal says; None where it is answered."""

    data_set: str
    text: str
    refused: str | None
    kind: str = "answered"


def _read(name: str) -> list[Written]:
    _, *paragraphs = (HERE / f"{name}.sql").read_text(encoding="utf-8").strip().split("\n\n")
    return [_written(name, paragraph) for paragraph in paragraphs]


def _written(name: str, paragraph: str) -> Written:
    for kind, mark in MARKS.items():
        if paragraph.startswith(mark):
            reason, _, text = paragraph.removeprefix(mark).partition("\n")
            return Written(name, text, reason, kind)
    return Written(name, paragraph, None)


def introduction(name: str) -> str:
    """What a file says of its data."""
    first = (HERE / f"{name}.sql").read_text(encoding="utf-8").partition("\n\n")[0]
    return first.removeprefix("-- ")


QUERIES = tuple(query for name in DATA_SETS for query in _read(name))
