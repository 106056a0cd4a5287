"""What can be audited, brought to one shape: `draw(data, n, rng)` gives n independent
outputs as rows of numbers.

A target may be a batch sampler (anything with `draw(data, n, rng)`), a `Mechanism`, or any callable on one
data set: a query through a curator, a training function, an endpoint. Outputs may be numbers, strings,
tuples, mappings, Arrow tables and whatever of these nests; `encode` turns them into rows.
"""

from __future__ import annotations

import importlib
import inspect
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

import numpy as np

from deniable.audit.rules.classify import Rows
from deniable.audit.runs.worker import EXACT, RAISED, RNG, generator, perform
from deniable.errors import InvalidParameter, InvalidQuery
from deniable.mechanism import Interactive, Mechanism
from deniable.randomness import SeededRandom

LARGEST_SEED = 2**32 - 1
"""`numpy.random.RandomState` and with it scikit-learn take no larger one."""
SEEDS = ("seed", "random_state")
"""Arguments that take one."""
SHAPE = "(shape)"
RAISED_PATH = f".{RAISED}"
BEYOND = -(2.0**41)
"""Far from what targets put out: an exception among rows of numbers is a number below this."""
MOST_TEXTS = 1000
INSIDE = "\0"
"""Marks a place inside a text: its words without the numbers, or one of its numbers."""
WORDS = f"{INSIDE}words"
DIGITS = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
MOST_NUMBERS = 16
"""So many numbers inside a text are looked at."""
FITTED = ("coef_", "intercept_")
"""What a linear model of scikit-learn has learnt."""


class Target(Protocol):
    """Draws independent outputs on one data set. `batched` targets are fast enough for threads."""

    @property
    def name(self) -> str: ...

    @property
    def batched(self) -> bool: ...

    def draw(self, data: Any, n: int, rng: np.random.Generator) -> Rows: ...


@dataclass(frozen=True)
class Batched:
    """A target that draws many outputs in one call."""

    function: Callable[[Any, int, np.random.Generator], Any]
    name: str
    batched: bool = True

    def draw(self, data: Any, n: int, rng: np.random.Generator) -> Rows:
        rows = np.asarray(self.function(data, n, rng))
        if len(rows) != n:
            raise InvalidParameter(f'Expected n={n} outputs from one draw of "{self.name}", got {len(rows)}.')
        return matrix(rows)


@dataclass(frozen=True)
class Called:
    """A target that gives one output per call; `pass_rng` says how its randomness comes,
    if from outside (`worker.perform`)."""

    function: Callable[..., Any]
    name: str
    pass_rng: str | None = None
    columns: list[str] = field(default_factory=list)
    texts: dict[float, str] = field(default_factory=dict)
    """What some of the numbers that stand for texts say, to name them in a report."""
    batched: bool = False

    @property
    def has_seeds(self) -> bool:
        """Whether each run gets a seed of its own."""
        return self.pass_rng not in (None, RNG, EXACT)

    def draw(self, data: Any, n: int, rng: np.random.Generator) -> Rows:
        seeds = rng.choice(LARGEST_SEED + 1, n, replace=False).tolist()
        return encode(
            perform(self.function, self.pass_rng, (data, data), [0] * n, seeds, False)[0], self.columns
        )

    def insist(self, first: Any, second: Any) -> None:
        """Run once on each neighbour, and let what it raises go through."""
        for data in (first, second):
            keywords: dict[str, Any] = {}
            if self.pass_rng in (RNG, EXACT):
                keywords = {"rng": generator(str(self.pass_rng), 1)}
            elif self.pass_rng is not None:
                keywords = {self.pass_rng: 1}
            self.function(data, **keywords)

    def obeys(self, data: Any) -> bool:
        """Whether its output is a function of data and seed: then it matters not which process it runs in."""
        if self.pass_rng is None:
            return False
        both, _ = perform(self.function, self.pass_rng, (data, data), [0, 0], [1, 1], True)
        return bool(np.array_equal(encode(both[:1], []), encode(both[1:], []), equal_nan=True))


@dataclass(frozen=True)
class Reported:
    """A local client, which makes many reports in one call: their bits are the output."""

    client: Any

    def __call__(self, data: Any, n: int, rng: np.random.Generator) -> Rows:
        reports = self.client.reports([data] * n, rng=SeededRandom(int(rng.integers(2**62))))
        return np.unpackbits(np.asarray(reports, np.uint8), axis=1).astype(np.float64)


@dataclass(frozen=True)
class Asking:
    """An `Interactive` with its questions fixed in advance: one run opens it and asks
    them all, or until it is over."""

    interactive: Interactive[Any]
    questions: Sequence[Any]

    def __call__(self, data: Any, *, rng: SeededRandom) -> tuple[Any, ...]:
        conversation = self.interactive.open(data, rng=rng)
        answers: list[Any] = []
        try:
            for question in self.questions:
                answers.append(conversation.ask(question))
        except InvalidQuery:
            answers += [None] * (len(self.questions) - len(answers))
        return tuple(answers)


PROBED = 16
"""Outputs on each neighbour by which it is seen whether a batch raises."""


def run_singly(target: Target, data: Sequence[Any], seed: int) -> Target:
    """The target, in single runs if a batch of it raises: an exception ends a batch, and in a single run it
    is an output. This is decided before anything is learnt or certified."""
    if not isinstance(target, Batched):
        return target
    try:
        for each in data:
            target.draw(each, PROBED, np.random.default_rng([seed, PROBED]))
    except Exception:  # whatever a row makes it raise
        return Called(lambda data, rng: matrix(target.function(data, 1, rng))[0], target.name, RNG)
    return target


def as_target(target: Any, name: str | None = None) -> Target:
    """Bring anything that can be audited to one shape."""
    label = name or getattr(target, "name", None) or _name(target)
    if isinstance(target, Batched | Called):
        return target
    if callable(getattr(target, "draw", None)):
        return Batched(target.draw, label)
    if callable(getattr(target, "reports", None)):
        return Batched(Reported(target), label)
    if isinstance(target, Interactive) and not isinstance(target, Mechanism):
        raise InvalidParameter(
            f'"{label}" is a conversation: fix what it is asked with Asking(interactive, questions).'
        )
    if not callable(target):
        raise InvalidParameter(f"Expected a mechanism or a callable to audit, got {type(target).__name__}.")
    names = _parameters(target)
    if {"n", "rng"} <= set(names):
        return Batched(lambda data, n, rng: target(data, n=n, rng=rng), label)
    return Called(target, label, _source(target, names))


def load(spec: str) -> Any:
    """The object behind "package.module:name".

    >>> load("math:floor")(2.5)
    2
    """
    module, _, name = spec.partition(":")
    if not name:
        raise InvalidParameter(f'Expected a target like "my_module:my_mechanism", got "{spec}".')
    try:
        value: Any = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError) as error:
        raise InvalidParameter(f'The target "{spec}" could not be loaded: {error}.') from None
    return value


def _name(target: Any) -> str:
    return str(getattr(target, "__qualname__", type(target).__name__))


def _parameters(target: Callable[..., Any]) -> dict[str, Any]:
    """Names of arguments and what is written about each."""
    try:
        return {name: p.annotation for name, p in inspect.signature(target).parameters.items()}
    except (TypeError, ValueError):
        return {}


def _source(target: Any, names: Mapping[str, Any]) -> str | None:
    """How the randomness of a callable comes. `rng` is numpy's unless the target is
    ours, or says that it takes ours."""
    if "rng" not in names:
        return next((name for name in SEEDS if name in names), None)
    annotation = names["rng"] if isinstance(names["rng"], str) else getattr(names["rng"], "__name__", "")
    ours = isinstance(target, Mechanism | Asking) or type(target).__module__.startswith("deniable.")
    return EXACT if ours or annotation.split(".")[-1] in ("Random", "SeededRandom", "SecureRandom") else RNG


# ----------------------------------------------------------------------------------------- outputs as numbers


def column_paths(target: Any) -> list[str]:
    """The places of an output that the coordinates of its rows stand for, where they have such names."""
    return list(target.columns) if isinstance(target, Called) else []


def encode(outputs: list[Any], columns: list[str], texts: dict[float, str] | None = None) -> Rows:
    """Outputs of any shape as rows of numbers. `columns` is filled by the first outputs
    and kept for the later ones.

    A string becomes a number by its checksum, and where numbers stand in it, these and the checksum of the
    words around them are looked at too. None and a missing place become NaN. One more column tells
    which places there were, so that an output that only sometimes has a key, a row or another length is seen
    as such. Where the first outputs were rows of numbers, a later one of another shape is a row of NaN. Once
    there are columns, a row is a function of its own output alone: certificates count rows as independent.

    >>> names: list[str] = []
    >>> encode([{"a": 1, "b": [2, 3]}, {"a": 4}], names)[:, 1:].tolist(), names
    ([[1.0, 2.0, 3.0], [4.0, nan, nan]], ['(shape)', '.a', '.b.0', '.b.1'])
    """
    if not outputs:
        return np.empty((0, len(columns)))
    array = _numbers(outputs)
    if array is not None:
        places = list(map(str, range(array.shape[1])))
        if columns in ([], places):
            columns[:] = places
            return array
    leaves = [dict(_leaves(_unwrap(output), "", texts)) for output in outputs]
    if columns and columns[0] != SHAPE:
        return np.array([_row_of_numbers(each, len(columns)) for each in leaves], np.float64)
    if not columns:
        columns[:] = [SHAPE, *dict.fromkeys(chain.from_iterable(leaves))]
    return np.array([_row_of_leaves(each, columns) for each in leaves], np.float64)


def _row_of_numbers(leaves: Mapping[str, float], length: int) -> list[float]:
    """Where the first outputs were rows of numbers."""
    if RAISED_PATH in leaves:
        return [BEYOND - leaves[RAISED_PATH]] * length
    row = [number for path, number in leaves.items() if INSIDE not in path]
    return row if len(row) == length else [np.nan] * length


def _row_of_leaves(leaves: Mapping[str, float], columns: list[str]) -> list[float]:
    shape = _checksum("\n".join(path for path in leaves if INSIDE not in path))
    return [shape, *(leaves.get(path, np.nan) for path in columns[1:])]


def _numbers(outputs: list[Any]) -> Rows | None:
    """The fast way, for numbers and for rows of numbers of one length."""
    if not isinstance(outputs[0], int | float | np.generic | np.ndarray | tuple | list):
        return None
    try:
        rows = np.asarray(outputs)
    except ValueError:
        return None
    return matrix(rows) if rows.dtype.kind in "biuf" and rows.size else None


def matrix(rows: Any) -> Rows:
    matrix: Rows = np.asarray(rows, np.float64)
    return matrix.reshape(len(matrix), -1) if matrix.ndim != 1 else matrix[:, None]


def _unwrap(output: Any) -> Any:
    """The value inside a Release; the numbers of a model; the columns of an Arrow table;
    a plain list for an array."""
    if callable(getattr(output, "state_dict", None)):
        return {name: tensor.tolist() for name, tensor in output.state_dict().items()}
    if hasattr(output, "coef_"):
        return {name: np.asarray(getattr(output, name)).tolist() for name in FITTED if hasattr(output, name)}
    for attribute in ("value", "table"):
        if hasattr(output, attribute) and not isinstance(output, Mapping):
            return _unwrap(getattr(output, attribute))
    for method in ("to_pydict", "tolist"):
        if hasattr(output, method):
            return getattr(output, method)()
    return output


def _leaves(value: Any, path: str, texts: dict[float, str] | None) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}", texts)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _leaves(item, f"{path}.{i}", texts)
    else:
        number = _number(value)
        if isinstance(value, str) and texts is not None and len(texts) < MOST_TEXTS:
            texts[number] = value
        yield path, number
        if isinstance(value, str):
            yield from _numbers_inside(value, path, texts)


def _numbers_inside(text: str, path: str, texts: dict[float, str] | None) -> Iterator[tuple[str, float]]:
    """What a text tells though it is never the same twice: "a = 1.7, b = 0.2" names its groups.

    >>> dict(_numbers_inside("a=2.5", "", None)) == {WORDS: _checksum("a=…"), f"{INSIDE}1": 2.5}
    True
    """
    numbers = DIGITS.findall(text)
    if not numbers:
        return
    words = DIGITS.sub("…", text)
    if texts is not None and len(texts) < MOST_TEXTS:
        texts[_checksum(words)] = words
    yield f"{path}{WORDS}", _checksum(words)
    for place, number in enumerate(numbers[:MOST_NUMBERS], 1):
        yield f"{path}{INSIDE}{place}", float(number)


def _number(value: Any) -> float:
    if value is None:
        return float("nan")
    if isinstance(value, int | float | np.generic):
        return float(value)
    if any({"__str__", "__repr__"} & vars(kind).keys() for kind in type(value).__mro__[:-1]):
        return _checksum(str(value))
    raise InvalidParameter(
        f"Expected outputs made of numbers, texts, tables or fitted models, got {type(value).__name__}. "
        "Nothing was certified; let the target return what is to be looked at, like FinalModel(train, "
        "score)."
    )


def _checksum(text: str) -> float:
    return float(zlib.crc32(text.encode()))
