"""Stopping a query by hand: Ctrl-C, or `Curator.cancel` from another thread.

Who stopped an engine is never read from its error: its own time limit and a person's wish end in the same
words, and how long a statement takes may depend on a row. Instead a flag is set before the engine is stopped.
If the person alone stopped it, she reads one sentence, the same whether the engine had finished or not, and
nothing is frozen. If the limit was reached too, if the engine failed before it was stopped, or if it did not
stop, that is a failure like any other.

The statement runs in a thread of its own: a signal is seen by the main thread only, and
not while that is inside an engine.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from deniable.errors import DataError, Stopped
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
        except BaseException as error:
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
