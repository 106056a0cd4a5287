"""The page of the corpus in the docs: what is answered, what is refused and why. Run as a module to write it."""

from __future__ import annotations

from pathlib import Path

from tests.sql.corpus.queries import QUERIES, Written, introduction
from tests.sql.corpus.tables import DATA_SETS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "corpus.md"
_WORDS = {
    "refused": "Refused, because the answer would not be private or has no meaning",
    "missing": "Not yet answered",
}


def page() -> str:
    parts = [_head(), *(_data_set(name) for name in DATA_SETS)]
    return "\n\n".join(parts) + "\n"


def _head() -> str:
    numbers = {
        kind: sum(query.kind == kind for query in QUERIES) for kind in ("answered", "missing", "refused")
    }
    possible = numbers["answered"] + numbers["missing"]
    return (
        "# Ordinary queries, and what becomes of them\n\n"
        f"{len(QUERIES)} queries as analysts and dashboards write them, in our own words, over eight data sets. "
        f"Of {possible} that can be answered with privacy {numbers['answered']} are "
        f"({numbers['answered'] / possible:.0%}); {numbers['refused']} are refused for a reason.\n"
        "`tests/sql/corpus` asks them all on DuckDB, and some on PostgreSQL and Spark. What is answered and how is "
        "in [SQL](sql.md)."
    )


def _data_set(name: str) -> str:
    ours = [query for query in QUERIES if query.data_set == name]
    parts = [
        f"## {name.capitalize()}\n\n{introduction(name)}",
        _block([q for q in ours if q.kind == "answered"]),
    ]
    for kind, words in _WORDS.items():
        some = [query for query in ours if query.kind == kind]
        if some:
            parts.append(f"{words}:\n\n{_block(some)}")
    return "\n\n".join(parts)


def _block(queries: list[Written]) -> str:
    texts = (f"-- {query.refused}\n{query.text}" if query.refused else query.text for query in queries)
    return "```sql\n" + ";\n\n".join(texts) + ";\n```"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
