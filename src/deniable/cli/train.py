"""`deniable train`: a classifier from a table, with its certificate."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from deniable import accounting
from deniable.cli import show
from deniable.cli import train_options as option
from deniable.cli.door import door
from deniable.cli.options import Json
from deniable.cli.query import parse_limit
from deniable.cli.train_plan import Declared, Run, Wanted, check_public, planned, read
from deniable.curator import house
from deniable.guarantee import Budget, Certificate
from deniable.ledger import Account
from deniable.ledger.beside import ledger_of
from deniable.units import Unit

if TYPE_CHECKING:
    from deniable.learn.sgd.tables import Table


@door
def train(
    data: option.Data,
    target: option.Target,
    epsilon: option.Epsilon,
    delta: option.Delta = 1e-5,
    n: option.Size = None,
    classes: option.Classes = None,
    feature: option.Features = None,
    schema: option.Schema = None,
    model: option.Chosen = option.Model.LINEAR,
    hidden: option.Hidden = 64,
    epochs: option.Epochs = None,
    lot: option.Lot = None,
    clip: option.Clip = None,
    learning_rate: option.LearningRate = None,
    public: option.Public = None,
    out: option.Out = Path("model"),
    limit: option.Limit = None,
    account: option.Paying = None,
    ledger: option.Book = None,
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
    run = planned(model, table, declared.n, Wanted(epochs, lot, clip, learning_rate), Budget(epsilon, delta))
    read(table, data)  # what a file as a whole shows is told before anything is charged
    if public is not None:
        check_public(table, data, public)
    with _paying(data, ledger, account or data.stem, None if limit is None else parse_limit(limit)) as paying:
        certificate, right = _trained(run, paying, table, data, public, out, delta)
    _tell(run, certificate, out, right, json)


def _trained(
    run: Run, paying: Account, table: Table, data: Path, public: Path | None, out: Path, delta: float
) -> tuple[Certificate, float | None]:
    """Charge, train and save; the certificate, and the accuracy on public rows."""
    _check_writable(out)
    release = paying.run(run.mechanism, lambda: run.rows(data), delta=delta, description="deniable train")
    head = paying.certificate(release, delta=delta).head
    certificate = accounting.certify(run.mechanism.loss, run.mechanism.unit, delta, head=head)
    model = run.model(release.value)
    table.save(model, out)
    (out / "certificate.json").write_text(certificate.to_json(), encoding="utf-8")
    return certificate, None if public is None else table.accuracy(model, public)


def _check_writable(folder: Path) -> None:
    """A model that has been paid for must find its place."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


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
