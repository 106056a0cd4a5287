"""Membership inference against any model: say how it is trained, and see who of its training rows can be
told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from deniable.attack.members.coins import Watch, coins, iterate_silently
from deniable.attack.members.evidence import Logits, from_probabilities
from deniable.attack.members.measured import MeasuredRecipe, measure_recipe
from deniable.attack.members.scores import ATTACKS
from deniable.errors import InvalidParameter

Predict: TypeAlias = Callable[[Any], Any]
"""Rows → logits (or probabilities) of each, (rows, classes)."""
Train: TypeAlias = Callable[[Any, Any, int], Predict]
"""Rows, labels, seed → how the trained model answers."""
Query: TypeAlias = Callable[[Any], Any]
"""Rows → the same rows asked about in another way: mirrored, shifted."""


def itself(rows: Any) -> Any:
    return rows


def membership(
    train: Train,
    data: tuple[Any, Any],
    *,
    models: int = 32,
    targets: int = 4,
    queries: Sequence[Query] = (),
    probabilities: bool = False,
    epsilon: float | None = None,
    delta: float = 0.0,
    attacks: Sequence[str] = tuple(ATTACKS),
    seed: int = 0,
    name: str = "the model",
    watch: Watch = iterate_silently,
) -> MeasuredRecipe:
    """Train `models` on random halves of public rows with `train(x, y, seed)`, and attack the first `targets`
    of them.

    `train` gives back a function from rows to logits (to probabilities, if `probabilities`): a network, a
    tree, a pipeline. Rows are whatever can be indexed by an array of places, an image or a table; labels are
    whole numbers from 0. `queries` are further ways to ask about a row, like the mirrored image, which
    sharpen LiRA and RMIA for models trained with such augmentations. For a private recipe `epsilon` and
    `delta` say its guarantee for one row added or removed, and the result what it allows to any attack.

    Each row is in each model by a fair coin of its own, so the scores may be handed to
    `deniable.audit.membership` as they are. This trains on the rows as they are and charges nothing: the rows
    must be public, or never leave the room.

    >>> from sklearn.datasets import load_digits
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> x, y = load_digits(return_X_y=True)
    >>> def train(x, y, seed):
    ...     return DecisionTreeClassifier(random_state=seed).fit(x, y).predict_proba
    >>> leak = membership(train, (x[:600], y[:600]), models=16, targets=2, probabilities=True)
    >>> leak.train_accuracy, leak.test_accuracy < 0.9, leak.curves["lira"].area > 0.6
    (1.0, True, True)
    """
    x, labels = data[0], np.asarray(data[1])
    labels = _check_labels(labels)
    members = coins(models, len(labels), seed)
    versions = [query(x) for query in (itself, *queries)]
    outputs = []
    for model in watch(range(models), f"Training {models} models"):
        inside = np.flatnonzero(members[model])
        predict = train(x[inside], data[1][inside], seed + model)
        outputs.append(_answers(predict, versions, len(labels), probabilities))
    logits = _stack_outputs(outputs, labels)
    return measure_recipe(
        logits, members, labels, name=name, targets=targets, epsilon=epsilon, delta=delta, attacks=attacks
    )


def _check_labels(labels: Any) -> Any:
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or (len(labels) and labels.min() < 0):
        raise InvalidParameter(
            f"Expected labels that are whole numbers from 0, one for each row, got {labels.dtype}."
        )
    return labels.astype(np.int64)


def _answers(predict: Predict, inputs: Sequence[Any], rows: int, probabilities: bool) -> Logits:
    """(queries, rows, classes) of one model."""
    answers = np.stack([np.asarray(predict(version)) for version in inputs])
    if answers.ndim != 3 or answers.shape[1] != rows:
        raise InvalidParameter(
            f"Expected the trained model to give (rows, classes) for {rows} rows, got {answers.shape[1:]}."
        )
    if not np.isfinite(answers).all() or (probabilities and (answers < 0).any()):
        raise InvalidParameter(
            "Expected finite outputs"
            + (", and no probability below 0" if probabilities else "")
            + ". Give logits, or probabilities with probabilities=True."
        )
    return from_probabilities(answers) if probabilities else answers.astype(np.float32)


def _stack_outputs(outputs: Sequence[Logits], labels: Any) -> Logits:
    """All models' outputs; one that knows fewer classes than there are would put its columns in the wrong
    places."""
    widths = {output.shape[2] for output in outputs}
    if len(widths) > 1 or max(widths) <= labels.max(initial=0):
        raise InvalidParameter(
            f"Expected every trained model to know the same {int(labels.max(initial=0)) + 1} classes, got "
            f"outputs of {', '.join(map(str, sorted(widths)))} columns: with a class missing from a model's "
            "rows its columns shift."
        )
    return np.stack(outputs)
