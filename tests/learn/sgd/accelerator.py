"""A made-up accelerator: tensors that say they are on the device "far" and compute on the CPU.

    python -m tests.learn.sgd.accelerator "Sequential float" "Pictures grid"

An operation on tensors of both devices raises, as it does on a real one (numbers without axes aside). So what a
training run does on it is what it would do on any device, and its results can be compared with the CPU's.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from deniable.learn.sgd.training.trainer import Trainer, shown
from deniable.randomness import SeededRandom
from tests.learn.sgd.runs import run_of

NAME = "far"


class Backend:
    """What torch asks of a device's module: one device, and a generator of its own."""

    seeds: ClassVar[list[int]] = []

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def current_device() -> int:
        return 0

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        cls.seeds.append(seed)

    @staticmethod
    def get_rng_state(device: object = None) -> Tensor:
        return torch.zeros(8, dtype=torch.uint8)

    @staticmethod
    def set_rng_state(state: Tensor, device: object = None) -> None:
        return


FAR = torch.device("privateuseone", 0)
"""Torch's place for such devices, which `main` gives its name: a process that only reads this file has no new device."""
aten = torch.ops.aten
MOVES = {aten._to_copy.default, aten.copy_.default, aten._local_scalar_dense.default, aten.set_.source_Tensor}


class FarTensor(Tensor):
    """A tensor of the accelerator: `near` holds its numbers."""

    near: Tensor

    @staticmethod
    def __new__(cls, near: Tensor, requires_grad: bool = False) -> FarTensor:
        made: FarTensor = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            near.shape,
            strides=near.stride(),
            storage_offset=near.storage_offset(),
            dtype=near.dtype,
            device=FAR,
            requires_grad=requires_grad,
        )
        made.near = near
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Do on the CPU what is asked of the accelerator, if all tensors are on it."""
    tensors: list[Tensor] = []
    own = [_near(value, tensors) for value in args]
    options = {name: _near(value, tensors) for name, value in kwargs.items()}
    known = {id(value.near): value for value in tensors if isinstance(value, FarTensor)}
    asked = torch.device(kwargs["device"]).type if kwargs.get("device") is not None else None
    if known and func not in MOVES:
        for value in tensors:
            if not isinstance(value, FarTensor) and value.dim():
                raise RuntimeError(f"{func}: Expected all tensors to be on the same device, {NAME} and cpu.")
    if asked is not None:
        options["device"] = torch.device("cpu")
    result = func(*own, **options)
    if asked == "cpu" or (asked is None and not known):
        return result
    if func is aten.copy_.default and not isinstance(args[0], FarTensor):
        return args[0]
    return _far(result, known)


def _near(value: Any, tensors: list[Tensor]) -> Any:
    """An argument as the CPU takes it; its tensors are added to `tensors` as they came."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return value.near if isinstance(value, FarTensor) else value
    if isinstance(value, list | tuple):
        return [_near(part, tensors) for part in value]
    return value


def _far(value: Any, known: dict[int, FarTensor]) -> Any:
    """A result on the accelerator: one that was changed in place is the tensor that was given."""
    if isinstance(value, Tensor):
        return known[id(value)] if id(value) in known else FarTensor(value)
    if isinstance(value, list | tuple):
        return type(value)(_far(part, known) for part in value)
    return value


class Accelerator(TorchDispatchMode):
    """While it is entered, tensors can be made on "far" and moved there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if FarTensor not in types and options.get("device") is None:
            return func(*args, **options)  # the CPU's own: most of what a trial does
        return _run(func, args, options)


class Words(nn.Module):
    """A table of words and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, ids: Tensor) -> Tensor:
        words = self.table(ids)
        out: Tensor = self.head(self.attention(words, words, words, need_weights=False)[0].mean(1))
        return out


class Pictures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.head = nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.norm(self.first(x)).relu().mean((2, 3)))
        return out


def trained(model: nn.Module, data: tuple[Tensor, Tensor], **options: Any) -> list[Tensor]:
    """The weights after two steps, on the CPU."""
    settings = {
        "n": 40,
        "lot": 36,  # smaller lots are tried in several batches
        "steps": 2,
        "learning_rate": 0.5,
        "noise_multiplier": 0.5,
        "progress": False,
    }
    run = run_of(model, nn.CrossEntropyLoss(), **settings, **options)
    run.check(data)
    assert all("alone" not in way.run.__name__ for way in run.checked.ways.values())
    trainer = Trainer.fresh(run, SeededRandom(5))
    rows = run.rows(data)
    for _ in range(2):
        trainer.walk(rows)
    assert all(p.device == run.device for p in trainer.model.parameters())
    assert sum(shown(trainer.seen)[1:]) == shown(trainer.seen)[1] > 0
    return [p.detach().cpu() for p in trainer.result().model.parameters()]


MODELS = "Sequential", "Pictures", "Words"
KINDS = "float", "grid"


def make(name: str) -> tuple[nn.Module, Tensor]:
    """A model and rows for it."""
    if name == "Pictures":
        return Pictures(), torch.randn(40, 2, 6, 6)
    if name == "Words":
        return Words(), torch.randint(0, 11, (40, 4))
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)), torch.randn(40, 5)


def main(cases: list[str]) -> None:
    _setup_privateuseone_for_python_backend(NAME, backend_module=Backend())
    torch.manual_seed(0)
    labels = torch.randint(0, 3, (40,))
    for case in cases:
        name, kind = case.split()
        model, x = make(name)
        near = trained(model, (x, labels), grid=kind == "grid")
        seeds = len(Backend.seeds)
        with Accelerator():
            far = trained(model, (x, labels), grid=kind == "grid", device=NAME)
        assert len(Backend.seeds) > seeds, "the device's generator has no secret seed"
        same = all(torch.allclose(a, b, atol=1e-6) for a, b in zip(near, far, strict=True))
        moved = any(not torch.equal(a, p.detach()) for a, p in zip(far, model.parameters(), strict=True))
        sys.stdout.write(f"{case} {'same' if same and moved else 'different'}\n")
    with Accelerator():
        model, x = make("Sequential")
        try:
            model.to(FAR)(x)
        except RuntimeError as error:
            sys.stdout.write("mixed\n" if "same device" in str(error) else str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
