"""When a query ends: stopped by hand (Ctrl-C, or `Curator.cancel` from another thread), or at a whole step of
time.

Who stopped an engine is never read from its error: its own time limit and a person's wish end in the same
words, and how long a statement takes may depend on a row. Instead a flag is set before the engine is stopped.
If the person alone stopped it, she reads one sentence, the same whether the engine had finished or not, and
nothing is frozen. If the limit was reached too, if the engine failed before it was stopped, or if it did not
stop, that is a failure like any other.

The statement runs in a thread of its own: a signal is seen by the main thread only, and
not while that is inside an engine.

How long an engine works may depend on data: a floor and steps of response time hide most of it (`Pace`).
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from deniable.errors import DataError, InvalidParameter, Stopped
from deniable.loss import Loss
from deniable.mechanism import Error, Mechanism, Random
from deniable.sql.engines import Engine
from deniable.units import Unit

Value = TypeVar("Value")

TICK = 0.05
"""Seconds between two looks at the flag. An engine is told as often to stop: it may have
been between two statements."""
PATIENCE = 10.0
"""Seconds that an engine has to stop. One that goes on is a failure."""
SENTENCE = "The query was stopped, as you asked. Nothing was released; what was charged for it stays charged."


class Stop:
    """The wish to stop one query. `requested` is set before the engine hears of it, `sent` when it does."""

    def __init__(self) -> None:
        self.requested: float | None = None
        self.sent = False

    def request(self) -> None:
        """From a signal handler too: one assignment, and no lock that the interrupted code may hold."""
        self.requested = self.requested or time.monotonic()

    def check(self) -> None:
        if self.requested is not None:
            raise Stopped(SENTENCE)

    @contextmanager
    def turn(self, lock: threading.Lock) -> Iterator[None]:
        """Hold `lock`, unless the wish to stop comes first."""
        while not lock.acquire(timeout=TICK):
            self.check()
        try:
            self.check()
            yield
        finally:
            lock.release()

    def attend(self, act: Callable[[], Value], engine: Engine) -> Value:
        """What `act` returns, run in a thread; or `Stopped`, or the failure."""
        errand = Errand(act, self)
        threading.Thread(target=errand.run, name="deniable-query", daemon=True).start()
        while not errand.ended.wait(TICK):
            if self.requested is not None:
                self.sent = True
                engine.cancel()
                if time.monotonic() - self.requested > PATIENCE:
                    raise DataError("The engine did not stop when it was told to.")
        return self._outcome(errand, engine)

    def _outcome(self, errand: Errand[Value], engine: Engine) -> Value:
        if self.requested is not None and engine.overran:
            raise DataError("The engine was stopped, and reached its limit of time as well.")
        if errand.failure is not None and not errand.stopped:
            raise errand.failure
        self.check()
        return errand.value[0]


class Errand(Generic[Value]):
    """A call in a thread: its value, or its failure and whether the engine had been told to stop by then."""

    def __init__(self, act: Callable[[], Value], stop: Stop) -> None:
        self._act = act
        self._stop = stop
        self.ended = threading.Event()
        self.value: list[Value] = []
        self.failure: BaseException | None = None
        self.stopped = False

    def run(self) -> None:
        try:
            self.value.append(self._act())
        except BaseException as error:  # any row may steer it: `account.run` gets it, and tells nobody
            self.stopped = self._stop.sent
            self.failure = error
        finally:
            self.ended.set()


@dataclass(frozen=True)
class Stoppable(Generic[Value]):
    """A mechanism on an engine that can be stopped while it runs. Loss, unit and answer
    are those of the mechanism."""

    of: Mechanism[Value]
    stop: Stop
    stated: Loss | None = None
    """The same loss in other words, where these are what is charged."""

    @property
    def loss(self) -> Loss:
        if self.stated is None:
            return self.of.loss
        return self.stated

    @property
    def unit(self) -> Unit:
        return self.of.unit

    def error(self, confidence: float = 0.95) -> Error | None:
        return self.of.error(confidence)

    def __call__(self, data: Engine, *, rng: Random) -> Value:
        return self.stop.attend(lambda: self.of(data, rng=rng), data)


@contextmanager
def by_signal(stop: Stop) -> Iterator[None]:
    """Ctrl-C asks `stop` to stop, as long as the block runs. Only the main thread can hear it.

    A handler of another program's that stood there is called when the block has ended; where the signal is
    ignored or kills the process, it still does.
    """
    before = None
    if threading.current_thread() is threading.main_thread():
        before = signal.getsignal(signal.SIGINT)
    if not callable(before):
        yield
        return
    heard: list[int] = []

    def hear(number: int, _: Any) -> None:
        heard.append(number)
        stop.request()

    signal.signal(signal.SIGINT, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard and before is not signal.default_int_handler:
            with suppress(KeyboardInterrupt):  # `Stopped` is on its way already
                before(signal.SIGINT, None)


# ------------------------------------------------------------------------------------------- response time

SETTLING = 0.25
"""Seconds that an engine is given to stop. A stopped query ends at the first whole step after them, so that
whether the engine had finished does not show."""


def check_floor(floor: float) -> float:
    if not (0 <= floor < math.inf):
        raise InvalidParameter(f"Expected floor={floor!r} seconds in [0, ∞).")
    return float(floor)


class Pace:
    """The time of one response: a whole number of `floor` seconds, whether it ends well or not; 0 turns that
    off. This narrows what a clock tells to the number of steps, and is no proof.

    It is given at `end`, for which a thread waits by `wait`, and an event loop by looking at `rest`.
    """

    def __init__(self, floor: float, stop: Stop) -> None:
        self._floor = floor
        self._stop = stop
        self._started = time.monotonic()
        self._least = 0.0
        self._worked: float | None = None

    @property
    def _time_passed(self) -> float:
        return time.monotonic() - self._started

    @property
    def seconds(self) -> float:
        """What the response takes if its work ends now: all that whoever waits for it learns of its time."""
        return _step(max(self._time_passed, self._least), self._floor)

    def linger(self, seconds: float) -> None:
        """The response shall take `seconds`, as another one took, unless the wish to stop comes."""
        # Within the last of these steps: the rest of it is waited for in any case.
        self._least = seconds - self._floor / 2

    def end_work(self) -> None:
        """The work has ended; from now on there is only waiting."""
        self._worked = self._time_passed

    @property
    def end(self) -> float:
        """When the response is given, as things stand. A wish to stop that comes while one waits counts from
        when it came."""
        work_time = self._time_passed if self._worked is None else self._worked
        if self._stop.requested is None:
            return _step(max(work_time, self._least), self._floor)
        stop_time = 0.0
        if self._floor:
            stop_time = self._stop.requested - self._started + SETTLING
        return _step(max(work_time, stop_time), self._floor)

    @property
    def rest(self) -> float:
        """Seconds that are still to be waited for; look again after `TICK`, should the wish to stop come."""
        return self.end - self._time_passed

    def wait(self) -> None:
        """Sleep to the end."""
        self.end_work()
        before: float | None = None
        while (end := self.end) != before:
            before = end
            while (rest := end - self._time_passed) > 0:
                lingering = self._least > 0 and self._stop.requested is None
                time.sleep(min(rest, TICK) if lingering else rest)
                if not lingering or self._stop.requested is not None:
                    break


def _step(passed: float, floor: float) -> float:
    """The end of the step that has begun.

    >>> _step(0.25, 1.0), _step(1.5, 1.0), _step(0.25, 0)
    (1.0, 2.0, 0.25)
    """
    if floor:
        return max(1, math.ceil(passed / floor)) * floor
    return passed
