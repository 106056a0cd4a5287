"""`deniable train`: a classifier from a table, with its certificate."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from deniable import accounting
from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import Json
from deniable.cli.query import parse_limit
from deniable.curator import house
from deniable.errors import InvalidParameter, MissingExtra
from deniable.guarantee import Budget, Certificate
from deniable.ledger import Account
from deniable.ledger.beside import ledger_of
from deniable.units import Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deniable.learn.sgd.tables import Table

SCHEMA = "A YAML file with n, classes and features (name: [low, high]) instead of the options."


class Model(StrEnum):
    """What is trained: a linear model or a network by DP-SGD in floating point, or logistic regression in whole numbers."""

    LINEAR = "linear"
    LOGISTIC = "logistic"
    MLP = "mlp"


@door
def train(
    data: Annotated[Path, typer.Argument(help="A table, as parquet or CSV.", metavar="DATA", dir_okay=False)],
    target: Annotated[str, typer.Option("--target", help="The column to be learned.")],
    epsilon: Annotated[float, typer.Option("--epsilon", help="What the model may cost.")],
    delta: Annotated[
        float, typer.Option("--delta", help="The δ of that cost; well below 1 ÷ the number of people.")
    ] = 1e-5,
    n: Annotated[int | None, typer.Option("--n", help="About how many rows there are: a public number.")] = None,
    classes: Annotated[
        str | None, typer.Option("--classes", help="The classes of the target, with commas.", metavar="A,B,…")
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", help="A column with its bounds; repeat it.", metavar="NAME:LOW:HIGH"),
    ] = None,
    schema: Annotated[Path | None, typer.Option("--schema", help=SCHEMA, metavar="FILE", dir_okay=False)] = None,
    model: Annotated[
        Model, typer.Option("--model", metavar="MODEL", help="linear, mlp, or logistic: linear in exact whole numbers.")
    ] = Model.LINEAR,
    hidden: Annotated[int, typer.Option("--hidden", help="Width of the mlp.")] = 64,
    epochs: Annotated[
        float | None, typer.Option("--epochs", help="Passes over the data.", show_default="20, logistic 200")
    ] = None,
    lot: Annotated[
        float | None,
        typer.Option("--lot", help="Rows per step, on average.", show_default="a twentieth of n, logistic all"),
    ] = None,
    clip: Annotated[
        float | None,
        typer.Option("--clip", help="The largest norm of one row's gradient.", show_default="1, logistic 0.5"),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option("--learning-rate", help="Of gradient steps.", show_default="1, logistic by the noise"),
    ] = None,
    public: Annotated[
        Path | None,
        typer.Option("--public", help="Public rows to measure accuracy on.", metavar="FILE", dir_okay=False),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", help="Where model and certificate go.", metavar="FOLDER", file_okay=False)
    ] = Path("model"),
    limit: Annotated[
        str | None,
        typer.Option(
            "--limit", metavar="EPSILON[:DELTA]", help="The limit of all that leaves this table. Needed once."
        ),
    ] = None,
    account: Annotated[
        str | None,
        typer.Option(
            "--account", help="The account that pays.", metavar="ACCOUNT", show_default="named after the file"
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger", envvar="DENIABLE_LEDGER", metavar="URL", help="The ledger.", show_default="beside the data"
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Train a classifier on a table by DP-SGD; save the model and a certificate of what it costs.

    Models linear and mlp take float gradients and float noise; logistic is linear too, with sums and noise that are exact.

    Bounds, classes and the number of rows are what you state, never what the table shows: what lies beyond them is clamped or
    left out.

    [bold]deniable train visits.parquet --target ward --classes a,b --feature age:0:100 --n 2000 --epsilon 2 --limit 3:1e-4[/]
    """
    declared = Declared.of(schema, n, classes, feature)
    table = declared.table(target, model, hidden)
    planned = _logistic if model is Model.LOGISTIC else _sgd
    run = planned(table, declared.n, Wanted(epochs, lot, clip, learning_rate), Budget(epsilon, delta))
    table.read(data)  # what the file as a whole shows is told before anything is charged
    with _paying(data, ledger, account or data.stem, None if limit is None else parse_limit(limit)) as paying:
        release = paying.run(run.mechanism, lambda: run.rows(data), delta=delta, description="deniable train")
        head = paying.certificate(release, delta=delta).head
    certificate = accounting.certify(run.mechanism.loss, run.mechanism.unit, delta, head=head)
    out.mkdir(parents=True, exist_ok=True)
    trained = run.model(release.value)
    table.save(trained, out)
    (out / "certificate.json").write_text(certificate.to_json(), encoding="utf-8")
    right = None if public is None else table.accuracy(trained, public)
    _tell(run, certificate, out, right, json)


@dataclass(frozen=True)
class Declared:
    """What the owner states about the table."""

    n: int
    classes: tuple[str, ...]
    features: tuple[tuple[str, float, float], ...]

    @classmethod
    def of(cls, schema: Path | None, n: int | None, classes: str | None, feature: list[str] | None) -> Declared:
        """The options, and what they leave out from the schema."""
        file = {} if schema is None else _schema(schema)
        size = n if n is not None else file.get("n")
        named = tuple(classes.split(",")) if classes else tuple(map(str, file.get("classes", ())))
        bounded = [_bounds(text) for text in feature or ()] or [
            (name, *b) for name, b in file.get("features", {}).items()
        ]
        for value, option in ((size, "--n"), (named, "--classes"), (bounded, "--feature")):
            if not value:
                raise InvalidParameter(
                    f"Expected {option}: what is private cannot tell it. Nothing was charged. Give it, or a --schema that has it."
                )
        return cls(int(size or 0), named, tuple(bounded))

    def table(self, target: str, model: Model, hidden: int) -> Table:
        tables = _learn().tables
        features = tuple(tables.Feature(*feature) for feature in self.features)
        shape = tables.Shape.MLP if model is Model.MLP else tables.Shape.LINEAR
        table: Table = tables.Table(features, target, self.classes, shape, hidden)
        return table


def _schema(path: Path) -> dict[str, Any]:
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
        bounds = {
            str(name): (float(low), float(high)) for name, (low, high) in dict(read.get("features") or {}).items()
        }
        return {"n": read.get("n"), "classes": tuple(read.get("classes") or ()), "features": bounds}
    except (yaml.YAMLError, AttributeError, TypeError, ValueError):
        raise InvalidParameter(f"Expected {path} to hold n, classes and features with [low, high] as YAML.") from None


def _bounds(text: str) -> tuple[str, float, float]:
    feature = _learn().tables.Feature.parse(text)
    return feature.name, feature.low, feature.high


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


def _sgd(table: Table, n: int, wanted: Wanted, budget: Budget) -> Run:
    learn = _learn()
    run = learn.DPSGD(
        table.model(), learn.tables.cross_entropy, n=n,
        lot=max(1.0, n / 20) if wanted.lot is None else wanted.lot,
        epochs=20.0 if wanted.epochs is None else wanted.epochs,
        clip=1.0 if wanted.clip is None else wanted.clip,
        learning_rate=1.0 if wanted.learning_rate is None else wanted.learning_rate,
        epsilon=budget.epsilon, delta=budget.delta,
    )  # fmt: skip
    return Run(run, run.plan.steps, float(run.plan.rate), run.plan.lot, table.read, lambda trained: trained.model)


def _logistic(table: Table, n: int, wanted: Wanted, budget: Budget) -> Run:
    learn = _learn()
    plan = learn.Descent(lot=wanted.lot, clip=wanted.clip, learning_rate=wanted.learning_rate)
    linear = learn.Linear(table)
    run = linear.run(n, budget.epsilon, budget.delta, plan)
    if wanted.epochs is not None:
        steps = learn.plan(n, run.lot, None, wanted.epochs, None).steps
        run = linear.run(n, budget.epsilon, budget.delta, replace(plan, steps=steps))
    return Run(
        run,
        run.descent.steps,
        float(run.rate),
        float(run.lot),
        lambda path: linear.rows(*table.read(path)),
        linear.model,
    )


@dataclass(frozen=True)
class _Learn:
    """What comes with the extra `deniable[learn]`."""

    tables: Any
    DPSGD: Any
    plan: Any
    Descent: Any
    Linear: Any


def _learn() -> _Learn:
    try:
        from deniable.learn.convex.descent import Descent
        from deniable.learn.convex.tables import Linear
        from deniable.learn.sgd import tables
        from deniable.learn.sgd.dpsgd import DPSGD
        from deniable.learn.sgd.lots import plan
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "sklearn"):
            raise
        raise MissingExtra(
            f'Training needs {error.name}, which is not installed: pip install "deniable[learn]".'
        ) from None
    return _Learn(tables, DPSGD, plan, Descent, Linear)


@contextmanager
def _paying(data: Path, url: str | None, name: str, limit: Budget | None) -> Iterator[Account]:
    """The account of this table, in the ledger that its queries are charged to unless another is named."""
    with house.open_ledger(url or ledger_of(data), name, limit, None, None) as ledger:
        paying = house.open_account(ledger, name, Unit.row(), limit, None)
        ledger.bind(data)
        yield paying


def _tell(run: Run, certificate: Certificate, out: Path, right: float | None, json: bool) -> None:
    facts = {
        "epsilon": certificate.bound.upper,
        "delta": certificate.delta,
        "noise_multiplier": run.mechanism.noise_multiplier,
        "steps": run.steps,
        "rate": run.rate,
        "out": out,
        "accuracy_on_public_rows": right,
    }
    if json:
        show.as_json(facts)
        return
    show.heading(f"Trained: ε ≤ {show.up(certificate.bound.upper)} at δ = {certificate.delta:g}, {certificate.unit}")
    show.say(
        f"{run.steps:,} steps on lots of {run.lot:g} rows, noise multiplier {float(run.mechanism.noise_multiplier):.4g}.",
        f"Model: {out / 'model.pt'} (described in model.json). Certificate: {out / 'certificate.json'}.",
    )
    if right is not None:
        show.say(f"Accuracy on the public rows: {100 * right:.1f} %.")
