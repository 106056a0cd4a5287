"""Labelled samples of a pair: chunks have seeds of their own, workers share the chunks.

Either a fair coin picks the neighbour of each run, or runs are *coupled*: one on each neighbour, with the same random numbers.
"""

from __future__ import annotations

import os
import time as clock
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from deniable.audit.pairs import Pair
from deniable.audit.tables import Rows
from deniable.audit.target import Called, Target, encode

Result = TypeVar("Result")

CERTIFY = 2**40
"""The phase of the certifying samples; learning and choosing use smaller ones, so that no seed serves twice."""
BATCH = 200_000
CALLS = 2_000
SLOW = 2e-4
"""Seconds for one call from which on worker processes are worth starting."""


class Source:
    """Draws from one target. The same seed gives the same samples whatever the number of workers."""

    def __init__(
        self, target: Target, seed: int, workers: int | None = None, chunk: int | None = None, *, coupled: bool = False
    ) -> None:
        self.target, self.seed, self.drawn, self.coupled = target, seed, 0, coupled
        self.chunk = chunk or (BATCH if target.batched else CALLS)
        self.workers = workers or min(4, os.cpu_count() or 1)
        self._pool: Executor | None = None

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def affordable(self, pair: Pair, seconds: float, most: int) -> int:
        """About how many samples fit into `seconds`, learning and scoring included; also starts the workers if that pays."""
        trials, spent = 16, 0.0
        while spent < 0.05 and trials < self.chunk:
            trials *= 4
            begun = clock.monotonic()
            self.draw(pair, trials, CERTIFY - 1)
            spent = clock.monotonic() - begun
        each = spent / trials
        if not self.target.batched and each > SLOW and self._processes():
            each /= self.workers
        fitting = int(seconds / (3 * each if self.target.batched else 1.2 * each))
        self.chunk = min(self.chunk, max(20, fitting // 8))
        return max(250, min(most, fitting))

    def draw(self, pair: Pair, trials: int, phase: int) -> tuple[Rows, Rows]:
        """About half of `trials` outputs of each neighbour: decided by a fair coin, or row for row the same random numbers."""
        parts = list(self.over(pair, trials, phase, lambda first, second: (first, second)))
        return _stack([a for a, _ in parts]), _stack([b for _, b in parts])

    def over(self, pair: Pair, trials: int, phase: int, function: Callable[[Rows, Rows], Result]) -> Iterator[Result]:
        """What `function` makes of each chunk of `trials` samples."""
        sizes = [min(self.chunk, trials - start) for start in range(0, trials, self.chunk)]
        yield from self._map(pair, sizes, phase, function)

    def reduce(self, pair: Pair, chunks: int, function: Callable[[Rows, Rows], Result]) -> Iterator[Result]:
        """What `function` makes of each chunk of certifying samples."""
        yield from self._map(pair, [self.chunk] * chunks, CERTIFY, function)

    # -------------------------------------------------------------------------------------------- inside

    def _map(
        self, pair: Pair, sizes: list[int], phase: int, function: Callable[[Rows, Rows], Result]
    ) -> Iterator[Result]:
        self.drawn += sum(sizes)
        if isinstance(self.target, Called):
            yield from self._called(self.target, pair, sizes, phase, function)
            return

        def one(i: int) -> Result:
            rng = np.random.default_rng([self.seed, phase, i])
            if self.coupled:
                same = np.random.default_rng([self.seed, phase, i])
                rows = sizes[i] // 2
                return function(self.target.draw(pair.first, rows, rng), self.target.draw(pair.second, rows, same))
            heads = int(rng.binomial(sizes[i], 0.5))
            first = self.target.draw(pair.first, heads, rng)
            return function(first, self.target.draw(pair.second, sizes[i] - heads, rng))

        if len(sizes) == 1 or self.workers == 1:
            yield from map(one, range(len(sizes)))
            return
        self._pool = self._pool or ThreadPoolExecutor(self.workers)
        yield from self._pool.map(one, range(len(sizes)))

    def _called(
        self, target: Called, pair: Pair, sizes: list[int], phase: int, function: Callable[[Rows, Rows], Result]
    ) -> Iterator[Result]:
        tasks = [_task(target, pair, size, [self.seed, phase, i], self.coupled) for i, size in enumerate(sizes)]
        done = self._pool.map(_run, tasks) if self._pool is not None else map(_run, tasks)
        for first, second in done:
            yield function(encode(first, target.columns), encode(second, target.columns))

    def _processes(self) -> bool:
        """Start worker processes if the target can be sent to them."""
        if self._pool is None and self.workers > 1 and isinstance(self.target, Called) and self.target.picklable():
            self._pool = ProcessPoolExecutor(self.workers, mp_context=get_context("spawn"))
        return self._pool is not None


def _stack(parts: list[Rows]) -> Rows:
    """All rows; a part without any may not know its columns yet."""
    return np.concatenate([part for part in parts if len(part)] or parts[:1])


Task = tuple[Callable[..., Any], str, "str | None", Pair, int, int, tuple[int, int]]


def _task(target: Called, pair: Pair, size: int, seed: list[int], coupled: bool) -> Task:
    rng = np.random.default_rng(seed)
    heads = size // 2 if coupled else int(rng.binomial(size, 0.5))
    own = int(rng.integers(2**62))
    seeds = (own, own if coupled else own + 1)
    return target.function, target.name, target.pass_rng, pair, heads, heads if coupled else size - heads, seeds


def _run(task: Task) -> tuple[list[Any], list[Any]]:
    """Raw outputs on both neighbours; they are made numbers in the parent, which knows the columns."""
    function, name, pass_rng, pair, heads, tails, seeds = task
    target = Called(function, name, pass_rng)
    return target.outputs(pair.first, heads, seeds[0]), target.outputs(pair.second, tails, seeds[1])
