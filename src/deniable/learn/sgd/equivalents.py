"""What the arguments of Opacus are called here: who types one of them is told, not left with a bare
TypeError."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ParamSpec, TypeVar

EQUIVALENTS = {
    "target_epsilon": "Privacy(epsilon=…)",
    "target_delta": "Privacy(delta=…)",
    "max_grad_norm": "Privacy(clip=…)",
    "batch_size": "Lots(lot=…), the expected number of rows in a lot",
    "sample_rate": "Lots(rate=…)",
    "data_loader": "the data of account.run(run, data) or make_private(run, optimizer, data, account=…)",
    "lr": "Learning(learning_rate=…)",
    "poisson_sampling": "always so",
    "secure_mode": "always so; Privacy(grid=True) draws exact integers",
    "max_physical_batch_size": "Execution(microbatch=…)",
}
Kind = TypeVar("Kind")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


OF_THE_RUN = {
    "module": "the model of run=DPSGD(model, criterion, …)",
    "criterion": "that of run=DPSGD(model, criterion, …)",
    "noise_multiplier": "Privacy(noise_multiplier=…) of the run",
    "epochs": "Lots(epochs=…) of the run",
    "epsilon": "Privacy(epsilon=…) of the run",
    "delta": "Privacy(delta=…) of the run",
    "noise_generator": "rng=…",
}
"""What belongs to the run where a function takes one."""


def of_a_run(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let a function that takes a run refuse the names of Opacus with what they are here.

    >>> @of_a_run
    ... def make(run, data):
    ...     return run
    >>> make(module=None, max_grad_norm=1.0)
    Traceback (most recent call last):
    TypeError: make has no argument module. Here it is the model of run=DPSGD(model, criterion, …); see ...
    """

    @functools.wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        for name in kwargs:
            if (here := (OF_THE_RUN | EQUIVALENTS).get(name)) is not None:
                raise TypeError(
                    f"{function.__name__} has no argument {name}. Here it is {here}; "
                    'see "Coming from Opacus".'
                )
        return function(*args, **kwargs)

    return call


def with_equivalents(
    kind: type[Kind],
    values: tuple[type, ...] = (),
    others: Mapping[str, str] = EQUIVALENTS,
    page: str = "Coming from Opacus",
) -> type[Kind]:
    """Let a class refuse the names of Opacus with what they are here, and the fields of the `values` that it
    takes.

    >>> @with_equivalents
    ... class Settings:
    ...     def __init__(self, clip=1.0):
    ...         self.clip = clip
    >>> Settings(max_grad_norm=1.0)
    Traceback (most recent call last):
    TypeError: Settings has no argument max_grad_norm. Here it is Privacy(clip=…); see "Coming from Opacus".
    """
    original: Any = vars(kind)["__init__"]
    own = {field.name: f"{value.__name__}({field.name}=…)" for value in values for field in fields(value)}
    here = {**others, **own}

    @functools.wraps(original)
    def init(self: Kind, *args: Any, **kwargs: Any) -> None:
        for name in kwargs.keys() & here.keys():
            raise TypeError(f'{kind.__name__} has no argument {name}. Here it is {here[name]}; see "{page}".')
        original(self, *args, **kwargs)

    type.__setattr__(kind, "__init__", init)
    return kind
