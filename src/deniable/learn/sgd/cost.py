"""What a run costs: its loss from its settings alone, and the noise that a budget asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from deniable import accounting
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.learn.sgd.clipping import Adaptive, Rule
from deniable.learn.sgd.noise import GradientGrid
from deniable.learn.sgd.sampling.lots import LotPlan
from deniable.loss import Composed, GaussianNoise, Loss, Number

_DOWN = 1 - 2.0**-40
"""Far more than the rounding of a quotient."""


@dataclass(frozen=True)
class Cost:
    """A plan of lots, a rule of clipping, and factors of the noise in stages of equal length."""

    plan: LotPlan
    rule: Rule
    grids: Mapping[str, GradientGrid]
    stages: tuple[Number, ...]
    replace: bool

    def loss(self, noise_multiplier: float, steps: int) -> Loss:
        """The loss of the first `steps` steps."""
        counts: Counter[float] = Counter()
        for stage, factor in enumerate(self.stages):
            first, after = self._first(stage), self._first(stage + 1)
            counts[float(factor)] += max(0, min(steps, after) - first)
        parts = tuple(
            self._sampled_loss(noise_multiplier * factor, count) for factor, count in counts.items() if count
        )
        return parts[0] if len(parts) == 1 else Composed(parts)

    def _first(self, stage: int) -> int:
        """The stages of a schedule are equally long: stage k of K begins at step ⌈k·T/K⌉ (0, 1, …)."""
        return -(-stage * self.plan.steps // len(self.stages))

    def factor(self, step: int) -> float:
        """That of the stage a step (0, 1, …) is in."""
        return float(self.stages[max(k for k in range(len(self.stages)) if self._first(k) <= step)])

    def _sampled_loss(self, noise_multiplier: float, count: int) -> Loss:
        if self.plan.correlation is not None:
            return self._step_loss(noise_multiplier, self.plan.correlation.sensitivity(count))
        return self.plan.loss(self._step_loss(noise_multiplier), count, replace=self.replace)

    def _step_loss(self, noise_multiplier: float, sensitivity: float = 1.0) -> Loss:
        """One step: all it releases comes from one sample. The count of usable rows is
        in the first group's noise (`noise`). Or all steps with correlated noise, which a unit moves by
        `sensitivity` times the clip."""
        shares = self.rule.multipliers(noise_multiplier)
        if sensitivity != 1:
            shares = {group: share / sensitivity * _DOWN for group, share in shares.items()}
        parts: list[Loss] = [
            self.grids[group].loss(share) if group in self.grids else GaussianNoise(share)
            for group, share in shares.items()
        ]
        if isinstance(self.rule, Adaptive):
            parts.append(GaussianNoise(self.rule.count_multiplier))
        return parts[0] if len(parts) == 1 else Composed(tuple(parts))

    def solve(self, budget: Budget) -> float:
        """The least noise for the budget; a rule that shares it among releases may need
        a little more than one release."""
        plan, epsilon, delta = self.plan, float(budget.epsilon), float(budget.delta)
        if plan.correlation is not None:
            once = accounting.calibrate_noise(epsilon, delta, rate=1, steps=1)
            start = once * plan.correlation.sensitivity(plan.steps) / _DOWN
        else:
            start = accounting.calibrate_noise(
                epsilon, delta, rate=plan.rate, steps=plan.steps, replace=self.replace
            )
        is_plain = len(self.stages) == 1 and not self.grids and plan.cap is None and not plan.passes
        for more in (1.0, 1.0003, 1.001) if is_plain else ():
            if accounting.epsilon(self.loss(start * more, plan.steps), delta).upper <= epsilon:
                return start * more
        return accounting.calibrate(lambda z: self.loss(z, plan.steps), budget, start=start)

    def refuse_budget(self, budget: Budget, noise_multiplier: float) -> None:
        """Raise if the noise does not keep the budget."""
        upper = accounting.epsilon(self.loss(noise_multiplier, self.plan.steps), float(budget.delta)).upper
        if upper > budget.epsilon:
            raise InvalidParameter(
                f"ε = {float(budget.epsilon):g} is too small for {self.plan.steps:,} steps with a noise "
                f"multiplier of {noise_multiplier:g}: they cost ε = {upper:.4g} at δ = "
                f"{float(budget.delta):g}. Nothing was charged. Leave out noise_multiplier to have it "
                "solved, or take fewer steps."
            )

    def refuse_hopeless(self, budget: Budget, noise_multiplier: float) -> None:
        if noise_multiplier > self.plan.lot:
            raise InvalidParameter(
                f"ε = {float(budget.epsilon):g} is too small for {self.plan.steps:,} steps: it needs a noise "
                f"multiplier of {noise_multiplier:.4g}, more than a lot of {self.plan.lot:g} examples can "
                "outweigh if all agree. Nothing was charged. Take fewer steps, larger lots or a larger ε."
            )
