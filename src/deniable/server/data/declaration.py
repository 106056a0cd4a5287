"""What an owner says when she registers a data set. All of it is public to whoever may ask about the data,
but for where it lies."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.ledger import names
from deniable.sql.schema.declare import Schema
from deniable.sql.schema.file import parse, save
from deniable.units import Unit

CATALOG = re.compile(r"(?i)pg_|information_schema|deniable")
"""Names that belong to the catalog of the wire: a table that has one could be taken for it."""


@dataclass(frozen=True)
class Declaration:
    """A data set: its sources by the names of their tables, its schema, whom it protects, and how much may be
    told in all."""

    name: str
    sources: Mapping[str, str]
    schema: Schema
    unit: Unit
    limit: Budget

    @classmethod
    def declare(
        cls, name: str, sources: Mapping[str, str], schema: str, unit: Unit, limit: Budget
    ) -> Declaration:
        names.name(name, "a data set")
        table_schema = parse(schema)
        for word in (name, *(table.name for table in table_schema.tables)):
            if CATALOG.match(word):
                raise InvalidParameter(
                    f"The name {word!r} belongs to the catalog. Nothing was registered. Choose another."
                )
        if set(sources) != {table.name for table in table_schema.tables}:
            raise InvalidParameter(
                "Expected one source for each table of the schema, by its name. Nothing was registered."
            )
        return cls(name, dict(sources), table_schema, unit, limit)

    def schema_at(self, version: str) -> Schema:
        """The schema of one version of the data."""
        return replace(self.schema, version=version)

    def to_json(self) -> str:
        limit = [str(Fraction(self.limit.epsilon)), str(Fraction(self.limit.delta))]
        facts = {
            "sources": dict(self.sources),
            "schema": save(self.schema),
            "unit": self.unit.to_dict(),
            "limit": limit,
        }
        return json.dumps(facts)

    @classmethod
    def from_json(cls, name: str, text: str) -> Declaration:
        facts: dict[str, Any] = json.loads(text)
        limit = Budget(*map(Fraction, facts["limit"]))
        return cls(name, facts["sources"], parse(facts["schema"]), Unit.from_dict(facts["unit"]), limit)
