"""What an audit can be pointed at by words alone: mechanisms by name, a case of the
bench, an import, a query, a file of scores.

A target is kept beside its finding as plain options, so that a replay can build it again.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from deniable.audit import Endpoint, Finding, Pair
from deniable.audit.bench import case
from deniable.audit.one_run import Family, one_run
from deniable.audit.runs.target import load as load_target
from deniable.audit.scores import FILES, read, scores, table_in
from deniable.errors import DeniableError, InvalidParameter
from deniable.guarantee import Budget
from deniable.mechanisms import Gaussian, Laplace
from deniable.sql.plan.request import Terms
from deniable.sql.schema.declare import Schema
from deniable.sql.schema.file import load as load_schema
from deniable.sql.schema.infer import describe
from deniable.sql.schema.overrides import declared, parse_bounds, parse_keys
from deniable.units import Unit


@dataclass(frozen=True)
class AuditTarget:
    """Something to attack, the pairs that it brings, the claim (None: its own), and the
    options that build it again."""

    subject: Any
    pairs: Any
    claim: Budget | None
    options: Mapping[str, Any]


def is_query(name: str) -> bool:
    """
    >>> is_query("select 1"), is_query("selection"), is_query("select"), is_query("")
    (True, False, False, False)
    """
    words = name.split(maxsplit=1)
    return len(words) > 1 and words[0].lower() in ("select", "with")


def is_scores(name: str) -> bool:
    return name.endswith(FILES)


def find_target(name: str, budget: Budget | None) -> AuditTarget:
    """A mechanism of ours, a case of the bench, or an import."""
    if name in ("laplace", "gaussian"):
        if budget is None:
            raise InvalidParameter(f'The target "{name}" is made for a budget: add --epsilon (and --delta).')
        return _mechanism(name, budget)
    target = _import_target(name) if ":" in name else case(name)
    pairs = target.pairs() if callable(getattr(target, "pairs", None)) else None
    return AuditTarget(target, pairs, budget, {"target": name})


def _mechanism(name: str, budget: Budget) -> AuditTarget:
    options = {"target": name, "epsilon": float(budget.epsilon), "delta": float(budget.delta)}
    if name == "laplace":
        return AuditTarget(Laplace.for_budget(epsilon=budget.epsilon, sensitivity=1), (0, 1), budget, options)
    if not budget.delta:
        raise InvalidParameter('The target "gaussian" needs a δ above 0: add --delta.')
    gaussian = Gaussian.for_budget(epsilon=budget.epsilon, delta=budget.delta, sensitivity=1)
    return AuditTarget(gaussian, (0, 1), budget, options)


@contextmanager
def failing(name: str) -> Iterator[None]:
    """A module of the user's own that fails is bad input, and no violation: exit code 2
    instead of the 1 of a traceback."""
    try:
        yield
    except DeniableError:
        raise
    except Exception as error:  # a user's own module is imported, which may raise anything
        if ":" not in name or is_query(name):
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise InvalidParameter(
            f'The target "{name}" failed at {Path(place.filename).name}:{place.lineno}: '
            f"{type(error).__name__}: {error}. Nothing was certified."
        ) from error


def _import_target(spec: str) -> Any:
    """An object of a module that is installed or lies in the working directory, as
    `python -m` would find it."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return load_target(spec)


# ------------------------------------------------------------------------------------------------ queries


@dataclass(frozen=True)
class QueryOptions:
    """A query and two neighbouring tables, as the options say it."""

    target: str
    epsilon: float
    delta: float
    tables: tuple[str, ...]
    unit: str | None
    name: str | None = None
    schema: str | None = None
    bounds: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def endpoint(self) -> Endpoint:
        first, second = (table_in(Path(path)) for path in self.tables)
        unit = Unit.parse(self.unit or "row")
        name = self.name or Path(self.tables[0]).stem
        schema = load_schema(Path(self.schema)) if self.schema else Schema((describe(name, first),))
        private = [table.name for table in schema.tables if not table.public]
        full_schema = declared(schema, unit, parse_bounds(self.bounds), parse_keys(self.keys), None)
        terms = Terms(epsilon=self.epsilon, delta=self.delta)
        return Endpoint(
            self.target, full_schema, unit, terms, private[0] if self.schema else name, first, second
        )

    def target_of(self) -> AuditTarget:
        """The target, in the fast form where there is one."""
        endpoint = self.endpoint()
        fast = not endpoint.plan.settles
        subject = endpoint.measured if fast else endpoint
        return AuditTarget(subject, endpoint.pairs(), endpoint.claim, asdict(self))


def query_target(
    text: str,
    epsilon: float | None,
    delta: float,
    tables: tuple[Path, Path] | None,
    unit: str | None,
    name: str | None,
    schema: Path | None,
    bounds: list[str] | None,
    keys: list[str] | None,
) -> AuditTarget:
    """A query with the options that came with it."""
    if tables is None or epsilon is None:
        raise InvalidParameter(
            "A query is audited on two neighbouring tables: add --tables FIRST SECOND and --epsilon. Nothing "
            "was run."
        )
    paths, schema_path = (str(tables[0]), str(tables[1])), None if schema is None else str(schema)
    return QueryOptions(
        text, epsilon, delta, paths, unit, name, schema_path, tuple(bounds or ()), tuple(keys or ())
    ).target_of()


# -------------------------------------------------------------------------------------------- files of scores


def from_scores(
    path: Path,
    budget: Budget | None,
    confidence: float,
    seed: int | None,
    family: Family | None,
    confirms: Finding | None = None,
) -> Finding:
    """Certify from a file. With a `family` its scores are those of the canaries of one run, which may confirm
    an earlier one."""
    if budget is None:
        raise InvalidParameter("A file of scores claims nothing by itself: add --epsilon (and --delta).")
    options = {
        "target": str(path),
        "epsilon": float(budget.epsilon),
        "delta": float(budget.delta),
        "family": family,
    }
    first, second = read(path)
    if family is None and confirms is not None:
        raise InvalidParameter("--confirms goes with --one-run. Nothing was certified.")
    if family is None:
        finding = scores(first, second, budget, confidence=confidence, seed=seed or 0, name=path.name)
    else:
        values, inside = np.concatenate([first, second]), np.repeat([True, False], [len(first), len(second)])
        finding = one_run(
            values,
            inside,
            budget,
            family=family,
            confidence=confidence,
            seed=seed or 0,
            name=path.name,
            confirms=confirms,
        )
    return replace(finding, options={**(finding.options or {}), **options})


# ------------------------------------------------------------------------------------------------ again


def restore_target(options: Mapping[str, Any], name: str) -> AuditTarget:
    """The target of a saved finding."""
    if "tables" in options:
        field_names = {field.name for field in fields(QueryOptions)}
        return QueryOptions(
            **{key: _to_tuple(value) for key, value in options.items() if key in field_names}
        ).target_of()
    budget = Budget(options["epsilon"], options["delta"]) if "epsilon" in options else None
    return find_target(str(options.get("target", name)), budget)


def _to_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def read_pairs(path: Path) -> list[Pair]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return [
            Pair(_input(first), _input(second), f"pair {i + 1}") for i, (first, second) in enumerate(value)
        ]
    except (ValueError, TypeError) as error:
        raise InvalidParameter(
            f"{path}: expected a JSON list of pairs, [[first, second], …]: {error}."
        ) from None


def _input(value: Any) -> Any:
    numbers = isinstance(value, list) and value and all(isinstance(v, int | float) for v in value)
    return np.array(value, np.float64) if numbers else value
