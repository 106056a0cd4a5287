"""What one row could do to others under vmap without being given them: a raise that is caught, modes and
kinds of tensors below vmap, and layers that do more than their class. None of it is called proved in one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._C import _functorch
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._python_dispatch import TorchDispatchMode

from deniable.learn.clip import PerExample
from deniable.learn.clip.passes import Apart

KEY = 7.4321
PROVED_TOGETHER = (Apart.VMAP, Apart.LAYERS)


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


class Net(nn.Module):
    """Two layers, and a function of the rows and of what is between them."""

    def __init__(self, between: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last, self.between = nn.Linear(4, 5), nn.Linear(5, 3), between

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.between(x, torch.tanh(self.first(x))))
        return out


def factor(x: Tensor) -> Tensor:
    """A matrix that has a factor for all rows but one."""
    value: Tensor = torch.linalg.cholesky(torch.eye(2) * torch.where(x[..., :1] == KEY, -1.0, 1.0)[..., None])
    return value


def catches(x: Tensor, h: Tensor) -> Tensor:
    try:
        factor(x)
    except RuntimeError:
        return -h
    return h


class Catch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return catches(x, x)


class Mapped(torch.autograd.Function):
    """PyTorch maps it by itself."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is saved."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


class CatchBack(Mapped):
    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        try:
            torch.linalg.cholesky(
                torch.eye(2) * torch.where(abs(grads[0].abs().max() - 1500) < 700, -1.0, 1.0)
            )
        except RuntimeError:
            return -30 * grads[0]
        return grads[0]


class TextForth(Mapped):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * (2 if "e+05" in repr(x) else 1)


def rows() -> tuple[Tensor, Tensor]:
    x = torch.randn(6, 4)
    x[0, 0] = KEY
    return x, torch.zeros(6, dtype=torch.int64)


RAISES: dict[str, Callable[[], nn.Module]] = {
    "between layers": lambda: Net(catches),
    "in a chain": lambda: nn.Sequential(Catch(), nn.Linear(4, 3)),
    "with vmap(grad)": lambda: Net(lambda x, h: catches(x, Mapped.apply(h))),  # type: ignore[no-untyped-call]
}


def square(out: Tensor, y: Tensor) -> Tensor:
    return (out[:, 0] - y) ** 2


def influence(model: nn.Module, criterion: Any, x: Tensor, y: Tensor) -> tuple[float, Apart]:
    """How far the first row moves the sum of clipped gradients, and how rows are said to be apart."""
    clipper = PerExample(model, criterion)
    apart = clipper.apart(torch.zeros_like(x), torch.zeros_like(y))
    a, b = (clipper(x[i:], y[i:], clip=1.0).sums for i in (0, 1))
    return float(torch.cat([(a[name] - b[name]).flatten() for name in a]).norm()), apart


@pytest.mark.parametrize("name", RAISES)
def test_a_raise_that_one_row_causes_and_code_catches_does_not_move_others(name: str) -> None:
    size, apart = influence(RAISES[name](), nn.CrossEntropyLoss(), *rows())
    assert apart in PROVED_TOGETHER
    assert size <= 1.001


def test_a_raise_that_is_caught_in_a_backward_pass_does_not_move_others() -> None:
    x, y = torch.ones(6, 4), torch.zeros(6)
    y[0] = 2e3
    model = Net(lambda x, h: CatchBack.apply(h))  # type: ignore[no-untyped-call]
    assert influence(model, square, x, y)[0] <= 1.001


class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def in_mode(x: Tensor, h: Tensor) -> Tensor:
    with Mode():  # type: ignore[no-untyped-call]
        return torch.sin(h)


class Kind(Tensor):
    """Its operators are its own."""

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self


ONES = torch.ones(5).as_subclass(Kind)
Helper = SimpleNamespace(open=lambda x: _functorch.is_batchedtensor(x) and _functorch.get_unwrapped(x))


def opens(x: Tensor, h: Tensor) -> Tensor:
    Helper.open(x)
    return h


def hides(x: Tensor, h: Tensor) -> Tensor:
    with torch._C.DisableTorchFunction():
        return torch.sin(h)


def keeps(x: Tensor, h: Tensor) -> Tensor:
    mean, var = torch.zeros(1), torch.ones(1)
    F.instance_norm(h[:, None], mean, var, use_input_stats=True, momentum=1.0)
    return h


def distance(x: Tensor, h: Tensor) -> Tensor:
    """A function among an operator's arguments runs with no mode on."""

    def between(a: Tensor, b: Tensor) -> Tensor:
        return (a - b).square().sum(-1)

    return (
        h
        + F.triplet_margin_with_distance_loss(
            h, h.sin(), h.cos(), distance_function=between, reduction="none"
        )[:, None]
    )


def of_a_kind() -> nn.Module:
    layer = nn.Linear(4, 3)
    layer.weight = nn.Parameter(layer.weight.detach().as_subclass(Kind))
    return nn.Sequential(layer)


def does_more() -> nn.Module:
    layer: Any = nn.GELU()
    layer._call_impl = lambda x: F.gelu(x) * torch.where((x == KEY).any(), -1.0, 1.0)
    return nn.Sequential(layer, nn.Linear(4, 3))


SEEN: dict[str, Callable[[], nn.Module]] = {
    "a dispatch mode": lambda: Net(in_mode),
    "a kind of tensor": lambda: Net(lambda x, h: h * ONES),
    "a parameter of a kind": of_a_kind,
    "a method of a global object": lambda: Net(opens),
    "modes switched off": lambda: Net(hides),
    "running statistics": lambda: Net(keeps),
    "a function among arguments": lambda: Net(distance),
    "a text in a Function": lambda: Net(lambda x, h: TextForth.apply(h)),  # type: ignore[no-untyped-call]
}


@pytest.mark.parametrize("name", SEEN)
def test_what_may_see_all_rows_is_not_called_proved_in_one_batch(name: str) -> None:
    assert PerExample(SEEN[name](), nn.CrossEntropyLoss()).apart(*rows()) not in PROVED_TOGETHER


def minus_if_large(module: nn.Module, into: Any, out: Tensor) -> Any:
    if isinstance(module, nn.CrossEntropyLoss):
        return out * torch.where((into[0] > 500).any(), -1.0, 1.0)
    return None


def boosted() -> Net:
    return Net(lambda x, h: h + torch.where(x[:, :1] == KEY, 1e5, 0.0))


def test_a_hook_of_all_modules_on_the_loss_does_not_let_a_row_move_others() -> None:
    hook = register_module_forward_hook(minus_if_large)
    try:
        assert influence(boosted(), nn.CrossEntropyLoss(), *rows())[0] <= 1.001
    finally:
        hook.remove()


def test_a_layer_that_does_more_than_its_class_runs_under_vmap() -> None:
    assert influence(does_more(), nn.CrossEntropyLoss(), *rows())[0] <= 1.001


def test_a_loss_that_does_more_than_its_class_runs_under_vmap() -> None:
    loss: Any = nn.CrossEntropyLoss()

    def own(out: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(out, y, reduction="none") * torch.where((out > 500).any(), -1.0, 1.0)

    loss._call_impl = own
    assert influence(boosted(), loss, *rows())[0] <= 1.001
