"""`deniable train`: a classifier from a table, with its certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from deniable import accounting, numbers
from deniable.cli import show
from deniable.cli import train_options as option
from deniable.cli.door import door
from deniable.cli.options import Json
from deniable.cli.paying import account_of, check_writable
from deniable.cli.query import parse_limit
from deniable.cli.train_plan import Declared, Run, Wanted, check_public, learn, planned, read
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget, Certificate
from deniable.ledger import Account
from deniable.mechanism import Release
from deniable.units import Unit

if TYPE_CHECKING:
    from deniable.learn.sgd.tables import Table

NOTES = 50
"""So often a run with a checkpoint is noted and saved, about: what a kill can lose is a fiftieth of its steps."""


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
    checkpoint: option.Saved = None,
    resume: option.Resumed = False,
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
    if resume and checkpoint is None:
        raise InvalidParameter(
            "Expected --checkpoint FOLDER with --resume: where is the run to go on with? Nothing was run."
        )
    declared = Declared.of(schema, n, classes, feature)
    table = declared.table(target, model, hidden)
    run = planned(model, table, declared.n, Wanted(epochs, lot, clip, learning_rate), Budget(epsilon, delta))
    read(table, data)  # what a file as a whole shows is told before anything is charged
    if public is not None:
        check_public(table, data, public)
    with account_of(data, ledger, account, Unit.row(), None if limit is None else parse_limit(limit)) as paying:
        release = _release(run, paying, data, out, delta, checkpoint, resume)
        certificate = _saved(run, release, paying, table, out, delta)
        right = None if public is None else table.accuracy(run.model(release.value), public)
    _tell(run, certificate, out, right, json)


def _release(
    run: Run, paying: Account, data: Path, out: Path, delta: float, checkpoint: Path | None, resume: bool
) -> Release[Any]:
    """Charge and train, or go on with a run that was paid for."""
    check_writable(out)
    if checkpoint is None:
        return paying.run(run.mechanism, lambda: run.rows(data), delta=delta, description="deniable train")
    every, saved = max(1, run.steps // NOTES), learn().saved
    given = {"account": paying, "checkpoint": checkpoint, "every": every}
    release: Release[Any]
    if resume:
        release = saved.resume(run.mechanism, lambda: run.rows(data), **given)
    else:
        release = saved.train(run.mechanism, lambda: run.rows(data), **given, description="deniable train")
    return release


def _saved(run: Run, release: Release[Any], paying: Account, table: Table, out: Path, delta: float) -> Certificate:
    """Model, description and certificate in their folder."""
    head = paying.certificate(release, delta=delta).head
    certificate = accounting.certify(run.mechanism.loss, run.mechanism.unit, delta, head=head)
    table.save(run.model(release.value), out)
    (out / "certificate.json").write_text(certificate.to_json(), encoding="utf-8")
    return certificate


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
    show.heading(f"Trained: ε ≤ {numbers.up(certificate.bound.upper)} at δ = {certificate.delta:g}, {certificate.unit}")
    show.say(
        f"{run.steps:,} steps on lots of {run.lot:g} rows, noise multiplier {float(run.mechanism.noise_multiplier):.4g}.",
        f"Model: {out / 'model.pt'} (described in model.json). Certificate: {out / 'certificate.json'}.",
    )
    if right is not None:
        show.say(f"Accuracy on the public rows: {100 * right:.1f} %.")
