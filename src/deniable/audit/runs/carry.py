"""Whether a target can be built anew in another process, and the form in which it gets there.

What is built anew must begin anew: a form holds code and the names of modules, and no state that a run could
have left or that noise could have been kept in. A function that uses nothing but modules, other such
functions and texts travels by its code. Any other is imported by name, so that its module begins again. A
script that is being run cannot be imported (it would start its audit again), and a number that a function
closes over might be its noise: such targets have no form, and the audit says so.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import inspect
import marshal
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from enum import IntEnum
from numbers import Number
from typing import Any

from deniable.audit.runs.worker import Form

OURS = "deniable."
MAIN = ("__main__", "__mp_main__")
DEEPEST = 20


class Holds(IntEnum):
    """What may travel by value, beside code and names."""

    TEXTS = 0
    NUMBERS = 1
    """Those of a frozen value: the arguments it was made with."""
    ANYTHING = 2
    """All that can be pickled, for targets whose noise comes from outside."""


def form_of(target: Any, *, has_seed: bool) -> Form | None:
    """The form of a target, or None. `has_seed`: its noise comes from outside, so what it
    holds cannot be noise."""
    try:
        return _form(target, Holds.ANYTHING if has_seed else Holds.TEXTS, DEEPEST)
    except _Homeless:
        return None


class _Homeless(Exception):
    """Something that has no form."""


def _form(value: Any, holds: Holds, depth: int) -> Form:
    if depth == 0:
        raise _Homeless
    inner = functools.partial(_form, holds=holds, depth=depth - 1)
    match value:
        case None | bool() | str() | bytes():
            return ("value", pickle.dumps(value))
        case types.ModuleType() if value.__name__ not in MAIN:
            return ("module", value.__name__)
        case types.FunctionType():
            return _function(value, holds, depth)
        case types.MethodType():
            return ("method", inner(value.__self__), value.__func__.__name__)
        case functools.partial():
            return _partial(value, inner)
        case tuple():
            return ("tuple", [inner(item) for item in value])
        case Number() if holds:
            return ("value", pickle.dumps(value))
    if _is_frozen(value):
        return _instance(value, max(holds, Holds.NUMBERS), depth)
    return _plain_form(value) if holds is Holds.ANYTHING else _named_form(value)


def _partial(value: functools.partial[Any], inner: Callable[[Any], Form]) -> Form:
    keywords = [(key, inner(item)) for key, item in value.keywords.items()]
    return ("partial", inner(value.func), [inner(item) for item in value.args], keywords)


def _instance(value: Any, holds: Holds, depth: int) -> Form:
    """A frozen value by its class and its fields."""
    fields = [(f.name, _form(getattr(value, f.name), holds, depth - 1)) for f in dataclasses.fields(value)]
    return ("instance", _named_form(type(value)), fields)


def _is_frozen(value: Any) -> bool:
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return False
    # Properties that are computed once and kept are state too, but a function of the fields.
    kind: Any = type(value)
    return bool(kind.__dataclass_params__.frozen) and not hasattr(kind, "__slots__")


def _plain_form(value: Any) -> Form:
    """The form of a value by its name if it has one, else by its pickle."""
    try:
        return _named_form(value)
    except _Homeless:
        pass
    try:
        body = pickle.dumps(value)
    except Exception:  # what cannot be pickled says so in many ways
        raise _Homeless from None
    if any(name.encode() in body for name in MAIN):
        raise _Homeless
    return ("value", body)


def _named_form(value: Any) -> Form:
    """The form of a value by module and name, if that leads to the same thing."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module in MAIN or "<" in name:
        raise _Homeless
    try:
        there = functools.reduce(getattr, name.split("."), sys.modules[module])
    except (KeyError, AttributeError):
        raise _Homeless from None
    if there is not value or not _importable(module):
        raise _Homeless
    return ("name", module, name)


@functools.lru_cache(maxsize=256)
def _importable(module: str) -> bool:
    """Whether another process that has our path would find the module."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _function(function: types.FunctionType, holds: Holds, depth: int) -> Form:
    """The form of a function by its code, if that uses no state; else by name."""
    try:
        return _by_code(function, holds, depth)
    except _Homeless:
        return _named_form(function)


def _by_code(function: types.FunctionType, holds: Holds, depth: int) -> Form:
    if (function.__module__ or "").startswith(OURS):
        return _named_form(function)
    inner = functools.partial(_form, holds=holds, depth=depth - 1)
    room = function.__globals__
    references = {name: room[name] for name in _names(function.__code__) if name in room}
    names = [(name, inner(value)) for name, value in references.items() if value is not function]
    defaults = inner(function.__defaults__) if function.__defaults__ else None
    keywords = [(key, inner(value)) for key, value in (function.__kwdefaults__ or {}).items()]
    cells = [inner(_content(cell)) for cell in function.__closure__ or ()]
    return ("function", marshal.dumps(function.__code__), function.__name__, defaults, keywords, cells, names)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        raise _Homeless from None


def _names(code: types.CodeType) -> Iterator[str]:
    """Every name that code, or code inside it, may look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from _names(constant)
