"""What other processes of these tests do."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from deniable.errors import AccountFrozen, DeniableError
from deniable.learn.sgd import DPSGD, Adaptive, Distributed, resume, train
from deniable.learn.sgd.training import distributed
from deniable.learn.sgd.training import trainer as trainers
from deniable.ledger import Ledger
from tests.learn.sgd.runs import Identity, account, output, problem, small


def long_run() -> DPSGD:
    return small(n=300, lot=60, steps=24, noise_multiplier=4.0)


def train_until_killed(url: str, folder: str) -> None:
    """Save every 5 steps; in the middle of step 12 wait for the parent, which kills us."""
    honest = trainers.Trainer.clipped

    def clipped(self: trainers.Trainer, lot: Any) -> Any:
        if self.taken >= 12:
            signal.pause()
        return honest(self, lot)

    trainers.Trainer.clipped = clipped  # type: ignore[method-assign]
    with Ledger.open(url) as ledger:
        train(long_run(), problem(), account=ledger.account("images"), checkpoint=folder, every=5)


def resumed_steps(url: str, folder: str, ready: Any, answers: Any) -> None:
    """Say that all is loaded, go on with a run, and answer with the numbers of the noisy steps that were taken here."""
    taken, honest = list[int](), trainers.Trainer.release

    def release(self: trainers.Trainer, sums: Any) -> Any:
        taken.append(self.taken)
        return honest(self, sums)

    trainers.Trainer.release = release  # type: ignore[method-assign]
    ready.set()
    try:
        with Ledger.open(url) as ledger:
            resume(small(steps=20), problem(), account=ledger.account("images"), checkpoint=folder, every=1)
    except DeniableError:
        pass  # the other one was faster
    answers.put(taken)


# ------------------------------------------------------------------------------------------------ several ranks


def shared() -> DPSGD:
    return small(rate=1, n=None, lot=60, steps=4, clip=0.3)


def adaptive() -> DPSGD:
    return small(n=300, lot=60, steps=6, clip=Adaptive(start=0.2, count_noise=5.0))


def alone() -> DPSGD:
    return small(Identity(20_000), output, n=300, lot=60, steps=1, learning_rate=1.0, noise_multiplier=1.5)


def rank(number: int, store: str, answers: Any) -> None:
    """One of two ranks, which do all jobs in turn and answer after each."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=number, world_size=2, timeout=timedelta(seconds=1800)
    )
    x, y = problem()
    for name, job in JOBS.items():
        answers.put((name, number, job(number, (x[number::2], y[number::2]))))
    answers.close()
    answers.join_thread()


def _trained(run: DPSGD, number: int, shard: Any) -> Any:
    both = Distributed(run)
    if number:
        return both.join(shard)
    with Ledger.open("sqlite://") as ledger:
        release = account(ledger).run(both, shard, delta=1e-5)
        assert release.loss == run.loss
        return release.value


def _run(run: DPSGD, number: int, shard: Any) -> Any:
    return _numbers(_trained(run, number, shard).model)


def _bounds(number: int, shard: Any) -> Any:
    return [bound["all"] for bound in _trained(adaptive(), number, shard).history.clip]


def _numbers(model: Any) -> Any:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).double().numpy()


def _silent(number: int, shard: Any) -> Any:
    honest = trainers.noisy_mean
    trainers.noisy_mean = lambda total, deviation, lot, rng: total.div_(lot)
    try:
        return _run(shared(), number, shard)
    finally:
        trainers.noisy_mean = honest


def _empty(number: int, shard: Any) -> Any:
    """Nobody's gradient: the model moves by the noise alone."""
    run = alone()
    nobody = (torch.zeros(0, 20_000), torch.zeros(0))
    moved = _run(run, number, nobody)
    return moved - _numbers(run.model) if number == 0 else moved


class Dies(trainers.Trainer):
    """A rank whose process ends before its third lot."""

    def draw(self, rows: Any) -> Any:
        if self.taken > 2:
            os._exit(9)
        return super().draw(rows)


def _lost(number: int, shard: Any) -> str:
    if number:
        distributed.Trainer = Dies  # type: ignore[misc]
        _run(shared(), number, shard)
    with Ledger.open("sqlite://") as ledger:
        paying = account(ledger)
        try:
            paying.run(Distributed(shared()), shard, delta=1e-5)
        except AccountFrozen:
            return f"stopped, and the account is {paying.status}"
    return "went on"


def _another_run(number: int, shard: Any) -> str:
    """The second rank clips at ten times the bound that the first one's noise is for."""
    try:
        _run(small(clip=0.3 if number == 0 else 3.0), number, shard)
    except DeniableError as error:
        return f"{type(error).__name__}: {error}"
    return "went on"


def _wrong_rank(number: int, shard: Any) -> str:
    """Each rank tries what belongs to the other."""
    try:
        if number:
            with Ledger.open("sqlite://") as ledger:
                account(ledger).run(Distributed(shared()), shard)
        else:
            Distributed(shared()).join(shard)
    except DeniableError as error:
        return str(error)
    return "went on"


JOBS = {
    "silent": _silent,
    "adaptive": _bounds,
    "empty": _empty,
    "wrong rank": _wrong_rank,
    "another run": _another_run,
    "lost": _lost,
}
"""The last one ends a rank."""
