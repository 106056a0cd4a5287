"""One run on several processes: each holds its own rows, one adds the noise.

Every rank draws its own Poisson lot from its own shard, so that together they draw one from all rows; clips
and adds up; rank 0 receives the sum, adds the noise to it before any division, and sends the same noisy
gradient to all, who move their copies of the model alike. The loss is that of the run in one process. A rank
that is lost ends the run on every other one: a collective operation that lacks a member raises, and no sum
over fewer rows takes its place.

The ranks trust one another: gloo passes partial sums among them without noise. An
analyst sees what rank 0 releases.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from deniable.errors import DataError, InvalidParameter
from deniable.learn.clip.rounding import summing
from deniable.learn.sgd.data.rows import Rows
from deniable.learn.sgd.dpsgd import DPSGD
from deniable.learn.sgd.outcome import Trained
from deniable.learn.sgd.training import progress
from deniable.learn.sgd.training.trainer import Sums, Trainer
from deniable.loss import Loss
from deniable.mechanism import Random
from deniable.randomness import SecureRandom
from deniable.units import Unit


@dataclass(frozen=True)
class Distributed:
    """`run` on all ranks of a process group (`torch.distributed.init_process_group("gloo", …)`).

    Rank 0 has the account: `account.run(Distributed(run), shard)`. Every other rank
    calls `Distributed(run).join(shard)`, which waits for rank 0's charge. `n` and `lot`
    of the run are those of all ranks together.

    Guarantee: the loss of `run`, for `unit`.
    Assumes:   what `DPSGD` assumes; the shards are disjoint, and each rank draws from a
               generator of its own; ranks are trusted.
    Error:     none is known before data is seen.
    Reference: Abadi et al. 2016; independent Poisson samples of disjoint parts are one
               Poisson sample of the whole.

    >>> from torch import nn
    >>> run = DPSGD.from_keywords(nn.Linear(2, 2), nn.CrossEntropyLoss(), n=100, lot=10, steps=5,
    ...                           learning_rate=1, noise_multiplier=2)
    >>> Distributed(run).loss == run.loss
    True
    """

    run: DPSGD

    @property
    def loss(self) -> Loss:
        return self.run.loss

    @property
    def unit(self) -> Unit:
        return self.run.unit

    def error(self, confidence: float = 0.95) -> None:
        """Called before the charge: a rank that is not in a group, or not the first, must not be charged."""
        if _rank() != 0:
            raise InvalidParameter(
                f"Expected rank 0 to run and to be charged; this is rank {_rank()}: join(shard). Nothing was "
                "charged."
            )

    def fits(self, data: Any) -> None:
        self.run.fits(data)

    def __call__(self, data: Any, *, rng: Random) -> Trained:
        return self._work(data, rng)

    def join(self, data: Any, *, rng: Random | None = None) -> Trained:
        """Take part with a shard of one's own, after rank 0 has paid. Returns the same
        model that rank 0 releases."""
        if _rank() == 0:
            raise InvalidParameter(
                "Expected a rank above 0: rank 0 runs through its account. Nothing was run."
            )
        try:
            return self._work(data, SecureRandom() if rng is None else rng)
        except (RuntimeError, ValueError) as error:
            raise DataError(
                f"A rank was lost, or never began; this run is over. Nothing was released here. {error}"
            ) from None

    def _work(self, data: Any, rng: Random) -> Trained:
        shard = self.run.rows(data)
        if not self.run.checked.ways:
            self.run.check(shard)
        _agree(self.run)
        trainer = Trainer.with_copy(self.run, rng, ranks=dist.get_world_size())
        for parameter in trainer.model.parameters():
            dist.broadcast(parameter.data, 0)
        with progress.bar(self.run) as watch:
            for _ in range(self.run.plan.steps):
                _step(trainer, shard)
                watch(trainer)
        return trainer.result()


def _agree(run: DPSGD) -> None:
    """Raise on every rank if one has another run: were its clip larger than that of rank
    0, the noise would be too small."""
    shapes = [(name, tuple(p.shape)) for name, p in run.model.named_parameters()]
    terms = (
        run.loss.to_json(),
        run.rule,
        run.groups,
        run.plan,
        run.learning.multiplicity,
        run.privacy.grid,
        run.dtype,
        shapes,
    )
    mine = torch.frombuffer(bytearray(hashlib.sha256(repr(terms).encode()).digest()), dtype=torch.uint8)
    all_of_them = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(all_of_them, mine)
    if not all(torch.equal(mine, other) for other in all_of_them):
        raise DataError(
            "Expected the same run on every rank; clip, noise, rate or model differ. Nothing was run."
        )


def _step(trainer: Trainer, shard: Rows) -> None:
    """Clip and add up here, add noise there, move alike."""
    lot = trainer.draw(shard)
    trainer.taken += 1
    trainer.try_again()
    sums = trainer.clip_lot(lot)
    trainer.readings = sums.readings
    _collect(sums)
    names = [name for group in trainer.run.groups.values() for name in group]
    shapes = dict(trainer.model.named_parameters())
    if _rank() == 0:
        gradient = trainer.release(sums)
    else:
        kind = summing(trainer.run.dtype)
        gradient = {name: torch.empty(shapes[name].shape, dtype=kind) for name in names}
        trainer.history.clip.append(dict(trainer.bounds))
    for name in names:
        dist.broadcast(gradient[name], 0)
    _share_bounds(trainer)
    trainer.apply(gradient)


def _collect(sums: Sums) -> None:
    """Add up on rank 0. Other ranks keep nothing of the sum that they could use."""
    for total in sums.total.values():
        dist.reduce(total, 0)
    counts = torch.tensor([sums.inside_count, sums.usable_count], dtype=torch.float64)
    dist.reduce(counts, 0)
    sums.inside_count, sums.usable_count = float(counts[0]), int(counts[1])


def _share_bounds(trainer: Trainer) -> None:
    """The next bounds, which rank 0 chose from released values alone."""
    bounds = torch.tensor(list(trainer.bounds.values()), dtype=torch.float64)
    dist.broadcast(bounds, 0)
    trainer.bounds = dict(zip(trainer.bounds, bounds.tolist(), strict=True))


def _rank() -> int:
    if not (dist.is_available() and dist.is_initialized()):
        raise InvalidParameter(
            'Expected a process group: torch.distributed.init_process_group("gloo", …) first. Nothing was '
            "charged."
        )
    return dist.get_rank()
