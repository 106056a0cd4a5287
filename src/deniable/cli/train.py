"""`deniable train`: a classifier from a table, with its certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deniable import numbers
from deniable.cli import show
from deniable.cli import train_options as option
from deniable.cli.door import door
from deniable.cli.options import Json, limit_of
from deniable.curator.opening.file_account import account_of
from deniable.errors import InvalidParameter
from deniable.guarantee import DEFAULT_DELTA, Budget, Certificate
from deniable.units import Unit

if TYPE_CHECKING:
    from deniable.learn.sgd.outcome import Usable
    from deniable.learn.table_training import TableTraining


@door
def train(
    data: option.Data,
    target: option.Target,
    epsilon: option.Epsilon,
    delta: option.Delta = DEFAULT_DELTA,
    n: option.Size = None,
    classes: option.Classes = None,
    feature: option.Features = None,
    schema: option.Schema = None,
    model: option.Chosen = option.ModelName.LOGISTIC,
    hidden: option.Hidden = 64,
    epochs: option.Epochs = None,
    lot: option.Lot = None,
    clip: option.Clip = None,
    learning_rate: option.LearningRate = None,
    draw: option.Draw = option.DrawName.POISSON,
    cap: option.Cap = None,
    at_most: option.AtMost = None,
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

    The model logistic is linear, with sums and noise that are exact, on numbers scaled by their noisy means;
    linear and mlp take float gradients and float noise.

    Bounds, words, classes and the number of rows are what you state, never what the table shows: numbers
    beyond are clamped, other words count as none, rows of other classes are left out.

    [bold]deniable train visits.csv --target ward --classes a,b --feature age:0:99 --feature sex:f,m --n 900
    --epsilon 2 --limit 3:1e-4[/]
    """
    if resume and checkpoint is None:
        raise InvalidParameter(
            "Expected --checkpoint FOLDER with --resume: where is the run to go on with? Nothing was run."
        )
    from deniable.learn import table_training as training

    method = training.TableMethod(model.value)
    declaration = training.TableDeclaration.read(schema, n, classes, feature or ())
    table = declaration.table(target, method, hidden)
    lot_draw = training.LotDraw(draw.value)
    options = training.StepOptions(epochs, lot, clip, learning_rate, lot_draw, cap, at_most)
    run = training.TableTraining.for_budget(method, table, declaration.n, options, Budget(epsilon, delta))
    training.read(table, data)  # what a file as a whole shows is told before anything is charged
    if public is not None:
        training.check_public(table, data, public)
    with account_of(data, ledger, account, Unit.row(), limit_of(limit)) as paying:
        release = run.release(paying, data, out, delta, checkpoint=checkpoint, resume=resume)
        certificate = run.save(release, paying, out, delta)
        model_table, network = run.build_model(release.value)
        right = None
        if public is not None:
            right = model_table.accuracy(network, public)
    _tell(run, certificate, out, right, run.usable(release.value), json)


def _tell(
    run: TableTraining,
    certificate: Certificate,
    path: Path,
    right: float | None,
    trust: Usable | None,
    json: bool,
) -> None:
    rows, sentences = None, []
    if trust is not None:
        rows, sentences = trust.rows, [f"{trust}, as released with noise."]
    facts = {
        "epsilon": certificate.bound.upper,
        "delta": certificate.delta,
        "noise_multiplier": run.mechanism.noise_multiplier,
        "steps": run.steps,
        "rate": run.rate,
        "out": path,
        "accuracy_on_public_rows": right,
        "usable_rows_of_a_lot": rows,
    }
    if json:
        show.as_json(facts)
        return
    show.heading(
        f"Trained: ε ≤ {numbers.up(certificate.bound.upper)} at δ = {certificate.delta:g}, {certificate.unit}"
    )
    show.say(
        f"{run.steps:,} steps on lots of {run.lot:g} rows, noise multiplier "
        f"{float(run.mechanism.noise_multiplier):.4g}.",
        *sentences,
        f"Model: {path / 'model.pt'} (described in model.json). Certificate: {path / 'certificate.json'}.",
    )
    if right is not None:
        show.say(f"Accuracy on the public rows: {100 * right:.1f} %.")
