"""A digest of a classifier: of all that its answers can depend on, as far as Python can reach it.

Tensors and arrays count by their numbers, whether they are parameters, buffers (persistent or not) or plain
attributes; modules by their class, attributes, parts and hooks; functions by their code, defaults, closure
and the globals that they name; estimators by what a pickle of them would hold. Code of installed packages
counts by its name, so that the digest of a network of plain layers is the same on every machine. Code of
one's own counts by its bytecode, which is that of one version of Python.

What is out of reach: files, clocks, other processes, the inside of C objects that cannot be pickled.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_FOLDERS = {"site-packages", "dist-packages"}
_HOME = Path(__file__).resolve().parents[2]
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_ABOUT = {"__module__", "__doc__", "__qualname__", "__firstlineno__", "__dict__", "__weakref__"}
_HIDDEN = ("training", "meta")
"""Attributes of a module that its scores do not depend on: it is always evaluated in evaluation mode."""


def digest(value: Any) -> str:
    """SHA-256 of a classifier's numbers, structure and code."""
    walk = _Walk()
    walk.add(value)
    return walk.hash.hexdigest()


def digest_array(array: np.ndarray[Any, Any]) -> str:
    """SHA-256 of an input: type, shape and numbers."""
    return hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest()


class _Walk:
    """One pass over an object; what was met before counts by the place where it was met."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.visits: dict[int, int] = {}
        self.alive: list[Any] = []  # an object that is let go could lend its id to another

    def say(self, *words: object) -> None:
        self.hash.update("\0".join(map(str, words)).encode() + b"\n")

    def add(self, value: Any) -> None:
        if isinstance(value, _PLAIN):
            self.say(type(value).__name__, repr(value))
            return
        if id(value) in self.visits:
            self.say("again", self.visits[id(value)])
            return
        self.visits[id(value)] = len(self.visits)
        self.alive.append(value)
        self.say(type(value).__module__, type(value).__qualname__)
        try:
            _reader(value)(self, value)
        except Exception as error:  # an object's own code tells what it holds, and may raise anything
            self.say("out of reach", type(error).__name__)

    def add_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self.add(value)


def _reader(value: Any) -> Callable[[_Walk, Any], None]:
    torch = sys.modules.get("torch")
    if torch is not None:
        if isinstance(value, torch.Tensor):
            return _add_tensor
        if isinstance(value, torch.nn.Module):
            return _add_module
    for kinds, reader in _READERS:
        if isinstance(value, kinds):
            return reader
    return _add_object


# ------------------------------------------------------------------------------------------------ numbers


def _add_array(walk: _Walk, array: Any) -> None:
    walk.say(array.dtype.str, array.shape)
    if array.dtype.hasobject:
        walk.add_all(array.ravel().tolist())
    else:
        walk.hash.update(np.ascontiguousarray(array).tobytes())


def _add_tensor(walk: _Walk, tensor: Any) -> None:
    values = tensor.detach()
    if values.is_quantized:
        values = values.dequantize()
    if values.layout is not sys.modules["torch"].strided:
        values = values.to_dense()
    values = values.cpu().contiguous()
    walk.say(tensor.dtype, tuple(tensor.shape))
    walk.hash.update(values.reshape(-1).view(sys.modules["torch"].uint8).numpy().tobytes())


# ------------------------------------------------------------------------------------------------ containers


def _add_mapping(walk: _Walk, mapping: Mapping[Any, Any]) -> None:
    walk.say(len(mapping))
    for key, value in list(mapping.items()):
        walk.add(key)
        walk.add(value)


def _add_sequence(walk: _Walk, values: Any) -> None:
    walk.say(len(values))
    walk.add_all(list(values))


def _add_set(walk: _Walk, values: Any) -> None:
    walk.say(*sorted(digest(value) for value in values))


# ------------------------------------------------------------------------------------------------ modules


def _add_module(walk: _Walk, module: Any) -> None:
    torch = sys.modules["torch"]
    _add_class(walk, type(module))
    forward = type(module).forward
    walk.say(getattr(forward, "__module__", ""), getattr(forward, "__qualname__", ""))
    if isinstance(module, torch.jit.ScriptModule):
        walk.say(module.inlined_graph)
        _add_mapping(walk, module.state_dict())
        return
    if isinstance(module, torch.fx.GraphModule):
        walk.say(module.code)
    own = not _is_installed(type(module))
    for name, value in vars(module).items():
        if name in _HIDDEN:
            continue
        if "hooks" in name:  # their keys are counters of the process
            if isinstance(value, Mapping) and value:
                walk.say(name)
                walk.add_all(list(value.values()))
        elif own or not name.startswith("_") or name in ("_parameters", "_buffers", "_modules"):
            walk.say(name)
            walk.add(value)
    if hasattr(module, "_packed_params"):  # quantised weights are C objects that only a state shows
        _add_mapping(walk, module.state_dict())


# ------------------------------------------------------------------------------------------------ code


def _add_function(walk: _Walk, function: types.FunctionType) -> None:
    walk.say(function.__module__, function.__qualname__)
    walk.add(function.__defaults__)
    walk.add(function.__kwdefaults__)
    walk.add_all(_contents(cell) for cell in function.__closure__ or ())
    _add_mapping(walk, vars(function))
    if not _is_installed(function):
        _add_code(walk, function.__code__)
        names = _names(function.__code__)
        for name in sorted(names & set(function.__globals__)):
            walk.say(name)
            walk.add(function.__globals__[name])


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # not filled yet


def _add_code(walk: _Walk, code: types.CodeType) -> None:
    walk.say(code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_argcount)
    walk.hash.update(code.co_code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _add_code(walk, constant)
        else:
            walk.add(constant)


def _names(code: types.CodeType) -> set[str]:
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*inner)


def _add_class(walk: _Walk, kind: type) -> None:
    """Every class of one's own among its ancestors, by its methods and class attributes."""
    for ancestor in kind.__mro__:
        walk.say(ancestor.__module__, ancestor.__qualname__)
        if not _is_installed(ancestor):
            for name, value in sorted(vars(ancestor).items()):
                if name not in _ABOUT:
                    walk.say(name)
                    walk.add(value)


def _add_method(walk: _Walk, method: types.MethodType) -> None:
    walk.add(method.__self__)
    walk.add(method.__func__)


def _add_partial(walk: _Walk, call: functools.partial[Any]) -> None:
    walk.add_all((call.func, call.args, call.keywords))


def _add_wrapper(walk: _Walk, wrapper: Any) -> None:
    walk.add(wrapper.__func__)


def _add_property(walk: _Walk, value: property) -> None:
    walk.add_all((value.fget, value.fset))


def _add_name(walk: _Walk, value: Any) -> None:
    walk.say(getattr(value, "__module__", ""), getattr(value, "__qualname__", None) or value.__name__)


def _add_nothing(walk: _Walk, value: Any) -> None:
    """What refers without holding."""


def _add_object(walk: _Walk, value: Any) -> None:
    """Any other object: its class, and what a pickle of it would hold."""
    _add_class(walk, type(value))
    inner = getattr(value, "__wrapped__", None)
    if inner is not None:
        walk.add(inner)
    if hasattr(value, "get_arrays") and hasattr(value, "get_tree_stats"):
        walk.add(
            value.get_arrays()
        )  # scikit-learn's trees of neighbours also count how often they were asked
        return
    recipe = value.__reduce_ex__(4)
    if isinstance(recipe, str):
        walk.say(recipe)
        return
    for part in recipe:
        if isinstance(part, Iterable) and not isinstance(part, str | bytes | Mapping | tuple | list):
            part = list(part)
        walk.add(part)


_READERS: tuple[tuple[Any, Callable[[_Walk, Any], None]], ...] = (
    (np.ndarray, _add_array),
    (Mapping, _add_mapping),
    ((list, tuple), _add_sequence),
    ((set, frozenset), _add_set),
    (type, _add_class),
    (types.FunctionType, _add_function),
    (types.MethodType, _add_method),
    (functools.partial, _add_partial),
    ((staticmethod, classmethod), _add_wrapper),
    (property, _add_property),
    (types.ModuleType, _add_name),
    ((types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType), _add_name),
    ((weakref.ref, types.GetSetDescriptorType, types.MemberDescriptorType), _add_nothing),
)


def _is_installed(code: Any) -> bool:
    """Whether a class or function comes from an installed package, Python itself or this one."""
    return _installed_module(getattr(code, "__module__", None) or "")


@functools.lru_cache(maxsize=4096)
def _installed_module(name: str) -> bool:
    if name.split(".")[0] in sys.stdlib_module_names and name != "__main__":
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return False
    path = Path(file).resolve()
    return path.is_relative_to(_HOME) or not _FOLDERS.isdisjoint(path.parts)
