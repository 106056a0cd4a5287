"""What is refused by the look of a model or a criterion, before any data is seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from deniable.errors import InvalidParameter
from deniable.learn.clip.closed_forms.cover import BATCH_NORM
from deniable.learn.clip.known import OWN_CALLS
from deniable.learn.clip.rounding import LEAST_CLIP, MOST_CLIP

ALL = "all"

COMPILED = (
    "{} is compiled, and what is compiled cannot be looked into; nothing was trained. Give the module that "
    "torch.compile was given (model._orig_mod), and compile what was trained afterwards."
)
SCRIPTED = (
    "{} is scripted, and what is scripted cannot be looked into; nothing was trained. Give the module that "
    "torch.jit was given, and script what was trained afterwards."
)
RUNNING = (
    "{} keeps running statistics of the data, without noise; nothing was trained. Build it with "
    "track_running_stats=False."
)
SPECTRAL = (
    "{} has spectral_norm, which rewrites its own vectors at every forward pass; nothing was trained. "
    "Remove it (torch.nn.utils.parametrize.remove_parametrizations), or put that layer in eval mode and "
    "freeze it."
)
REWRITTEN = (
    "{} has max_norm, which rewrites its table by the rows looked up, or scale_grad_by_freq, which mixes "
    "examples; nothing was trained. Build it without either."
)


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, each under its first name."""
    if lazy := [name for name, p in model.named_parameters() if isinstance(p, UninitializedParameter)]:
        raise InvalidParameter(
            f"The parameter {lazy[0]!r} has no shape yet: its layer is lazy; nothing was trained. Run the "
            "model once on a made-up row first."
        )
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not parameters:
        raise InvalidParameter(
            "Expected a model with a parameter that requires a gradient; there is none to train."
        )
    kinds = {p.dtype for p in parameters.values()}
    if len(kinds) > 1 or not kinds <= {torch.float32, torch.float64, torch.bfloat16}:
        raise InvalidParameter(
            "Expected trainable parameters all in float32, float64 or bfloat16, got "
            f"{sorted(map(str, kinds))}. Use model.float() or model.bfloat16()."
        )
    return parameters


def refuse(model: nn.Module) -> None:
    """Raise for the modules that no method can clip."""
    for name, module in model.named_modules():
        why = _reason_against(module)
        if why:
            raise InvalidParameter(why.format(f'The layer "{name}" ({type(module).__name__})'))


def _reason_against(module: nn.Module) -> str:
    """Why a module cannot be clipped, with a place for its name, or nothing."""
    if hasattr(module, "_orig_mod") or module._compiled_call_impl is not None:
        return COMPILED
    is_moving = module.training or any(p.requires_grad for p in module.parameters(recurse=False))
    match module:
        case torch.jit.ScriptModule():
            return SCRIPTED
        case _BatchNorm() if is_moving or not module.track_running_stats:
            return BATCH_NORM
        case _InstanceNorm() if is_moving and module.track_running_stats:
            return RUNNING
        case nn.Embedding() | nn.EmbeddingBag() if module.max_norm is not None or module.scale_grad_by_freq:
            return REWRITTEN
    return SPECTRAL if module.training and _is_spectral(module) else ""


def _is_spectral(module: nn.Module) -> bool:
    """By its kind, not by a trial: whether a pass changes the vectors is luck at the
    weights that a model begins with."""
    hooks = module._forward_pre_hooks.values()
    return isinstance(module, _SpectralNorm) or any(isinstance(hook, SpectralNorm) for hook in hooks)


def in_training(model: nn.Module) -> nn.Module:
    """The model in train mode, but for its frozen parts, which keep the mode that they have.

    A part is frozen if it has parameters or buffers and none of them is trained: batch norm of a network that
    is only read, with its statistics, which count as public. What has neither (dropout, activations) goes
    with the part that it is in.
    """
    modes = {name: module.training for name, module in model.named_modules()}
    model.train()
    for name, module in model.named_modules():
        tensors = [*module.parameters(), *module.buffers()]
        if tensors and not any(value.requires_grad for value in tensors):
            for inner, each in module.named_modules(prefix=name):
                each.training = modes[inner]
    return model


def grouping(groups: Mapping[str, Sequence[str]] | None, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Groups that hold every trainable parameter once."""
    members = {ALL: tuple(names)} if groups is None else {str(g): tuple(own) for g, own in groups.items()}
    entries = [name for own in members.values() for name in own]
    if sorted(entries) != sorted(names):
        missing, unknown = sorted(set(names) - set(entries)), sorted(set(entries) - set(names))
        twice = sorted({name for name in entries if entries.count(name) > 1})
        raise InvalidParameter(
            f"Expected every trainable parameter in exactly one group; missing: {missing}, not trainable: "
            f"{unknown}, repeated: {twice}."
        )
    return members


def clips(clip: Mapping[str, float] | float, groups: Sequence[str]) -> dict[str, float]:
    """A bound for each group."""
    if not isinstance(clip, Mapping) and len(groups) > 1:
        raise InvalidParameter(
            f"Expected one clip for each of the groups {list(groups)}, got clip={clip!r} alone."
        )
    bounds = dict(clip) if isinstance(clip, Mapping) else {groups[0]: clip}
    if sorted(bounds) != sorted(groups):
        raise InvalidParameter(
            f"Expected a clip for each of the groups {list(groups)}, got {sorted(bounds)}."
        )
    for name, value in bounds.items():
        if not LEAST_CLIP <= value <= MOST_CLIP:
            raise InvalidParameter(
                f"Expected clip={value!r} of the group {name!r} in [{LEAST_CLIP:g}, {MOST_CLIP:g}]."
            )
    return {name: float(value) for name, value in bounds.items()}


def conduct(model: nn.Module) -> tuple[object, ...]:
    """What a model does to its rows, as far as it can be seen without running it: its modules, their classes
    and modes, their hooks and those of all modules, whether they are compiled, and `forward`, of the class
    and where an object has its own. What was found on made-up rows holds for this."""
    everywhere = tuple(hook for hooks in _hooks_of_all() for hook in hooks.values())
    return everywhere + tuple(
        (
            id(module),
            type(module),
            type(module).forward,
            module.training,
            *(vars(module).get(name) for name in OWN_CALLS),
            *module._forward_hooks.values(),
            *module._forward_pre_hooks.values(),
            *module._backward_hooks.values(),
            *module._backward_pre_hooks.values(),
        )
        for module in model.modules()
    )


def _hooks_of_all() -> tuple[dict[int, Callable[..., object]], ...]:
    """Hooks that torch runs for every module (`register_module_forward_hook` and its like)."""
    return (
        torch_module._global_forward_hooks,
        torch_module._global_forward_pre_hooks,
        torch_module._global_backward_hooks,
        torch_module._global_backward_pre_hooks,
    )
