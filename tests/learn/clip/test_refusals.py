"""What cannot be clipped is refused by name, before any data is seen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from deniable.errors import InvalidParameter
from deniable.learn.clip import PerExample
from deniable.learn.clip.closed_forms import tape, taps, terms
from tests.learn.clip import models

LOSS = nn.CrossEntropyLoss()


@pytest.fixture(autouse=True)
def same_weights() -> None:
    """Weak mixing is found or not by what the weights make of it."""
    torch.manual_seed(0)


def check(model: nn.Module, *shape: int) -> None:
    PerExample(model, LOSS).check(torch.zeros(4, *shape), torch.zeros(4, dtype=torch.long))


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(4), nn.SyncBatchNorm(4), nn.BatchNorm1d(4, affine=False)])
def test_batch_norm_is_never_clipped(layer: nn.Module) -> None:
    with pytest.raises(
        InvalidParameter,
        match=r'The layer "1" \(.*BatchNorm.*\) normalises each example by the others.*GroupNorm',
    ):
        PerExample(nn.Sequential(nn.Linear(5, 4), layer, nn.Linear(4, 3)), LOSS)


def test_batch_norm_as_a_function_is_found() -> None:
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            return F.batch_norm(self.inner(x), None, None, training=True)

    with pytest.raises(InvalidParameter, match="one example"):
        check(Hidden(), 5)


def test_frozen_batch_norm_is_a_fixed_map() -> None:
    layer = nn.BatchNorm1d(4).eval().requires_grad_(False)
    model = nn.Sequential(nn.Linear(5, 4), layer, nn.Linear(4, 3))
    clipper = PerExample(model, LOSS)
    clipper.check(torch.zeros(4, 5), torch.zeros(4, dtype=torch.long))
    model.train()
    with pytest.raises(InvalidParameter, match="normalises each example by the others"):
        clipper(torch.zeros(4, 5), torch.zeros(4, dtype=torch.long), clip=1.0)


@pytest.mark.parametrize(
    "layer",
    [models.Centred(), models.Centred(1e-6), models.Centred(detached=True)],
    ids=["mean", "a millionth", "detached"],
)
def test_layers_that_mix_examples_are_refused_by_name(layer: nn.Module) -> None:
    with pytest.raises(InvalidParameter, match="lets one example of a lot change what another one gives"):
        check(nn.Sequential(nn.Linear(5, 4), layer, nn.Linear(4, 3)), 5)


def test_the_layer_that_mixes_is_named() -> None:
    with pytest.raises(InvalidParameter, match=r'The layer "1" \(Centred\)'):
        check(nn.Sequential(nn.Linear(5, 4), models.Centred(), nn.Linear(4, 3)), 5)
    turned = models.Attention()
    turned.inner.batch_first = False
    with pytest.raises(InvalidParameter, match=r'The layer "inner" \(MultiheadAttention\)'):
        check(turned, 4, 6)


def test_mixing_words_is_found_without_gradients_to_the_input() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), models.Centred(), nn.Flatten(), nn.Linear(8, 3))
    with pytest.raises(InvalidParameter, match=r'"1" \(Centred\)'):
        PerExample(model, LOSS).check(torch.zeros(4, 2, dtype=torch.long), torch.zeros(4, dtype=torch.long))


def test_a_criterion_that_mixes_is_refused() -> None:
    def contrast(output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(output - output.mean(0), target, reduction="none")

    with pytest.raises(InvalidParameter, match="The model or the criterion lets one example"):
        PerExample(nn.Linear(5, 3), contrast).check(torch.zeros(4, 5), torch.zeros(4, dtype=torch.long))


def test_buffers_that_change_are_refused_and_put_back() -> None:
    model = models.Remembering()
    with pytest.raises(InvalidParameter, match='changes "seen" of the model'):
        check(model, 5)
    assert int(model.seen.count_nonzero()) == 0


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (nn.InstanceNorm1d(4, affine=True, track_running_stats=True), "track_running_stats=False"),
        (nn.Embedding(5, 4, max_norm=1.0), "max_norm"),
        (nn.Embedding(5, 4, scale_grad_by_freq=True), "scale_grad_by_freq"),
    ],
)
def test_layers_that_leak_are_refused_at_sight(layer: nn.Module, text: str) -> None:
    with pytest.raises(InvalidParameter, match=text):
        PerExample(nn.Sequential(layer, nn.Linear(4, 3)), LOSS)


def test_a_model_that_draws_numbers_runs_one_by_one() -> None:
    clipper = PerExample(models.Noisy(), LOSS)
    x, y = torch.zeros(4, 5), torch.zeros(4, dtype=torch.long)
    assert clipper.method(x, y).startswith("one by one (the model draws random numbers")
    assert bool((clipper(x, y, clip=1.0).norms["all"] > 0).all())


def test_whether_a_model_draws_is_no_luck() -> None:
    """A layer that is left out once in a thousand passes is the same in nearly all of them."""

    class Skipped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(5, 5), nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            alive = torch.rand(len(x), 1) > 1e-3
            out: Tensor = self.last(x + self.first(x) * alive)
            return out

    clipper = PerExample(Skipped(), LOSS)
    assert clipper.method(torch.zeros(4, 5), torch.zeros(4, dtype=torch.long)).startswith("one by one")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: PerExample(nn.Linear(5, 3).requires_grad_(False), LOSS), "none to train"),
        (lambda: PerExample(nn.Linear(5, 3).half(), LOSS), r"model\.float\(\)"),
        (lambda: PerExample(nn.Linear(5, 3), LOSS, groups={"a": ["weight"]}), r"missing: \['bias'\]"),
        (
            lambda: PerExample(nn.Linear(5, 3), LOSS, groups={"a": ["weight", "bias"], "b": ["bias"]}),
            r"repeated: \['bias'\]",
        ),
        (lambda: PerExample(nn.Linear(5, 3), LOSS, microbatch=0), "microbatch=0"),
        (lambda: PerExample(nn.Linear(5, 3), LOSS, multiplicity=True), "multiplicity=True"),
        (lambda: PerExample(nn.Linear(5, 3), nn.PReLU()), "parameters of its own"),
    ],
)
def test_wrong_parameters_are_refused(make: Callable[[], object], text: str) -> None:
    with pytest.raises(InvalidParameter, match=text):
        make()


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan"), float("inf"), 1e-10, {"other": 1.0}])
def test_wrong_clips_are_refused(clip: object) -> None:
    with pytest.raises(InvalidParameter, match="Expected"):
        PerExample(nn.Linear(5, 3), LOSS)(torch.zeros(1, 5), torch.zeros(1, dtype=torch.long), clip=clip)  # type: ignore[arg-type]


def test_one_number_for_two_groups_is_refused() -> None:
    clipper = PerExample(nn.Linear(5, 3), LOSS, groups={"a": ["weight"], "b": ["bias"]})
    with pytest.raises(InvalidParameter, match="one clip for each of the groups"):
        clipper(torch.zeros(1, 5), torch.zeros(1, dtype=torch.long), clip=1.0)


def test_losses_that_are_already_averaged_are_refused() -> None:
    with pytest.raises(InvalidParameter, match='reduction="none"'):
        PerExample(nn.Linear(5, 3), F.cross_entropy).check(
            torch.zeros(4, 5), torch.zeros(4, dtype=torch.long)
        )


def test_wrong_shapes_are_refused_with_the_models_own_words() -> None:
    with pytest.raises(InvalidParameter, match="fails on generated rows"):
        check(nn.Linear(5, 3), 6)


def test_thawed_parameters_and_rounder_products_are_refused() -> None:
    model = nn.Linear(5, 3)
    clipper = PerExample(model, LOSS)
    model.bias.requires_grad_(False)
    x, y = torch.zeros(1, 5), torch.zeros(1, dtype=torch.long)
    with pytest.raises(InvalidParameter, match=r"have changed: \['bias'\]"):
        clipper(x, y, clip=1.0)
    model.bias.requires_grad_(True)
    torch.set_float32_matmul_precision("medium")
    try:
        with pytest.raises(InvalidParameter, match="set_float32_matmul_precision"):
            clipper(x, y, clip=1.0)
    finally:
        torch.set_float32_matmul_precision("highest")


def test_the_first_axis_is_no_coincidence() -> None:
    """Positions first, examples second: at five of each it would look like a layer on examples."""
    clipper = PerExample(models.Recurrent(nn.GRU), LOSS)
    swapped = nn.Sequential(models.Recurrent(nn.GRU))

    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x.transpose(0, 1)).mean(0)

    y = torch.zeros(5, dtype=torch.long)
    assert PerExample(Turned(), LOSS).method(torch.zeros(5, 5, 5), y) == "closed form"
    for layer in (clipper, PerExample(swapped, LOSS)):
        assert layer.method(torch.zeros(5, 5, 5), y) == "closed form"


def _halved(rows: Tensor, cols: Tensor, room: object) -> terms.Outer:
    return terms.Outer(rows / 2, cols)


def _last_only(rows: Tensor, cols: Tensor, room: object) -> terms.Outer:
    return terms.Outer(rows[:, -1:], cols[:, -1:])


@pytest.mark.parametrize("wrong", [_halved, _last_only])
def test_a_planted_wrong_closed_form_is_found_and_not_used(
    wrong: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taps, "outer", wrong)
    model = nn.Sequential(nn.Linear(5, 4), nn.Flatten(), nn.Linear(12, 3))
    x, y = torch.zeros(4, 3, 5), torch.zeros(4, dtype=torch.long)
    assert (
        PerExample(model, LOSS).method(x, y).startswith("vmap (mapped: the gradient of 0.weight is not that")
    )


def test_a_forgotten_use_of_a_layer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake that lets a layer used four times add 2.84 clips."""
    monkeypatch.setattr(tape, "combined", lambda found, like, room: found[0])
    x, y = torch.zeros(4, 5), torch.zeros(4, dtype=torch.long)
    assert (
        PerExample(models.Reused(), LOSS)
        .method(x, y)
        .startswith("vmap (mapped: the gradient of inner.weight")
    )


class Checkpointed(nn.Module):
    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        self.first, self.last, self.reentrant = nn.Linear(5, 4), nn.Linear(4, 3), reentrant

    def forward(self, x: Tensor) -> Tensor:
        return self.last(checkpoint(self.first, x, use_reentrant=self.reentrant))


def test_a_model_without_a_gradient_is_refused_with_the_way_out() -> None:
    x, y = torch.zeros(4, 5), torch.zeros(4, dtype=torch.long)
    assert PerExample(Checkpointed(reentrant=False), LOSS).method(x, y).startswith("one by one")
    with pytest.raises(InvalidParameter, match="use_reentrant=False"):
        PerExample(Checkpointed(reentrant=True), LOSS).check(x, y)


class Body(nn.Module):
    """Two layers, with something between them."""

    def __init__(self, between: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last, self.between = nn.Linear(5, 4), nn.Linear(4, 3), between

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.between(self.first(x)))
        return out


class ActNorm(nn.Module):
    """Glow's layer: shift and scale are those of the first batch (Kingma, Dhariwal 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(4))
        self.register_buffer("ready", torch.tensor(False))

    def forward(self, x: Tensor) -> Tensor:
        if not self.ready:
            with torch.no_grad():
                self.shift.copy_(-x.mean(0))
                self.ready.fill_(True)
        return x + self.shift


def test_a_layer_that_learns_from_the_first_batch_is_refused() -> None:
    """Its shift would be released without noise; that the first pass over generated rows
    set it must not hide it."""
    model = Body(ActNorm())
    with pytest.raises(InvalidParameter, match=r'A forward pass changes "between\.(ready|shift)"'):
        check(model, 5)
    assert not model.between.ready  # type: ignore[union-attr]


class Remembering:
    """A running mean in a plain attribute: no buffer shows it, and two passes differ as
    if numbers were drawn."""

    def __init__(self) -> None:
        self.mean: Tensor | float = 0.0

    def __call__(self, x: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return x - self.mean


def test_a_model_or_criterion_that_remembers_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="it keeps something of what it saw"):
        check(Body(Remembering()), 5)
    weights = Remembering()

    def criterion(out: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(out, y, reduction="none") * weights(out)[:, 0].exp()

    with pytest.raises(InvalidParameter, match="it keeps something of what it saw"):
        PerExample(nn.Linear(5, 3), criterion).check(torch.zeros(4, 5), torch.zeros(4, dtype=torch.long))


@pytest.mark.parametrize(
    "between",
    [
        lambda x: x - x.mean(0) if len(x) > 3 else x,
        lambda x: x / x.abs().max().detach().clamp(min=20),
        lambda x: x * 0.1 if bool((x < -20).any()) else x,
    ],
    ids=["in larger lots", "by the largest", "where one is small"],
)
def test_mixing_only_at_some_size_or_value_is_found(between: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(InvalidParameter, match="lets one example of a lot change what another one gives"):
        check(Body(between), 5)


def test_a_little_mixing_of_words_is_found() -> None:
    """Words have no gradient; a ten-thousandth of the mean is far below what rounding to
    a batch of its own may change."""

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.last = nn.Embedding(11, 5), nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            h = self.table(x).mean(1)
            out: Tensor = self.last(h - 1e-4 * h.mean(0))
            return out

    with pytest.raises(InvalidParameter, match="lets one example of a lot change"):
        PerExample(Words(), LOSS).check(torch.zeros(4, 6, dtype=torch.long), torch.zeros(4, dtype=torch.long))


@pytest.mark.parametrize("features", range(1, 9))
def test_outputs_in_a_column_beside_targets_in_a_row_are_refused(features: int) -> None:
    """(n, 1) and (n,) become (n, n): each example is compared with everybody's target.
    Whole targets are often alike."""

    def squares(out: Tensor, y: Tensor) -> Tensor:
        return ((out - y) ** 2).mean(1)  # as nn.MSELoss has it, with a warning

    with pytest.raises(InvalidParameter, match="lets one example of a lot change what another one gives"):
        PerExample(nn.Linear(features, 1), squares).check(
            torch.zeros(4, features), torch.zeros(4, dtype=torch.long)
        )


def test_a_model_that_takes_no_wide_numbers_is_not_refused_for_it() -> None:
    def strict(x: Tensor) -> Tensor:
        if not bool((x.abs() < 20).all()):
            raise ValueError("out of range")
        return x

    check(Body(strict), 5)


ONE_BACKEND = """
import torch
from torch import nn
from deniable.errors import InvalidParameter
from deniable.learn.clip import PerExample
torch.backends.mkldnn.matmul.fp32_precision = "bf16"
try:
    PerExample(nn.Linear(5, 3), nn.CrossEntropyLoss())(torch.randn(4, 5), torch.zeros(4, dtype=torch.long), clip=1.0)
except InvalidParameter as error:
    print(error)
"""


def test_fewer_bits_of_one_backend_are_refused_too() -> None:
    """In a process of its own, which keeps the setting."""
    output = subprocess.run([sys.executable, "-c", ONE_BACKEND], capture_output=True, text=True, check=True)
    assert "set_float32_matmul_precision" in output.stdout
