"""Labelled samples of a pair: chunks have seeds of their own, workers share the chunks.

Either a fair coin picks the neighbour of each run, or runs are *coupled*: one on each neighbour, with the
same random numbers. Calls are made in the order in which the coins fell, so that what changes while an audit
runs is no sign of a neighbour.

A second process runs only what gives the same output there: targets whose randomness comes from us and from
nowhere else. Any other might begin its own generator again, and runs would no longer be independent.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from deniable.audit.rules.tables import Rows
from deniable.audit.runs.carry import form_of
from deniable.audit.runs.independence import Record
from deniable.audit.runs.pairs import Pair
from deniable.audit.runs.processes import Pool
from deniable.audit.runs.target import Called, Target, encode
from deniable.audit.runs.worker import is_raised, perform

Result = TypeVar("Result")

CERTIFY = 2**40
"""The phase of the certifying samples; learning and choosing use smaller ones, so that no seed serves
twice."""
BATCH = 200_000
CALLS = 2_000
HALF = 2**31
"""Of the seeds that there are."""
KEY = 2**41
"""What sets the numbers that seeds are mixed with apart from all other random numbers of an audit."""
FAILURES = 8
"""Runs that raise, all from the first on, after which the target is taken to be called wrongly."""
SLOW = 2e-4
"""Seconds for one call from which on worker processes are worth starting."""


class TimeOver(Exception):
    """The time of an audit is over; the runs of the chunk that was on its way are left out."""


def _ignore_progress(runs: int, stage: str) -> None:
    """Nobody counts runs."""


class Source:
    """Draws from one target. The same seed gives the same samples whatever the number of workers."""

    def __init__(
        self,
        target: Target,
        seed: int,
        workers: int | None = None,
        chunk: int | None = None,
        *,
        coupled: bool = False,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.target, self.seed, self.draw_count, self.coupled = target, seed, 0, coupled
        self.clock, self.deadline, self.watch, self.stage = clock, math.inf, _ignore_progress, "measuring"
        self.chunk = chunk or (BATCH if target.batched else CALLS)
        self.workers = workers or min(4, os.cpu_count() or 1)
        self._failures, self._has_answers, self._run_count = 0, False, 0
        self._threads: ThreadPoolExecutor | None = None
        self._pool: Pool | None = None
        self._key = [int(word) for word in np.random.default_rng([seed, KEY]).integers(2**32, size=2)]

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        if self._pool is not None:
            self._pool.close()

    def affordable(self, pair: Pair, seconds: float, limit: int) -> int:
        """About how many samples fit into `seconds`, learning and scoring included; also
        starts the workers if that pays."""
        begun = self.clock()
        trials, duration = 1, 0.0
        while duration < 0.05 and trials < self.chunk:
            trials *= 4
            draw_start = self.clock()
            self.draw(pair, trials, CERTIFY - 1)
            duration = self.clock() - draw_start
        each = duration / trials
        if not self.target.batched and each > SLOW and self.use_processes(pair):
            each /= self.workers
        left = max(0.0, seconds - (self.clock() - begun))
        fitting = int(left / max(3 * each if self.target.batched else 1.2 * each, 1e-9))
        self.chunk = min(self.chunk, max(20, fitting // 8))
        return min(limit, fitting)

    def draw(self, pair: Pair, trials: int, phase: int) -> tuple[Rows, Rows]:
        """About half of `trials` outputs of each neighbour: decided by a fair coin, or
        row for row the same random numbers."""
        parts = list(self.map_chunks(pair, trials, phase, lambda first, second: (first, second)))
        return _stack([a for a, _ in parts]), _stack([b for _, b in parts])

    def record(self, pair: Pair, trials: int, phase: int) -> Record:
        """The same, and which runs they were."""
        first, second = self.draw(pair, trials, phase)
        if not isinstance(self.target, Called):
            return Record(first, second)
        sizes = [min(self.chunk, trials - start) for start in range(0, trials, self.chunk)]
        sides = np.concatenate([self._coins(phase, i, size) for i, size in enumerate(sizes)])
        return Record(first, second, (np.flatnonzero(sides == 0), np.flatnonzero(sides == 1)))

    def map_chunks(
        self, pair: Pair, trials: int, phase: int, function: Callable[[Rows, Rows], Result]
    ) -> Iterator[Result]:
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
        before, self.draw_count = self.draw_count, self.draw_count + sum(sizes)
        if isinstance(self.target, Called):
            tasks = self._tasks(self.target, pair, sizes, phase, before)
            yield from self._map_calls(self.target, tasks, function)
            return

        def run_chunk(i: int) -> Result:
            if self.clock() > self.deadline:
                raise TimeOver
            rng = np.random.default_rng([self.seed, phase, i])
            if self.coupled:
                same = np.random.default_rng([self.seed, phase, i])
                rows = sizes[i] // 2
                return function(
                    self.target.draw(pair.first, rows, rng), self.target.draw(pair.second, rows, same)
                )
            heads = int(rng.binomial(sizes[i], 0.5))
            first = self.target.draw(pair.first, heads, rng)
            return function(first, self.target.draw(pair.second, sizes[i] - heads, rng))

        if len(sizes) == 1 or self.workers == 1:
            results: Iterator[Result] = map(run_chunk, range(len(sizes)))
        else:
            self._threads = self._threads or ThreadPoolExecutor(self.workers)
            results = self._threads.map(run_chunk, range(len(sizes)))
        for size, result in zip(sizes, results, strict=True):
            self._run_count += size
            self.watch(self._run_count, self.stage)
            yield result

    def _map_calls(
        self, target: Called, tasks: list[Task], function: Callable[[Rows, Rows], Result]
    ) -> Iterator[Result]:
        done = self._pool.map(tasks) if self._pool is not None else (None for _ in tasks)
        for outputs, task in zip(done, tasks, strict=True):
            if outputs is None:
                outputs = perform(target.function, *task, self._step)
            else:
                self._run_count += len(task[2]) - 1
                self._step()
            first, second = outputs
            self._check_answers(target, task, [*first, *second])
            if not target.columns:
                encode([*first, *second], target.columns)  # the places of either neighbour
            rows = (encode(each, target.columns, target.texts) for each in (first, second))
            yield function(*rows)

    def _step(self) -> None:
        """What follows each run: nothing is begun once the time is over."""
        self._run_count += 1
        self.watch(self._run_count, self.stage)
        if self.clock() > self.deadline:
            raise TimeOver

    def _check_answers(self, target: Called, task: Task, outputs: list[Any]) -> None:
        """A target that never did anything but raise is called wrongly: say how it failed."""
        if self._has_answers or not outputs:
            return
        self._failures += sum(map(is_raised, outputs))
        self._has_answers = not all(map(is_raised, outputs))
        if not self._has_answers and self._failures >= FAILURES:
            target.insist(*task[1])

    def _tasks(self, target: Called, pair: Pair, sizes: list[int], phase: int, first_run: int) -> list[Task]:
        """The runs of each chunk. No seed serves twice: those of the certifying runs lie
        in one half, all others in the other."""
        tasks = []
        start = 0 if phase == CERTIFY else HALF + first_run
        for i, size in enumerate(sizes):
            coins = self._coins(phase, i, size)
            counters = start + np.arange(len(coins)) // (2 if self.coupled else 1)
            seeds = mix(counters, self._key)
            tasks.append(
                (target.pass_rng, (pair.first, pair.second), coins.tolist(), seeds.tolist(), self.coupled)
            )
            start += size
        return tasks

    def _coins(self, phase: int, chunk: int, size: int) -> NDArray[np.int64]:
        """Which neighbour each run of a chunk of calls is on: by fair coins, or both in
        an order by a fair coin."""
        rng = np.random.default_rng([self.seed, phase, chunk])
        if not self.coupled:
            return rng.integers(2, size=size)
        coins = rng.integers(2, size=size // 2)
        return np.stack([coins, 1 - coins], axis=1).ravel()

    def use_processes(self, pair: Pair) -> bool:
        """Start worker processes if the target gives the same output in each."""
        target = self.target
        if (
            self._pool is None
            and self.workers > 1
            and isinstance(target, Called)
            and target.pass_rng is not None
        ):
            form = form_of(target.function, has_seed=True)
            if form is not None and target.obeys(pair.first) and target.obeys(pair.second):
                self._pool = Pool(form, self.workers)
        return self._pool is not None


Task = tuple["str | None", tuple[Any, Any], list[int], list[int], bool]
"""The arguments of `worker.perform` behind the function."""


def mix(counters: NDArray[Any], key: list[int]) -> NDArray[np.uint32]:
    """32-bit numbers one to one: equal for equal counters only (MurmurHash3's finalizer,
    a chain of bijections)."""
    x = (np.asarray(counters, np.uint64) & np.uint64(2**32 - 1)).astype(np.uint32) ^ np.uint32(key[0])
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return np.asarray((x ^ (x >> np.uint32(16))) ^ np.uint32(key[1]))


def _stack(parts: list[Rows]) -> Rows:
    """All rows; a part without any may not know its columns yet."""
    return np.concatenate([part for part in parts if len(part)] or parts[:1])
