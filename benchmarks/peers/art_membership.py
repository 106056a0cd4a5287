"""Membership scores by ART's black-box attack, from outputs of models that were trained elsewhere.

    .venv-bench/bin/python benchmarks/peers/art_membership.py OUTPUTS.npz SCORES.npz

OUTPUTS holds `probabilities` (models, rows, classes), `members` (models, rows), `labels` and `targets`. For each of
the first `targets` models the attack learns from the members and others of all other models. SCORES has one
array (targets, rows) for each kind of attack model.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from art.attacks.inference.membership_inference import MembershipInferenceBlackBox
from art.estimators.classification import BlackBoxClassifierNeuralNetwork
from numpy.typing import NDArray

KINDS = ("rf", "gb", "nn")
MOST = 8000
"""Outputs that an attack model learns from; its default settings are made for about as many."""


def main() -> None:
    outputs = np.load(sys.argv[1])
    probabilities, members, labels = outputs["probabilities"], outputs["members"], outputs["labels"]
    classes = probabilities.shape[2]
    classifier = BlackBoxClassifierNeuralNetwork(
        lambda x: np.zeros((len(x), classes)), input_shape=(1,), nb_classes=classes
    )
    scores: dict[str, list[NDArray[np.float64]]] = {kind: [] for kind in KINDS}
    rng = np.random.default_rng(0)
    for target in range(int(outputs["targets"])):
        others = np.delete(np.arange(len(members)), target)
        inside, label = members[others].ravel(), np.tile(labels, len(others))
        known = probabilities[others].reshape(-1, classes)
        chosen = rng.permutation(len(inside))[:MOST]
        within, without = chosen[inside[chosen]], chosen[~inside[chosen]]
        for kind in KINDS:
            attack = MembershipInferenceBlackBox(classifier, attack_model_type=kind)
            attack.fit(
                None, label[within], None, label[without], pred=known[within], test_pred=known[without]
            )
            guess = attack.infer(None, labels, pred=probabilities[target], probabilities=True)
            scores[kind].append(np.asarray(guess, np.float64).reshape(len(labels), -1)[:, -1])
    arrays: dict[str, Any] = {kind: np.array(each) for kind, each in scores.items()}
    np.savez(sys.argv[2], **arrays)


if __name__ == "__main__":
    main()
