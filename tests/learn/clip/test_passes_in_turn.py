"""Passes in turn: what one pass leaves behind bears on no later one, for every activation, norm, pooling and dropout
of torch.nn; and where a block raises, only rows that fail alone are left out."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import activation, batchnorm, dropout, instancenorm, normalization, pooling
from torch.utils.checkpoint import checkpoint

from deniable.errors import InvalidParameter
from deniable.learn.clip import Batch, PerExample
from deniable.learn.clip.closed_forms.tape import Saved, Uncovered
from deniable.learn.clip.passes import Passed, Task, alone, chained, closed
from deniable.learn.clip.workspace import ALIGNED, Workspace
from tests.learn.clip import naive

ROWS, CLASSES, PASSES = 8, 3, 4
CHANNELS, PLACES = 4, 4
NO_LAYER = {
    "MultiheadAttention": "three inputs: test_transformers.py",
    "MaxUnpool1d": "it needs the places of a pooling",
    "MaxUnpool2d": "it needs the places of a pooling",
    "MaxUnpool3d": "it needs the places of a pooling",
}
ARGUMENTS: dict[str, tuple[object, ...]] = {
    "GroupNorm": (1, CHANNELS),
    "LayerNorm": (CHANNELS,),
    "RMSNorm": (CHANNELS,),
    "LocalResponseNorm": (2,),
    "CrossMapLRN2d": (2,),
    "Threshold": (0.1, 0.0),
    "Softmax": (1,),
    "Softmin": (1,),
    "LogSoftmax": (1,),
    "GLU": (1,),
    "LPPool1d": (2, 2),
    "LPPool2d": (2, 2),
    "LPPool3d": (2, 2),
    "FractionalMaxPool2d": (2, 3),
    "FractionalMaxPool3d": (2, 2),
}
"""What a layer is made with where that is not its number of channels (norms), a window of 2 (poolings), or nothing."""
AXES = {"LocalResponseNorm": 2, "BatchNorm1d": 0}
"""The axes of places in a layer's input, where its name does not say."""


def _layers() -> dict[str, type[nn.Module]]:
    """All that these modules of torch define for users: a new layer joins by itself."""
    homes = (activation, batchnorm, dropout, instancenorm, normalization, pooling)
    return {
        name: value
        for home in homes
        for name, value in vars(home).items()
        if inspect.isclass(value) and value is getattr(nn, name, None) and value.__module__ == home.__name__
        and not name.startswith("Lazy") and name not in NO_LAYER
    }  # fmt: skip


def _layer(name: str) -> nn.Module:
    kind = _layers()[name]
    default = {batchnorm.__name__: (CHANNELS,), instancenorm.__name__: (CHANNELS,), pooling.__name__: (2,)}
    layer = kind(*ARGUMENTS.get(name, default.get(kind.__module__, ())))
    is_mixing = kind.__module__ == batchnorm.__name__
    return layer.eval().requires_grad_(False) if is_mixing else layer


def _shape(name: str) -> tuple[int, ...]:
    axes = AXES.get(name, int(name[-2]) if name.endswith(("1d", "2d", "3d")) else 0)
    return (CHANNELS, *[PLACES] * axes)


def _chain(name: str) -> nn.Sequential:
    """The layer twice between linear ones, frozen."""
    shape = _shape(name)
    parts: list[nn.Module] = [nn.Linear(5, math.prod(shape))]
    for width in (math.prod(shape), CLASSES):
        layer = _layer(name).requires_grad_(False)
        after = [nn.Unflatten(1, shape), layer, nn.Flatten()]
        inner = nn.Sequential(*after)(torch.zeros(2, math.prod(shape))).shape[1]
        parts += [*after, nn.Linear(inner, width)]
    return nn.Sequential(*parts)


class _Model(nn.Module):
    """No chain: the layer is trained and used twice, and what goes in is added to what comes out."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.shape, self.layer = _shape(name), _layer(name)
        width = math.prod(self.shape)
        inner = self.layer(torch.zeros(2, *self.shape)).flatten(1).shape[1]
        self.first, self.middle, self.last = (
            nn.Linear(5, width),
            nn.Linear(inner, width),
            nn.Linear(inner, CLASSES),
        )

    def forward(self, x: Tensor) -> Tensor:
        before = self.first(x)
        after = before + self.middle(self.layer(before.unflatten(1, self.shape)).flatten(1))
        out: Tensor = self.last(self.layer(after.unflatten(1, self.shape)).flatten(1))
        return out


def _is_random(model: nn.Module, x: Tensor) -> bool:
    start = torch.get_rng_state()
    model(x)
    return not torch.equal(start, torch.get_rng_state())


def _assert_all_used(model: nn.Module, run: Callable[..., object]) -> None:
    """Four passes of two blocks each, by a clipper that tries by itself and by one of a run, which has lots of a
    stated size: every row is used, and sums are those of rows alone by plain autograd."""
    torch.manual_seed(3)
    lots = [
        (torch.randn(ROWS, 5, dtype=torch.float64), torch.randint(0, CLASSES, (ROWS,))) for _ in range(PASSES)
    ]
    model.double()  # so that sums differ by no rounding that could hide a difference
    random = _is_random(model, lots[0][0])
    first = PerExample(model, nn.CrossEntropyLoss(), microbatch=ROWS // 2)
    first.check(*lots[0])
    runs = PerExample(model, nn.CrossEntropyLoss(), microbatch=ROWS - 3, ways=first.ways, lot=ROWS)
    ways = {way.run for way in first.ways.values()}
    assert ways == {run} or random, [way.reason for way in first.ways.values()]
    loss = nn.CrossEntropyLoss(reduction="none")
    for x, y in lots:
        expected = naive.gradients(model, loss, x, y)
        right = naive.clipped(expected, {"all": list(expected[0])}, {"all": 0.5})
        for clipper in (first, runs):
            got = clipper(x, y, clip=0.5)
            assert bool(torch.isfinite(got.norms["all"]).all())
            assert bool(torch.isfinite(got.losses).all())
            for name, total in right.items():
                assert random or torch.allclose(got.sums[name].double(), total, rtol=0, atol=1e-8), name


@pytest.mark.sampled(12)
@pytest.mark.parametrize("way", [chained, closed], ids=["in a chain", "in a model"])
@pytest.mark.parametrize("name", _layers())
def test_every_layer_of_torch_uses_all_rows_in_every_pass(name: str, way: Callable[..., object]) -> None:
    if way is chained:
        torch.manual_seed(1)
        _assert_all_used(_chain(name), chained)
    else:
        torch.manual_seed(2)
        _assert_all_used(_Model(name), closed)


# ----------------------------------------------------------------------------------------------- where a block raises


def _gelu() -> nn.Sequential:
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(5, 16), nn.GELU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, CLASSES))


def _lot(rows: int = 16) -> tuple[Tensor, Tensor]:
    torch.manual_seed(5)
    return torch.randn(rows, 5), torch.randint(0, CLASSES, (rows,))


def _alone(model: nn.Module, x: Tensor, y: Tensor) -> naive.Gradients:
    expected = naive.gradients(model, nn.CrossEntropyLoss(reduction="none"), x, y)
    return naive.clipped(expected, {"all": list(expected[0])}, {"all": 0.5})


class _Careless(Workspace):
    """Memory as it was once: all that passes take is views of one block, whoever holds them."""

    def take(self, shape: Sequence[int], like: Tensor) -> Tensor:
        size, start = math.prod(shape) * like.element_size(), self._used_bytes
        self._used_bytes += -(-size // ALIGNED) * ALIGNED
        if not hasattr(self, "views"):
            self.views = torch.empty(1 << 20, dtype=torch.uint8)
        return self.views[start : start + size].view(like.dtype).view(tuple(shape))


def test_a_trial_sees_memory_that_is_overwritten() -> None:
    """Trials have the memory of training: with careless memory the chain is not trusted, and rows go another way."""
    model, (x, y) = _gelu(), _lot()
    clipper = PerExample(model, nn.CrossEntropyLoss())
    clipper._task = replace(clipper._task, room=_Careless())
    clipper.check(x, y, lot=16)
    assert chained not in {way.run for way in clipper.ways.values()}
    for _ in range(PASSES):
        got = clipper(x, y, clip=0.5)
        assert bool(torch.isfinite(got.norms["all"]).all())
        for name, total in _alone(model, x, y).items():
            torch.testing.assert_close(got.sums[name].double(), total, rtol=0, atol=1e-5)


@pytest.mark.parametrize("lot", [None, 16.0])
def test_a_way_that_raises_for_no_fault_of_a_row_costs_no_row(lot: float | None) -> None:
    """Made-up rows raise there too, which one pass shows; then each row goes through the model alone."""
    model, (x, y) = _gelu(), _lot()
    first = PerExample(model, nn.CrossEntropyLoss())
    first.check(x, y)
    calls: list[int] = []

    def breaks(task: Task, batch: Batch) -> Passed:
        calls.append(batch.examples)
        raise RuntimeError("a fault of ours")

    ways = {shape: replace(way, run=breaks) for shape, way in first.ways.items()}
    clipper = PerExample(model, nn.CrossEntropyLoss(), ways=ways, lot=lot)
    got = clipper(x, y, clip=0.5)
    assert len(calls) == 2, "the block and made-up rows; no halves"
    assert bool(torch.isfinite(got.norms["all"]).all())
    for name, total in _alone(model, x, y).items():
        torch.testing.assert_close(got.sums[name].double(), total, rtol=0, atol=1e-5)


def test_a_row_that_fails_in_every_block_and_not_alone_is_used() -> None:
    model, (x, y) = _gelu(), _lot()
    first = PerExample(model, nn.CrossEntropyLoss())
    first.check(x, y)

    def picky(task: Task, batch: Batch) -> Passed:
        if bool((batch.rows[0] == x[11]).all(1).any()):
            raise RuntimeError("not this one")
        return chained(task, batch)

    clipper = PerExample(
        model,
        nn.CrossEntropyLoss(),
        ways={shape: replace(way, run=picky) for shape, way in first.ways.items()},
        lot=16,
    )
    for name, total in _alone(model, x, y).items():
        torch.testing.assert_close(clipper(x, y, clip=0.5).sums[name].double(), total, rtol=0, atol=1e-5)


def test_a_row_that_fails_alone_is_left_out_and_no_other() -> None:
    model, (x, y) = _gelu(), _lot()
    y[6] = CLASSES
    clipper = PerExample(model, nn.CrossEntropyLoss(), lot=16)
    clipper.check(x, y.clamp(max=CLASSES - 1), lot=16)
    others = torch.arange(16) != 6
    for _ in range(PASSES):
        got = clipper(x, y, clip=0.5)
        assert torch.equal(torch.isfinite(got.norms["all"]), others)
        for name, total in _alone(model, x[others], y[others]).items():
            torch.testing.assert_close(got.sums[name].double(), total, rtol=0, atol=1e-5)


def test_a_model_that_fails_on_made_up_rows_is_told_apart_from_rows_that_fail() -> None:
    model, (x, y) = _gelu(), _lot()
    clipper = PerExample(model, nn.CrossEntropyLoss(), lot=16)
    clipper.check(x, y, lot=16)
    assert not clipper.rehearse(Batch((x, y)), lot=16, clip=0.5).raised
    clipper(x, y + CLASSES, clip=0.5)
    assert not clipper.rehearse(Batch((x, y)), lot=16, clip=0.5).raised, (
        "rows that fail say nothing of the model"
    )
    model[0] = nn.Linear(7, 16)  # a model that was changed behind the clipper's back
    assert clipper.rehearse(Batch((x, y)), lot=16, clip=0.5).raised


def test_a_tensor_that_was_overwritten_is_not_used() -> None:
    x = torch.ones(3)
    saved = Saved(x[1:])
    assert saved.read().tolist() == [1, 1]
    x.zero_()
    with pytest.raises(Uncovered, match="was overwritten"):
        saved.read()


# ------------------------------------------------------------------------------------------- whoever holds a tensor


class _Squared(torch.autograd.Function):
    """It keeps its input by itself, where autograd does not count changes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return 2 * grads[0] * ctx.x


class _Halved(torch.autograd.Function):
    """It overwrites the gradient that it is given."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 0.5

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0].mul_(0.5)


class _By(nn.Module):
    """A function between layers."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class _Keeping(nn.Module):
    """It keeps all that it was given, and copies of it, where nobody puts them back."""

    def __init__(self, kept: list[tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.keep = lambda x: kept.append((x, x.detach().clone()))

    def forward(self, x: Tensor) -> Tensor:
        if not torch._C._functorch.is_functorch_wrapped_tensor(x):
            self.keep(x)
        return x


def _squared(x: Tensor) -> Tensor:
    out: Tensor = _Squared.apply(x)  # type: ignore[no-untyped-call]
    return out


def _halved(x: Tensor) -> Tensor:
    out: Tensor = _Halved.apply(x)  # type: ignore[no-untyped-call]
    return out


BETWEEN: dict[str, Callable[[Tensor], Tensor]] = {
    "keeps its input": _squared,
    "overwrites its gradient": _halved,
    "overwrites its input": lambda x: x.mul_(2),
    "writes to a view": lambda x: (x * 1).index_fill_(1, torch.tensor([0]), 0.5),
    "is a view": lambda x: x.view(len(x), 3, 4).transpose(1, 2).reshape(len(x), 12),
    "is checkpointed": lambda x: checkpoint(torch.tanh, x, use_reentrant=False),
}


ONE_BY_ONE = ("keeps its input", "overwrites its gradient", "is checkpointed")
"""A backward pass of one's own and hooks on what autograd saves see all rows of a batch."""


@pytest.mark.sampled
@pytest.mark.parametrize("is_chain", [True, False])
@pytest.mark.parametrize("name", BETWEEN)
def test_lots_of_changing_sizes_move_nothing_that_somebody_holds(name: str, is_chain: bool) -> None:
    """All rows are used, and what was kept or given out stays as it was."""
    torch.manual_seed(6)
    kept: list[tuple[Tensor, Tensor]] = []
    keeping = _Keeping(kept)
    layers = [
        nn.Linear(5, 12),
        keeping,
        _By(BETWEEN[name]),
        nn.Linear(12, 12),
        nn.GELU(),
        keeping,
        nn.Linear(12, CLASSES),
    ]
    model = nn.Sequential(*layers) if is_chain else type("Other", (nn.Sequential,), {})(*layers)
    model.double()
    clipper = PerExample(model, nn.CrossEntropyLoss(), microbatch=6)
    clipper.check(*_double(8), lot=8)
    is_inplace = name == "overwrites its input"  # a link of a chain may not
    way = chained if is_chain and not is_inplace else closed
    assert {each.run for each in clipper.ways.values()} == {alone if name in ONE_BY_ONE else way}
    kept.clear()
    given: list[tuple[Tensor, Tensor]] = []
    for rows in (8, 3, 13, 1, 8):
        x, y = _double(rows)
        got = clipper(x, y, clip=0.5)
        assert bool(torch.isfinite(got.norms["all"]).all())
        given += [(total, total.clone()) for total in got.sums.values()]
        for held, copy in (*([] if is_inplace else kept), *given):
            assert torch.equal(held, copy)
        for parameter, total in _alone(model, x, y).items():
            torch.testing.assert_close(got.sums[parameter], total, rtol=0, atol=1e-8)


def _double(rows: int) -> tuple[Tensor, Tensor]:
    x, y = _lot(rows)
    return x.double(), y


@pytest.mark.parametrize("way", [chained, closed])
def test_rows_that_were_made_in_inference_mode_are_used(way: Callable[..., object]) -> None:
    """Autograd saves no such tensor, so each of them would fail, alone too, for no fault of its own."""
    model = _gelu()
    if way is closed:
        model[0].register_forward_hook(lambda module, inputs, output: output * 2)
    x, y = _lot()
    with torch.inference_mode():
        made = x.clone(), y.clone()
    clipper = PerExample(model, nn.CrossEntropyLoss(), microbatch=8)
    got = clipper(*made, clip=0.5)
    assert {each.run for each in clipper.ways.values()} == {way}
    assert bool(torch.isfinite(got.norms["all"]).all())
    for name, total in _alone(model, x, y).items():
        torch.testing.assert_close(got.sums[name].double(), total, rtol=0, atol=1e-5)


def test_inside_inference_mode_nothing_is_taken_for_a_gradient_of_zero() -> None:
    clipper = PerExample(_gelu(), nn.CrossEntropyLoss())
    clipper(*_lot(), clip=0.5)
    with torch.inference_mode(), pytest.raises(InvalidParameter, match="Step outside"):
        clipper(*_lot(), clip=0.5)


class _Offended(nn.Module):
    """Once it was given a number that is too large, it takes no more."""

    is_offended = False

    def forward(self, x: Tensor) -> Tensor:
        self.is_offended = self.is_offended or bool((x.abs() > 20).any())
        if self.is_offended:
            raise ValueError("too large")
        return x


def test_made_up_rows_on_which_a_model_raises_leave_nothing_behind() -> None:
    model, (x, y) = nn.Sequential(_Offended(), *_gelu()), _lot()
    clipper = PerExample(model, nn.CrossEntropyLoss(), lot=16)
    clipper.check(x, y, lot=16)
    large = x.clone()
    large[3] = 100.0
    others = torch.arange(16) != 3
    for rows, used in ((x, others | True), (large, others), (x, others | True)):
        got = clipper(rows, y, clip=0.5)
        assert torch.equal(torch.isfinite(got.norms["all"]), used)
        for name, total in _alone(model, rows[used], y[used]).items():
            torch.testing.assert_close(got.sums[name].double(), total, rtol=0, atol=1e-5)
