"""What runs a target: in this process, or as the whole program of another one.

Only the standard library is imported here: another process gets this file as its program
and imports what the target itself needs and nothing else, above all not the script that
started the audit. A target travels as a *form* (`carry`), and is built there anew: a
module-level generator, a memory, a counter of its own begin again.
"""

from __future__ import annotations

import functools
import importlib
import marshal
import os
import pickle
import struct
import sys
import types
from collections.abc import Callable, Sequence
from typing import IO, Any

Form = tuple[Any, ...]

RNG, EXACT = "rng", "exact rng"
"""How a run gets its randomness, besides by the name of an argument that takes a seed: a
numpy generator, or one of ours."""


RAISED = "(raised)"
"""The one key of an output that stands for an exception."""
ENDS = "ends_audit"
"""The attribute of an exception that is no output, since nothing was asked: a program that does not exist."""


# ------------------------------------------------------------------------------------------------ runs


def perform(
    function: Any,
    source: str | None,
    data: tuple[Any, Any],
    sides: Sequence[int],
    seeds: Sequence[int],
    is_isolated: bool,
    note_run: Callable[[], None] | None = None,
) -> tuple[list[Any], list[Any]]:
    """One run for each of `sides` (0: on the first neighbour), in this order: the outputs on each neighbour.

    `source` says how randomness comes: None (the target's own), RNG or EXACT by the argument `rng`, or the
    name of an argument that takes a seed. `is_isolated`: every run has a generator of its own, from its own
    seed, and not the next numbers of a common one. `note_run` is called after every run.
    """
    outputs: tuple[list[Any], list[Any]] = ([], [])
    common = None
    if source in (RNG, EXACT) and seeds and not is_isolated:
        common = generator(str(source), seeds[0])
    for side, seed in zip(sides, seeds, strict=True):
        keywords: dict[str, Any] = {}
        if source in (RNG, EXACT):
            keywords = {"rng": common or generator(str(source), seed)}
        elif source is not None:
            keywords = {source: seed}
        outputs[side].append(attempt(function, data[side], **keywords))
        if note_run is not None:
            note_run()
    return outputs


def attempt(function: Any, data: Any, **keywords: Any) -> Any:
    """One output. An exception is one too: its kind, since its words may hold noise or an address."""
    try:
        return function(data, **keywords)
    except Exception as error:  # any row may steer what fails, and whoever asks sees that it did
        if getattr(error, ENDS, False):
            raise
        return {RAISED: type(error).__name__}


def is_raised(output: Any) -> bool:
    return isinstance(output, dict) and output.keys() == {RAISED}


def generator(source: str, seed: int) -> Any:
    """A generator of the kind that a target takes."""
    if source == EXACT:
        return importlib.import_module("deniable.randomness").SeededRandom(seed)
    return importlib.import_module("deniable.audit.runs.generator").AnyRandom(seed)


# ------------------------------------------------------------------------------------------------ forms


def build(form: Form) -> Any:
    """The object that a form describes."""
    kind, *parts = form
    match kind:
        case "module":
            return importlib.import_module(parts[0])
        case "name":
            return functools.reduce(getattr, parts[1].split("."), importlib.import_module(parts[0]))
        case "value":
            return pickle.loads(parts[0])
        case "tuple":
            return tuple(map(build, parts[0]))
        case "partial":
            return functools.partial(
                build(parts[0]), *map(build, parts[1]), **{k: build(v) for k, v in parts[2]}
            )
        case "method":
            return getattr(build(parts[0]), parts[1])
        case "instance":
            return _instance(build(parts[0]), parts[1])
        case _:
            return _function(*parts)


def _instance(kind: Any, fields: Sequence[tuple[str, Form]]) -> Any:
    instance = object.__new__(kind)
    for name, form in fields:
        object.__setattr__(instance, name, build(form))
    return instance


def _function(
    code: bytes,
    name: str,
    defaults: Form | None,
    keywords: Sequence[Any],
    cells: Sequence[Form],
    names: Sequence[Any],
) -> Any:
    room: dict[str, Any] = {"__builtins__": __builtins__, "__name__": "deniable.audit.carried"}
    room.update({key: build(form) for key, form in names})
    closure = tuple(types.CellType(build(form)) for form in cells)
    function = types.FunctionType(
        marshal.loads(code), room, name, build(defaults) if defaults else None, closure
    )
    function.__kwdefaults__ = {key: build(form) for key, form in keywords} or None
    room.setdefault(name, function)  # a function may call itself
    return function


# -------------------------------------------------------------------------------------------- another process


def send(pipe: IO[bytes], value: Any) -> None:
    body = pickle.dumps(value)
    pipe.write(struct.pack(">Q", len(body)) + body)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """The next message; EOFError if the other side is gone."""
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError("The other process is gone.")
    size = struct.unpack(">Q", head)[0]
    body = pipe.read(size)
    if len(body) < size:
        raise EOFError("The other process is gone.")
    return pickle.loads(body)


def serve() -> None:
    """The whole program of a worker: a path and a form first, then runs until the pipe closes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the target prints is no answer
    questions = sys.stdin.buffer
    sys.path[:], form = receive(questions)
    target = None
    while True:
        try:
            task = receive(questions)
        except EOFError:
            return
        try:
            target = target or build(form)
            send(answers, ("outputs", perform(target, *task)))
        except Exception as error:  # whatever it is, the parent is told and decides
            send(answers, ("error", f"{type(error).__name__}: {error}"))
