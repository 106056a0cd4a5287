"""Passes in turn: what one pass leaves behind bears on no later one, for every activation, norm, pooling and dropout
of torch.nn; and where a block raises, only rows that fail alone are left out."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import activation, batchnorm, dropout, instancenorm, normalization, pooling

from deniable.learn.clip import Batch, PerExample
from deniable.learn.clip.closed_forms.tape import Saved, Uncovered
from deniable.learn.clip.passes import Passed, Task, chained, closed
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
    assert ways == {run} or random, [way.why for way in first.ways.values()]
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


@pytest.mark.parametrize("name", _layers())
def test_every_layer_of_torch_in_a_chain_uses_all_rows_in_every_pass(name: str) -> None:
    torch.manual_seed(1)
    _assert_all_used(_chain(name), chained)


@pytest.mark.parametrize("name", _layers())
def test_every_layer_of_torch_in_a_model_uses_all_rows_in_every_pass(name: str) -> None:
    torch.manual_seed(2)
    _assert_all_used(_Model(name), closed)


# ----------------------------------------------------------------------------------------------- where a block raises


def _gelu() -> nn.Module:
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
        size, start = math.prod(shape) * like.element_size(), self._taken
        self._taken += -(-size // ALIGNED) * ALIGNED
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
