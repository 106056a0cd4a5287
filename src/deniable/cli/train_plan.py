"""What `deniable train` is to do: what is declared about a table, and the mechanism that it becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from deniable.cli.train_options import Model
from deniable.errors import DataError, DeniableError, InvalidParameter, MissingExtra
from deniable.guarantee import Budget
from deniable.mechanisms import checks

if TYPE_CHECKING:
    from deniable.learn.sgd.tables import Table

Value = TypeVar("Value")


@dataclass(frozen=True)
class Declared:
    """What the owner states about the table."""

    n: int
    classes: tuple[str, ...]
    features: tuple[tuple[str, float, float], ...]

    @classmethod
    def of(
        cls, schema: Path | None, n: int | None, classes: str | None, feature: list[str] | None, *, size: str = "n"
    ) -> Declared:
        """The options, and what they leave out from the schema; `size` is what n is called there."""
        file = {} if schema is None else _schema(schema, size)
        count = n if n is not None else file.get("n")
        named = tuple(classes.split(",")) if classes else tuple(map(str, file.get("classes", ())))
        bounded = [_bounds(text) for text in feature or ()] or [
            (name, *b) for name, b in file.get("features", {}).items()
        ]
        for value, option in ((count, f"--{size}"), (named, "--classes"), (bounded, "--feature")):
            if not value:
                raise InvalidParameter(
                    f"Expected {option}: what is private cannot tell it. Nothing was charged. Give it, or a --schema that has it."
                )
        return cls(checks.whole(size, count, at_least=1), named, tuple(bounded))

    def table(self, target: str, model: Model, hidden: int) -> Table:
        tables = learn().tables
        features = tuple(tables.Feature(*feature) for feature in self.features)
        shape = tables.Shape.MLP if model is Model.MLP else tables.Shape.LINEAR
        table: Table = tables.Table(features, target, self.classes, shape, hidden)
        return table


def _schema(path: Path, size: str) -> dict[str, Any]:
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
        bounds = {
            str(name): (float(low), float(high)) for name, (low, high) in dict(read.get("features") or {}).items()
        }
        return {"n": read.get(size), "classes": tuple(read.get("classes") or ()), "features": bounds}
    except (yaml.YAMLError, AttributeError, TypeError, ValueError):
        raise InvalidParameter(
            f"Expected {path} to hold {size}, classes and features with [low, high] as YAML."
        ) from None


def _bounds(text: str) -> tuple[str, float, float]:
    feature = learn().tables.Feature.parse(text)
    return feature.name, feature.low, feature.high


def read(table: Table, path: Path) -> tuple[Any, Any]:
    """Inputs and targets."""
    return untold(table, path, table.read)


def untold(table: Table, path: Path, reader: Callable[[Path], Value]) -> Value:
    """What `reader` makes of a file. One that is no such table is told without quoting it: readers like to show the row they
    hate."""
    with path.open("rb"):
        pass  # what cannot be opened is told by its name
    try:
        table.refuse_types(path)
        return reader(path)
    except DeniableError:
        raise  # in our own words, which quote nothing
    except (ValueError, NotImplementedError, OSError):
        pass
    raise DataError(
        f"The file {path.name} cannot be read as a table: it is empty or broken, or its rows differ in length. Nothing was "
        "charged, and what it holds stays untold."
    )


def check_public(table: Table, data: Path, public: Path) -> None:
    """Whether accuracy can be measured on `public`, and is no release of `data`."""
    x, _ = read(table, public)
    if public.samefile(data):
        raise InvalidParameter(
            "Expected other rows for --public than the private ones: accuracy on these would be a release without noise. "
            "Nothing was charged."
        )
    if not bool((x == x).all(dim=1).any()):  # a row that is to be left out has NaN inputs
        raise InvalidParameter(
            f"No row of {public.name}, given as public, has a number for each feature and one of the classes. Nothing was "
            "charged."
        )


@dataclass(frozen=True)
class Wanted:
    """What the caller says about the steps."""

    epochs: float | None
    lot: float | None
    clip: float | None
    learning_rate: float | None


@dataclass(frozen=True)
class Run:
    """A mechanism with its plan, how a file becomes its rows, and how what it releases becomes a model."""

    mechanism: Any
    steps: int
    rate: float
    lot: float
    rows: Callable[[Path], Any]
    model: Callable[[Any], Any]


def planned(model: Model, table: Table, n: int, wanted: Wanted, budget: Budget) -> Run:
    """The run that trains a `model` within the budget."""
    return (_logistic if model is Model.LOGISTIC else _sgd)(table, n, wanted, budget)


def _sgd(table: Table, n: int, wanted: Wanted, budget: Budget) -> Run:
    parts = learn()
    run = parts.DPSGD(
        table.model(), parts.tables.cross_entropy, n=n,
        lot=max(1.0, n / 20) if wanted.lot is None else wanted.lot,
        epochs=20.0 if wanted.epochs is None else wanted.epochs,
        clip=1.0 if wanted.clip is None else wanted.clip,
        learning_rate=1.0 if wanted.learning_rate is None else wanted.learning_rate,
        epsilon=budget.epsilon, delta=budget.delta, example=([0.0] * len(table.features), 0),
    )  # fmt: skip
    return Run(run, run.plan.steps, float(run.plan.rate), run.plan.lot, table.read, lambda trained: trained.model)


def _logistic(table: Table, n: int, wanted: Wanted, budget: Budget) -> Run:
    parts = learn()
    plan = parts.Descent(lot=wanted.lot, clip=wanted.clip, learning_rate=wanted.learning_rate)
    linear = parts.Linear(table)
    run = linear.run(n, budget.epsilon, budget.delta, plan)
    if wanted.epochs is not None:
        steps = parts.plan(n, run.lot, None, wanted.epochs, None).steps
        run = linear.run(n, budget.epsilon, budget.delta, replace(plan, steps=steps))

    def rows(path: Path) -> Any:
        return linear.rows(*table.read(path))

    return Run(run, run.descent.steps, float(run.rate), float(run.lot), rows, linear.model)


@dataclass(frozen=True)
class Learn:
    """What comes with the extra `deniable[learn]`."""

    tables: Any
    DPSGD: Any
    plan: Any
    Descent: Any
    Linear: Any
    saved: Any


def learn() -> Learn:
    try:
        from deniable.learn.convex.descent import Descent
        from deniable.learn.convex.tables import Linear
        from deniable.learn.sgd import saved, tables
        from deniable.learn.sgd.dpsgd import DPSGD
        from deniable.learn.sgd.lots import plan
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "sklearn"):
            raise
        raise MissingExtra(
            f'Training needs {error.name}, which is not installed: pip install "deniable[learn]".'
        ) from None
    return Learn(tables, DPSGD, plan, Descent, Linear, saved)
