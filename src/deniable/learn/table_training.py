"""A classifier for a declared table, trained within a budget: what is stated, the
mechanism it becomes, what is saved.

Any door trains through this: it states a `TableDeclaration`, has a `TableTraining`
planned, and lets an account pay for it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import torch
import yaml

from deniable import accounting, checks
from deniable.errors import DataError, DeniableError, InvalidParameter
from deniable.guarantee import Budget, Certificate
from deniable.learn.convex.descent import Descent
from deniable.learn.convex.scaled import ScaledRegression, ScaledWeights
from deniable.learn.convex.tables import LinearTable
from deniable.learn.sgd.dpsgd import DPSGD
from deniable.learn.sgd.outcome import Usable
from deniable.learn.sgd.sampling import lots
from deniable.learn.sgd.sampling.fixed_lots import FixedLots
from deniable.learn.sgd.sampling.lots import Lots
from deniable.learn.sgd.settings import Learning, Privacy
from deniable.learn.sgd.tables import (
    AnyFeature,
    ModelShape,
    Table,
    cross_entropy,
    declared_feature,
    parse_feature,
)
from deniable.learn.sgd.training import saved
from deniable.ledger import Account
from deniable.mechanism import Release

Value = TypeVar("Value")

NOTES = 50
"""So often a run with a checkpoint is noted and saved, about: what a kill can lose is a
fiftieth of its steps."""


class TableMethod(StrEnum):
    """A linear model or a network by DP-SGD in floating point, or logistic regression in whole numbers."""

    LINEAR = "linear"
    LOGISTIC = "logistic"
    MLP = "mlp"


@dataclass(frozen=True)
class TableDeclaration:
    """What the owner states about the table."""

    n: int
    classes: tuple[str, ...]
    features: tuple[AnyFeature, ...]

    @classmethod
    def read(
        cls,
        schema: Path | None,
        n: int | None,
        classes: str | None,
        features: Sequence[str],
        *,
        size: str = "n",
    ) -> TableDeclaration:
        """What is given, and what that leaves out from the schema, a YAML file; `size`
        is what n is called there."""
        file = _Schema() if schema is None else _Schema.read(schema, size)
        count = file.n if n is None else n
        labels = tuple(classes.split(",")) if classes else file.classes
        feature_list = tuple(map(parse_feature, features)) or file.features
        for value, option in ((count, f"--{size}"), (labels, "--classes"), (feature_list, "--feature")):
            if not value:
                raise InvalidParameter(
                    f"Expected {option}: it cannot be read from private data. Nothing was charged. "
                    "Give it, or a --schema that has it."
                )
        return cls(checks.whole(size, count, at_least=1), labels, feature_list)

    def table(self, target: str, method: TableMethod, hidden: int) -> Table:
        shape = ModelShape.MLP if method is TableMethod.MLP else ModelShape.LINEAR
        return Table(self.features, target, self.classes, shape, hidden)


@dataclass(frozen=True)
class _Schema:
    """What a file states; each part may be missing."""

    n: Any = None
    classes: tuple[str, ...] = ()
    features: tuple[AnyFeature, ...] = ()

    @classmethod
    def read(cls, path: Path, size: str) -> _Schema:
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
            features = {
                str(name): list(values) for name, values in dict(content.get("features") or {}).items()
            }
            count, classes = content.get(size), tuple(map(str, content.get("classes") or ()))
        except (yaml.YAMLError, AttributeError, TypeError, ValueError):
            raise InvalidParameter(
                f"Expected {path} to hold {size}, classes and features with [low, high] or [word, word, …] "
                "as YAML."
            ) from None
        return cls(count, classes, tuple(declared_feature(name, values) for name, values in features.items()))


def read(table: Table, path: Path) -> tuple[Any, Any]:
    """Inputs and targets."""
    return read_quietly(table, path, table.read)


def read_quietly(table: Table, path: Path, reader: Callable[[Path], Value]) -> Value:
    """What `reader` makes of a file. One that is no such table is told without quoting
    it: readers like to show the row they hate."""
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
        f"The file {path.name} cannot be read as a table: it is empty, broken or not in UTF-8, or its rows "
        "differ in length. Nothing was charged, and what it holds stays untold."
    )


def check_public(table: Table, data: Path, public: Path) -> None:
    """Whether accuracy can be measured on `public`, and is no release of `data`."""
    x, _ = read(table, public)
    if public.samefile(data):
        raise InvalidParameter(
            "Expected other rows for --public than the private ones: accuracy on these would be a release "
            "without noise. Nothing was charged."
        )
    if not bool(torch.isfinite(x).all(dim=1).any()):  # a row that is to be left out has NaN inputs
        raise InvalidParameter(
            f"No row of {public.name}, given as public, has a number for each feature and one of the "
            "classes. Nothing was charged."
        )


# ---------------------------------------------------------------------------------------------- the mechanism


class LotDraw(StrEnum):
    """How rows come into lots: each by a coin at every step, by one draw for each epoch, or by one for the
    whole run, with noise that is correlated (DP-FTRL)."""

    POISSON = "poisson"
    ALLOCATED = "allocated"
    FIXED = "fixed"


@dataclass(frozen=True)
class StepOptions:
    """What the caller says about the steps; the method knows the rest."""

    epochs: float | None = None
    lot: float | None = None
    clip: float | None = None
    learning_rate: float | None = None
    draw: LotDraw = LotDraw.POISSON
    cap: int | None = None
    at_most: int | None = None

    def lots(self, n: int) -> Lots | FixedLots:
        lot = max(1.0, n / 20) if self.lot is None else self.lot
        epochs = 20.0 if self.epochs is None else self.epochs
        if self.draw is not LotDraw.FIXED:
            is_allocated = self.draw is LotDraw.ALLOCATED
            return Lots(n, lot, None, epochs, cap=self.cap, at_most=self.at_most, allocated=is_allocated)
        if self.cap is not None or self.at_most is not None or epochs != int(epochs):
            raise InvalidParameter("Expected whole epochs and no cap with fixed lots. Nothing was charged.")
        return FixedLots(n, lot, int(epochs))

    def refuse_draws(self) -> None:
        if self.draw is not LotDraw.POISSON or self.cap is not None or self.at_most is not None:
            raise InvalidParameter(
                "Expected --model linear or mlp for a draw or a cap of one's own: logistic takes all rows at "
                "every step. Nothing was charged."
            )


@dataclass(frozen=True)
class TableTraining:
    """A mechanism with its plan, how a file becomes its rows, and how what it releases becomes a model."""

    table: Table
    mechanism: Any
    steps: int
    rate: float
    lot: float
    rows: Callable[[Path], Any]
    build_model: Callable[[Any], tuple[Table, Any]]
    """From what is released to a model, and the table as it sees it: numbers may have got other bounds."""
    usable: Callable[[Any], Usable | None] = lambda value: None
    """How many rows could be used, where the release says so."""

    @classmethod
    def for_budget(
        cls, method: TableMethod, table: Table, n: int, options: StepOptions, budget: Budget
    ) -> TableTraining:
        """The run that trains within the budget."""
        return (_logistic if method is TableMethod.LOGISTIC else _sgd)(table, n, options, budget)

    def release(
        self,
        account: Account,
        data: Path,
        folder: Path,
        delta: float,
        *,
        checkpoint: Path | None,
        resume: bool,
    ) -> Release[Any]:
        """Charge and train, or go on with a run that was paid for. `folder` is tried first:
        a paid model must find its place."""
        check_writable(folder)
        if checkpoint is None:
            return account.run(
                self.mechanism, lambda: self.rows(data), delta=delta, description="deniable train"
            )
        every = max(1, self.steps // NOTES)
        if resume:
            return saved.resume(
                self.mechanism, lambda: self.rows(data), account=account, checkpoint=checkpoint, every=every
            )
        return saved.train(
            self.mechanism,
            lambda: self.rows(data),
            account=account,
            checkpoint=checkpoint,
            every=every,
            description="deniable train",
        )

    def save(self, release: Release[Any], account: Account, folder: Path, delta: float) -> Certificate:
        """Model, description and certificate in their folder."""
        head = account.certificate(release, delta=delta).head
        certificate = accounting.certify(
            self.mechanism.loss, self.mechanism.unit, delta, assumptions=release.assumptions, head=head
        )
        table, model = self.build_model(release.value)
        table.save(model, folder)
        (folder / "certificate.json").write_text(certificate.to_json(), encoding="utf-8")
        return certificate


def check_writable(folder: Path) -> None:
    """A model that has been paid for must find its place."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def _sgd(table: Table, n: int, options: StepOptions, budget: Budget) -> TableTraining:
    run = DPSGD(
        table.model(), cross_entropy, lots=options.lots(n),
        privacy=Privacy(budget.epsilon, budget.delta, clip=1.0 if options.clip is None else options.clip),
        learning=Learning(1.0 if options.learning_rate is None else options.learning_rate),
        example=([0.0] * table.inputs, 0),
    )  # fmt: skip
    sizes = run.plan.steps, float(run.plan.rate), run.plan.lot
    return TableTraining(
        table, run, *sizes, table.read, lambda release: (table, release.model), lambda release: release.usable
    )


def _logistic(table: Table, n: int, options: StepOptions, budget: Budget) -> TableTraining:
    options.refuse_draws()
    descent = Descent(lot=options.lot, clip=options.clip, learning_rate=options.learning_rate)
    linear = LinearTable(table)
    run = linear.run(n, budget.epsilon, budget.delta, descent)
    inner = run.descent if isinstance(run, ScaledRegression) else run
    if options.epochs is not None:
        steps = lots.plan(n, inner.lot, None, options.epochs, None).steps
        run = linear.run(n, budget.epsilon, budget.delta, replace(descent, steps=steps))
        inner = run.descent if isinstance(run, ScaledRegression) else run
    arrange = linear.rows if isinstance(run, ScaledRegression) else linear.unscaled_rows

    def rows(path: Path) -> Any:
        return arrange(*table.read(path))

    sizes = inner.descent.steps, float(inner.rate), float(inner.lot)
    return TableTraining(table, run, *sizes, rows, linear.build_model, _usable_rows)


def _usable_rows(value: Any) -> Usable | None:
    return value.usable if isinstance(value, ScaledWeights) else None
