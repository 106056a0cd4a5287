"""A training recipe under every membership attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deniable.accounting.meaning import advantage, attacker_power
from deniable.attack.learnt import Learnt, percent, percent_up
from deniable.attack.members.curve import Curve
from deniable.attack.members.evidence import Booleans, Evidence, Floats, Labels, Logits
from deniable.attack.members.scores import ATTACKS
from deniable.errors import InvalidParameter

ATTACK = "membership"
RATES = (0.001, 0.01)


@dataclass(frozen=True)
class MeasuredRecipe:
    """A training recipe under every attack: its accuracy on rows it saw and did not see, and the curves."""

    name: str
    train_accuracy: float
    test_accuracy: float
    curves: Mapping[str, Curve]
    epsilon: float | None = None
    delta: float = 0.0

    @property
    def best(self) -> str:
        """The attack with the largest true-positive rate at a false-positive rate of 1 %."""
        return max(self.curves, key=lambda name: self.curves[name].power_at(0.01))

    def ceiling(self, rate: float) -> float:
        """What the guarantee allows to any attack at this false-positive rate: everything, where there is
        none."""
        return 1.0 if self.epsilon is None else attacker_power(rate, self.epsilon, self.delta)

    @property
    def most_advantage(self) -> float:
        """What the guarantee allows to any attack as a difference of the two rates."""
        return 1.0 if self.epsilon is None else advantage(self.epsilon, self.delta)

    def learnt(self) -> Learnt:
        best, rate = self.curves[self.best], 0.01
        ceiling = None if self.epsilon is None else self.ceiling(rate)
        low, high = (percent(end) for end in best.interval(rate))
        most = max(curve.advantage for curve in self.curves.values())
        bound = ""
        if ceiling is not None:
            bound = (
                f" Its guarantee allows {percent_up(ceiling)} to any attack, and an advantage of "
                f"{self.most_advantage:.3f}; the largest one found is {most:.3f}."
            )
        reading = (
            f"{self.name}: right for {percent(self.train_accuracy)} of the rows it was trained on and "
            f"{percent(self.test_accuracy)} of others. The best attack ({self.best}) names "
            f"{percent(best.power_at(rate))} of the members (95 %: {low} to {high}) and accuses 1 % "
            f"of the others, AUC {best.area:.3f}.{bound}"
        )
        facts = {
            name: {
                "auc": c.area,
                "auc_interval": c.area_interval,
                "advantage": c.advantage,
                **{f"tpr_at_{r:g}": c.power_at(r) for r in RATES},
                **{f"tpr_at_{r:g}_interval": c.interval(r) for r in RATES},
            }
            for name, c in self.curves.items()
        }
        right = round(best.power_at(rate) * best.members)
        details = {
            "attacks": facts,
            "accuracy_seen": self.train_accuracy,
            "accuracy_unseen": self.test_accuracy,
            "advantage_bound": self.most_advantage,
            **{f"tpr_bound_at_{r:g}": self.ceiling(r) for r in RATES},
        }
        return Learnt(ATTACK, self.name, right, best.members, rate, reading, ceiling, details)


def measure_recipe(
    logits: Logits,
    members: Booleans,
    labels: Labels,
    *,
    name: str,
    targets: int,
    epsilon: float | None = None,
    delta: float = 0.0,
    attacks: Sequence[str] = tuple(ATTACKS),
) -> MeasuredRecipe:
    """Attack the first `targets` of some models in turn, all others being the shadows.

    `logits` are (models, queries, rows, classes), `members` (models, rows). Scores of all targets are ranked
    together."""
    if not 1 <= targets < len(members):
        raise InvalidParameter(
            f"Expected targets={targets} between 1 and {len(members) - 1}, fewer than the models."
        )
    if unknown := [attack for attack in attacks if attack not in ATTACKS]:
        raise InvalidParameter(f"Expected attacks among {', '.join(ATTACKS)}, got {unknown[0]!r}.")
    scores: dict[str, list[Floats]] = {attack: [] for attack in attacks}
    for target in range(targets):
        others = np.arange(len(members)) != target
        evidence = Evidence(logits[target], logits[others], members[others], labels)
        for attack in attacks:
            scores[attack].append(ATTACKS[attack](evidence))
    truth = members[:targets].ravel()
    curves = {attack: Curve.from_scores(np.concatenate(each), truth) for attack, each in scores.items()}
    right = logits[:, 0].argmax(axis=2) == labels
    return MeasuredRecipe(
        name, float(right[members].mean()), float(right[~members].mean()), curves, epsilon, delta
    )
