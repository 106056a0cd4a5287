"""DP-FTRL: rows that keep their lot in every epoch, noise that is correlated, and what that costs."""

from __future__ import annotations

import math
import signal
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from deniable import accounting
from deniable.accounting.matrices import Participation, banded, loss, sensitivity
from deniable.errors import DataError, InvalidParameter
from deniable.learn.sgd import (
    DPSGD,
    Adaptive,
    Arrivals,
    FixedLots,
    Group,
    Learning,
    Lots,
    PerLayer,
    Privacy,
    Users,
    resume,
    train,
)
from deniable.learn.sgd.noise import COUNTED, CorrelatedNoise, gaussians
from deniable.learn.sgd.training.trainer import Trainer
from deniable.learn.table_training import LotDraw, StepOptions
from deniable.ledger import Filter, Ledger
from deniable.loss import Composed, GaussianNoise
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.learn.sgd.runs import Identity, account, linear, output, problem, trainer

N, LOT, PASS, EPOCHS = 60, 10, 6, 3
X, Y = problem(N)


def ftrl(model: nn.Module | None = None, criterion: Any = None, **given: Any) -> DPSGD:
    sizes = {"n": N, "lot": LOT, "epochs": EPOCHS, "bands": 4}
    lots = FixedLots(**(sizes | {name: given.pop(name) for name in list(given) if name in sizes}))
    privacy = Privacy(**({"noise_multiplier": 1.0} | given))
    return DPSGD(
        model or linear(), criterion or nn.CrossEntropyLoss(), lots=lots, privacy=privacy,
        learning=Learning(learning_rate=0.5),
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ what it costs


@pytest.mark.parametrize(
    ("epochs", "length", "bands"), [(1, 8, 8), (3, 6, 4), (5, 4, 1), (4, 7, 7), (1, 1, 1)]
)
def test_the_loss_is_that_of_the_matrix_for_this_participation(epochs: int, length: int, bands: int) -> None:
    run = ftrl(n=length * 10, lot=10, epochs=epochs, bands=bands, noise_multiplier=2.5)
    for count in {1, length, length * epochs}:
        who = Participation(count, times=math.ceil(count / length), apart=length)
        exact = loss(banded(count, min(bands, count)), who, sigma=2.5).multiplier
        claim = run.loss_of(count)
        assert isinstance(claim, GaussianNoise)
        assert float(claim.multiplier) <= float(exact) * (1 + 1e-11)
    if epochs > 1 or length >= bands:  # the first column is whole
        whole = loss(
            banded(length * epochs, bands), Participation(length * epochs, epochs, length), sigma=2.5
        )
        assert float(run.loss.multiplier) > 0.7 * float(whole.multiplier)  # type: ignore[attr-defined]


def test_a_budget_is_kept_and_used() -> None:
    run = ftrl(noise_multiplier=None, epsilon=2, delta=1e-5)
    upper = accounting.epsilon(run.loss, 1e-5).upper
    assert 1.99 < upper <= 2


def test_groups_of_parameters_are_one_release() -> None:
    groups = PerLayer({"w": Group(("weight",), clip=1), "b": Group(("bias",), clip=0.1, noise=2)})
    run = ftrl(clip=groups, noise_multiplier=2.0)
    odd = PerLayer({"usable rows": Group(("weight",), clip=1), "b": Group(("bias",), clip=0.1)})
    walk = trainer(ftrl(clip=odd, epochs=1))
    for _ in range(2):
        walk.walk(ftrl().rows((X, Y)))  # whatever a group is called, its noise is its own
    parts = run.loss.parts  # type: ignore[attr-defined]
    assert isinstance(run.loss, Composed)
    together = sum(float(part.multiplier) ** -2 for part in parts) ** -0.5
    alone = float(ftrl(noise_multiplier=2.0).loss.multiplier)  # type: ignore[attr-defined]
    assert together == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize("cut", range(1, 12))
def test_noise_that_begins_anew_costs_nothing_more(cut: int) -> None:
    """A run that is taken up has C in two blocks: no inner product of columns gets larger."""
    whole = banded(12, 5).encoder
    blocks = whole.copy()
    blocks[cut:, :cut] = 0
    assert (blocks.T @ blocks <= whole.T @ whole + 1e-15).all()
    who = Participation(12, times=2, apart=5)
    assert sensitivity(blocks, who) <= sensitivity(banded(12, 5), who) * (1 + 1e-9)


# ------------------------------------------------------------------------------------------------ who takes part


def taken_part(run: DPSGD, data: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The positions of each step."""
    lots: list[list[int]] = []
    rows = run.rows(data)
    honest = type(rows).take

    def take(self: Any, positions: Any, *given: Any) -> Any:
        lots.append(positions.tolist())
        return honest(self, positions, *given)

    monkeypatch.setattr(type(rows), "take", take)
    walk = trainer(run)
    for _ in range(run.plan.steps):
        walk.walk(rows)
    return lots


def test_every_row_has_one_lot_of_every_epoch_and_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lots = taken_part(ftrl(), (X, Y), monkeypatch)
    assert len(lots) == PASS * EPOCHS
    assert sorted(chain(*lots[:PASS])) == list(range(N))
    assert lots[:PASS] == lots[PASS : 2 * PASS] == lots[2 * PASS :]
    assert len({len(lot) for lot in lots[:PASS]}) > 1  # by draws of their own, not dealt


def test_people_take_part_once_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    run = ftrl(n=12, lot=2, unit=Unit.column("person", max_rows=3))
    lots = taken_part(run, Users((X, Y), [i % 12 for i in range(N)]), monkeypatch)
    assert sorted(chain(*lots[:PASS])) == list(range(12))
    assert lots[:PASS] == lots[PASS : 2 * PASS]


def test_rows_that_arrive_take_part_when_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[Any] = [0, 5, 5, PASS, -1, 1.5, None, "2", math.nan, 3.0, *[4] * (N - 10)]
    lots = taken_part(ftrl(), Arrivals((X, Y), steps), monkeypatch)
    once = [[0], [], [], [9], list(range(10, N)), [1, 2]]
    assert lots == once * EPOCHS


def test_arrivals_that_do_not_fit_are_refused() -> None:
    at = [0] * N
    poisson = DPSGD(
        linear(), nn.CrossEntropyLoss(), lots=Lots(n=N, lot=LOT, steps=2), privacy=Privacy(noise_multiplier=1)
    )
    people = ftrl(unit=Unit.column("person", max_rows=3))
    for run in (poisson, people):
        with pytest.raises(DataError, match="FixedLots"):
            run.rows(Arrivals((X, Y), at))
    with pytest.raises(DataError, match="differ in number"):
        ftrl().rows(Arrivals((X, Y), at[1:]))
    with pytest.raises(DataError, match="as a list"):
        Arrivals((X, Y), "0" * N)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bands": PASS + 1}, "at most 6 bands"),
        ({"lot": 7}, "a whole number of lots"),
        ({"clip": Adaptive(count_noise=9)}, "one noise for all steps"),
        ({"grid": True}, "one noise for all steps"),
        ({"noise_schedule": (1, 2)}, "one noise for all steps"),
        ({"unit": Unit.row(replace=True)}, "added or removed"),
    ],
)
def test_what_has_no_proof_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        ftrl(**given)


# ------------------------------------------------------------------------------------------------ the noise


def released(run: DPSGD, seed: int) -> tuple[Tensor, list[float]]:
    """Gradient sums of a run without rows: noise alone."""
    walk = trainer(run, seed)
    rows = run.rows((torch.zeros(0, 2000), torch.zeros(0)))
    steps = [walk.step(walk.draw(rows))["line.weight"].ravel().double() for _ in range(run.plan.steps)]
    return torch.stack(steps) * run.plan.lot, walk.history.usable


def test_times_the_matrix_the_noise_is_independent_and_of_the_stated_size() -> None:
    run = ftrl(Identity(2000), output, noise_multiplier=1.7, bands=5)
    noise, counts = released(run, seed=4)
    fresh = torch.from_numpy(banded(run.plan.steps, 5).encoder) @ noise / (1.7 * COUNTED)
    square = float((fresh**2).sum())
    size = fresh.numel()
    for factor, fits in ((1.0, True), (0.7, False), (1.3, False)):
        p = 2 * min(stats.chi2.cdf(square / factor**2, size), stats.chi2.sf(square / factor**2, size))
        assert bool(p > 1e-9) is fits
    lagged = (fresh[1:] * fresh[:-1]).mean().item() * math.sqrt(fresh[1:].numel())
    assert abs(lagged) < 6.1
    own = (noise[1:] * noise[:-1]).mean().item() / float(noise.var())
    assert own < -0.2  # a step takes back part of the step before
    assert len(set(counts)) == len(counts)


def test_running_sums_hold_less_noise_than_independent_steps_of_the_same_cost() -> None:
    settings: dict[str, Any] = {
        "n": 320,
        "lot": 10,
        "epochs": 2,
        "noise_multiplier": None,
        "epsilon": 3,
        "delta": 1e-5,
    }
    sums = []
    for bands in (1, 16):
        noise, _ = released(ftrl(Identity(2000), output, **settings, bands=bands), seed=5)
        sums.append(float((noise.cumsum(0) ** 2).mean()))
    assert sums[1] < 0.5 * sums[0]


def test_only_the_bands_are_held() -> None:
    noise = CorrelatedNoise(banded(4, 4).coefficients)
    for _ in range(9):
        noise.draw("all", 3, 1.0, SeededRandom(1))
    assert len(noise._rows["all"]) == 3
    alone = CorrelatedNoise((1.0,))
    assert torch.equal(alone.draw("all", 3, 2.0, SeededRandom(1)), 2 * gaussians(SeededRandom(1), 3))


# ------------------------------------------------------------------------------------------------ broken off


def test_a_run_that_is_taken_up_saves_no_noise_and_exceeds_no_participation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, taking = Trainer.clip_lot, list[int]()

    def clipped(self: Trainer, lot: Any) -> Any:
        if self.taken == 9:
            signal.raise_signal(signal.SIGINT)
        taking.append(sum(batch.examples for batch in lot))
        return honest(self, lot)

    monkeypatch.setattr(Trainer, "clip_lot", clipped)
    with Ledger.open("sqlite://") as ledger:
        paying = account(ledger, rule=Filter.renyi)
        with pytest.raises(KeyboardInterrupt):
            train(ftrl(), (X, Y), account=paying, checkpoint=tmp_path / "run", every=2)
        state = torch.load(tmp_path / "run" / "state.pt", weights_only=True)
        assert set(state) == {"model", "optimizer", "step", "loss", "bounds", "average", "history"}
        release = resume(ftrl(), (X, Y), account=paying, checkpoint=tmp_path / "run", every=2)
        assert release.value.steps == PASS * EPOCHS
    assert sum(taking) <= N * EPOCHS
    assert taking[8:10] == [0, 0]  # the rest of the epoch is noise: nobody knows any more who was in it
    assert sum(taking[10:]) == N


def test_it_learns() -> None:
    x, y = problem(600)
    run = ftrl(n=600, lot=60, epochs=6, noise_multiplier=None, epsilon=4, delta=1e-5, bands=8)
    model = run((x, y), rng=SeededRandom(2)).model
    assert float((model(x).argmax(1) == y).float().mean()) > 0.8


def test_lots_of_the_command_line_are_those_of_the_run() -> None:
    assert StepOptions(draw=LotDraw.FIXED, epochs=4).lots(100).plan == FixedLots(100, 5.0, 4).plan
    assert StepOptions(draw=LotDraw.ALLOCATED).lots(100) == Lots(100, 5.0, None, 20.0, allocated=True)
    capped = StepOptions(cap=9, at_most=150).lots(100)
    assert isinstance(capped, Lots)
    assert (capped.cap, capped.at_most) == (9, 150)
    for wrong in (
        StepOptions(draw=LotDraw.FIXED, cap=9, at_most=150),
        StepOptions(draw=LotDraw.FIXED, epochs=1.5),
    ):
        with pytest.raises(InvalidParameter, match="whole epochs and no cap"):
            wrong.lots(100)
    for other in (StepOptions(cap=9), StepOptions(draw=LotDraw.FIXED)):
        with pytest.raises(InvalidParameter, match="linear or mlp"):
            other.refuse_draws()
