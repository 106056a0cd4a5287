"""What the code between layers may not do in a pass that many rows share: act on gradients by itself.

A backward pass of one's own, or a hook, sees the gradients of all rows at once and may mix them without a
word in the losses, for values that no trial has. So they end the pass, and rows go through the model one by
one, where there is nothing to mix. This is looked at in every pass, since a model may branch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial, wraps
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch._functorch.autograd_function import custom_function_call
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode

from deniable.learn.clip.closed_forms.tape import Uncovered
from deniable.learn.clip.known import KINDS, is_plain
from deniable.learn.nests import tensors

HOOKS = frozenset(
    {
        Tensor.register_hook,
        Tensor.register_post_accumulate_grad_hook,
        cast(Any, Tensor).grad_fn.__get__,  # nodes of the graph take hooks too
    }
)
TEXTS = frozenset({Tensor.__repr__, Tensor.__format__})
"""A text shows the rows of all examples, also under vmap."""
LIBRARIES = ("torch.", "transformers.", "deniable.learn.", "numpy.", "builtins")
"""Code that is not looked through: none of it opens vmap for the rows of a model."""
TRUSTED_PLACES = ("deniable.learn.clip.", "torch.nn.modules.")
"""Where functions with a backward pass of their own are known to keep rows apart."""
OWN_BACKWARD = "the model has a backward pass of its own"
SHOWS_ROWS = "the model's code writes the numbers of a tensor as text"
HAS_HOOKS = "the model has hooks on gradients"
FOREIGN = "the model calls an operator that is not PyTorch's"
HAS_RAISED = "an operator raised for rows of a batch, which one of them may have caused"
HAS_MODES = "the model's code sets up modes of its own for the operators of PyTorch"
HAS_KINDS = "the model gives an operator what brings code of its own"
CONTAINERS = frozenset({list, tuple, dict, set, torch.Size})
OPENS_VMAP = "the model's code opens what vmap keeps apart"
OPENERS = frozenset(
    {
        "get_unwrapped", "_unwrap_batched", "_unwrap_for_grad", "_remove_batch_dim", "unwrap_batched",
        "pop_dynamic_layer_stack", "retrieve_current_functorch_interpreter", "coerce_cinterpreter",
        "peek_interpreter_stack", "get_interpreter_stack",
        "pop_dynamic_layer_stack_and_undo_to_depth", "temporarily_pop_interpreter_stack",
        "temporarily_clear_interpreter_stack", "temporarily_restore_interpreter_stack",
        "DisableTorchFunction", "DisableTorchFunctionSubclass", "_DisableFuncTorch",
        "_pop_mode_temporarily", "_pop_mode", "_pop_torch_function_stack", "_disabled_torch_function_impl",
        "_ExcludeDispatchKeyGuard", "_ForceDispatchKeyGuard", "_AutoDispatchBelowAutograd", "redispatch",
    }
)  # fmt: skip
"""Functions of `torch._C` and around it, by which code under vmap would see all rows, or be unwatched."""


def refuse_openers(model: nn.Module, criterion: object) -> None:
    """Raise `Uncovered` if code of the model or of the criterion, or code that it names, names one of
    PyTorch's own functions that take tensors under vmap apart. No call shows them."""
    todo: list[Any] = [criterion]
    for module in model.modules():
        todo += [type(module), *vars(module).values()]
    visits: dict[int, Any] = {}  # held, since another value may come to the address of one that is gone
    while todo:
        value = todo.pop()
        if id(value) in visits:
            continue
        visits[id(value)] = value
        if _is_opener(value):
            raise Uncovered(OPENS_VMAP)
        todo += _named_by(value)


def _is_opener(value: Any) -> bool:
    code = _read(value, "__code__")
    names = code.co_names if isinstance(code, CodeType) and not _is_library(value) else ()
    is_one = _name(value) in OPENERS and _is_library(value)
    return is_one or not OPENERS.isdisjoint(names)


def _name(value: Any) -> str:
    name = _read(value, "__name__")
    return name if isinstance(name, str) else ""


def _named_by(value: Any) -> list[Any]:
    """What a value names or holds: a function's globals, defaults and closure, a class's methods, an object's
    class and attributes."""
    match value:
        case FunctionType() if not _is_library(value):
            cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
            inner = [each for each in value.__code__.co_consts if isinstance(each, CodeType)]
            functions = [FunctionType(code, value.__globals__, closure=_cells(code)) for code in inner]
            defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
            return [*cells, *functions, *defaults, *vars(value).values(), *_globals_of(value)]
        case MethodType():
            return [value.__func__, value.__self__]
        case staticmethod() | classmethod():
            return [value.__func__]
        case property():
            return [value.fget, value.fset]
        case partial():
            return [value.func, *value.args, *value.keywords.values()]
        case type() if not _is_library(value):
            return [
                each for owner in value.__mro__ if not _is_library(owner) for each in vars(owner).values()
            ]
        case nn.Module():
            return [type(value), *vars(value).values()]
        case dict():
            return [*value.values()]
        case list() | tuple() | set() | frozenset():
            return [*value]
        case type() | ModuleType() | Tensor() | FunctionType():
            return []
    return [] if _is_library(type(value)) else [type(value), *(_read(value, "__dict__") or {}).values()]


def _globals_of(function: FunctionType) -> list[Any]:
    """The globals that a function names, and what it names in modules, imported by itself or around it."""
    names = function.__code__.co_names
    values = [function.__globals__[name] for name in names if name in function.__globals__]
    values += [sys.modules[name] for name in names if name in sys.modules]
    for value in values:  # grows: a module may name another
        if isinstance(value, ModuleType) and not f"{value.__name__}.".startswith(LIBRARIES):
            own = vars(value)
            values += [own[name] for name in names if name in own and not _is_in(own[name], values)]
    return values


def _is_in(value: Any, values: list[Any]) -> bool:
    return any(value is each for each in values)


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _cells(code: CodeType) -> tuple[CellType, ...]:
    return tuple(CellType() for _ in code.co_freevars)


def _is_library(value: Any) -> bool:
    return str(_read(value, "__module__")).startswith(LIBRARIES)


def _read(value: Any, name: str) -> Any:
    """An attribute, past the `__getattr__` of a class of somebody's, which may do anything; None without
    it."""
    reader = type if isinstance(value, type) else object
    try:
        return reader.__getattribute__(value, name)
    except AttributeError:
        return None


def refuse_call(func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Raise `Uncovered` for a call by which gradients of many rows, or their values, come into other
    hands: a hook, an operator of a library, a `Function` that says itself what it does with many rows."""
    if func in HOOKS:
        raise Uncovered(HAS_HOOKS)
    if func in TEXTS:
        raise Uncovered(SHOWS_ROWS)
    if isinstance(func, OpOverload | OpOverloadPacket) and not str(func).startswith(("aten.", "prims.")):
        raise Uncovered(FOREIGN)
    if isinstance(func, HigherOrderOperator) and not _maps_by_rule(func, args):
        raise Uncovered(OWN_BACKWARD)


def refuse_arguments(func: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Raise `Uncovered` for arguments that bring code of their own."""
    # A `Function` may be given anything: its own code runs in a guard (`guard_code`).
    is_fit = is_plain if func is custom_function_call else is_known
    if not all(map(is_fit, args)) or not all(map(is_fit, options.values())):
        raise Uncovered(HAS_KINDS)


def is_known(value: Any) -> bool:
    """Whether an argument brings no code of its own to an operator, where no mode is on any more."""
    if isinstance(value, type):
        return _is_of_libraries(value)
    kind = type(value)
    if kind in CONTAINERS:
        return all(map(is_known, value.values() if kind is dict else value))
    if kind is slice:
        return all(map(is_known, (value.start, value.stop, value.step)))
    return kind in KINDS or _is_known_kind(cast(Hashable, kind))


@lru_cache(maxsize=1024)
def _is_known_kind(kind: Any) -> bool:
    """Numbers, words, settings of PyTorch and arrays; no subclass of a tensor, and nothing to be called."""
    is_called = any("__call__" in vars(base) for base in kind.__mro__)
    return _is_of_libraries(kind) and not is_called and not issubclass(kind, Tensor)


def _is_of_libraries(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("builtins", "torch", "numpy")


def _maps_by_rule(func: HigherOrderOperator, args: tuple[Any, ...]) -> bool:
    """Whether this is a `Function` that PyTorch itself runs for many rows, both ways under vmap."""
    return func is custom_function_call and bool(args) and bool(args[0].generate_vmap_rule)


def refuse_kinds(model: nn.Module, rows: Any) -> None:
    """Raise `Uncovered` if a tensor of the model or of the rows is of a kind of its own: taps and PyTorch's
    layers run its code on all rows."""
    if not all(map(is_plain, (*model.parameters(), *model.buffers(), *tensors(rows)))):
        raise Uncovered(HAS_KINDS)


def refuse_own_backward(result: Tensor) -> None:
    """Raise `Uncovered` if the graph of a result has a node whose backward pass is neither PyTorch's nor
    ours. A module with backward hooks has one (`BackwardHookFunction`, which is elsewhere in PyTorch)."""
    stack, nodes = [result.grad_fn], set[Any]()
    while stack:
        node: Any = stack.pop()
        if node is None or node in nodes:
            continue
        nodes.add(node)
        if isinstance(node, BackwardCFunction):
            forward_class: Any = cast(Any, type(node))._forward_cls
            if not forward_class.__module__.startswith(TRUSTED_PLACES):
                raise Uncovered(OWN_BACKWARD)
        stack += [following for following, _ in node.next_functions]


class Watch(TorchFunctionMode):
    """While it is entered, calls that act on gradients end the pass, and it is remembered whether one raised.

    Under vmap an operator raises for all rows where it would for one. Code that catches this goes on with a
    branch that one row has chosen for the others, so a pass in which a call raised is none, caught or not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.has_failed = False
        self.depth = torch._C._len_torch_dispatch_stack()
        """Dispatch modes around the pass, which are not the model's."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            options = kwargs or {}
            self.refuse_modes()
            refuse_call(func, args)
            refuse_arguments(func, args, options)
            return self.call(func, _guard_function(func, args), options)
        except BaseException:  # raised again: any row may steer it, so it ends the pass of all of them
            self.has_failed = True
            raise

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """What is done with a call that is not refused."""
        return func(*args, **options)

    def refuse_modes(self) -> None:
        """Raise `Uncovered` under a dispatch mode of the model's: it is below vmap and sees all rows."""
        if torch._C._len_torch_dispatch_stack() != self.depth:
            raise Uncovered(HAS_MODES)

    def finish(self) -> None:
        """Raise `Uncovered` if a call of the pass raised, whatever the model made of it."""
        self.refuse_modes()
        if self.has_failed:
            raise Uncovered(HAS_RAISED)


class GradientGuard(Watch):
    """A watch over code that runs under vmap, or on gradients, without taps."""


def _guard_function(func: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a call, with a `Function` that PyTorch maps replaced by one that is watched."""
    return (guard_code(args[0]), *args[1:]) if func is custom_function_call else args


@lru_cache(maxsize=256)
def guard_code(function: Any) -> Any:
    """A `Function` whose own code runs in a guard: no mode is on while PyTorch runs it, forward or back."""
    names = ("forward", "setup_context", "backward")
    methods = {name: staticmethod(_in_guard(getattr(function, name))) for name in names}
    return type(function)(function.__name__, (function,), {**methods, "__module__": function.__module__})


def _in_guard(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def run(*args: Any, **options: Any) -> Any:
        with watch(GradientGuard()):
            return method(*args, **options)

    return run


@contextmanager
def watch(guard: Watch) -> Iterator[None]:
    """Code under a watch, which must have let every call through, and have left no mode behind."""
    functions = torch._C._len_torch_function_stack()
    with guard:
        yield
        if torch._C._len_torch_function_stack() != functions + 1:
            raise Uncovered(HAS_MODES)
    guard.finish()


@contextmanager
def without_saved_hooks() -> Iterator[None]:
    """Hooks on what autograd saves see all rows; to set one raises."""
    with torch.autograd.graph.disable_saved_tensors_hooks(HAS_HOOKS):
        yield


@contextmanager
def model_guard() -> Iterator[None]:
    """A part of a pass in which the model's own code runs."""
    with without_saved_hooks(), watch(GradientGuard()):
        yield
