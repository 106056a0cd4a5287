"""Runs of many steps, taken one at a time: what is needed to break one off and to go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from deniable.errors import InvalidQuery
from deniable.loss import Loss, Number
from deniable.mechanism import Random
from deniable.process import Conversing
from deniable.units import Unit

Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)


class Walk(Protocol[Value_co]):
    """A run on its way. `taken` steps are spent, whether or not their outcome was ever seen."""

    taken: int

    def walk(self, rows: Any) -> None:
        """Take the next step."""

    def state(self) -> dict[str, Any]:
        """All that the next step needs, made of released values, and nothing of the generator."""

    def restore(self, state: dict[str, Any]) -> None: ...

    def result(self) -> Value_co:
        """What the run releases after the steps that it took."""


class Stepwise(Protocol[Value_co]):
    """A mechanism whose loss is that of `length` steps, each of which may be the last."""

    @property
    def loss(self) -> Loss: ...

    @property
    def unit(self) -> Unit: ...

    @property
    def delta(self) -> Number | None:
        """The δ that the run is charged at, if it names one."""

    @property
    def length(self) -> int: ...

    def loss_of(self, steps: int) -> Loss:
        """The loss of the first `steps` steps."""

    def fits(self, data: Any) -> None:
        """Raise before the charge if data like these cannot be used; None is data that a
        function opens later."""

    def rows(self, data: Any) -> Any:
        """Data as the steps read them."""

    def walk(self, rng: Random) -> Walk[Value_co]:
        """The run before its first step."""


class NextStep:
    """What a walking run is asked: the next step."""


@dataclass(frozen=True)
class Walking(Generic[Value]):
    """The steps of a run as a conversation, whose loss is that of the whole run. `begun`
    is where `state` goes on."""

    run: Stepwise[Value]
    begun: int = 0
    state: dict[str, Any] | None = None
    walks: list[Walk[Value]] = field(default_factory=list, compare=False, repr=False)
    """The walk that was begun, for who drives it."""

    @property
    def loss(self) -> Loss:
        return self.run.loss

    @property
    def unit(self) -> Unit:
        return self.run.unit

    def open(self, data: Any, *, rng: Random) -> Walked[Value]:
        self.walks.append(self.start(rng))
        return Walked(self.run, self.run.rows(data), self.walks[-1])

    def start(self, rng: Random) -> Walk[Value]:
        """The run as it was saved, at the step after those that were begun."""
        walk = self.run.walk(rng)
        if self.state is not None:
            walk.restore(self.state)
        walk.taken = self.begun
        return walk


class Walked(Conversing, Generic[Value]):
    """An open `Walking`. Its answers are the numbers of the steps taken."""

    def __init__(self, run: Stepwise[Value], rows: Any, walk: Walk[Value]) -> None:
        self._run, self._rows, self._walk = run, rows, walk

    def ask(self, question: NextStep) -> int:
        self.stay()
        if not isinstance(question, NextStep):
            raise InvalidQuery(f"Expected a Step, got {question!r}. Nothing was run.")
        if self._walk.taken >= self._run.length:
            raise InvalidQuery(f"All {self._run.length:,} steps of this run are taken. Open another one.")
        self._walk.walk(self._rows)
        return self._walk.taken

    @property
    def used(self) -> Loss:
        return self._run.loss_of(self._walk.taken)
