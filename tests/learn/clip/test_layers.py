"""Every kind of layer, against each example alone through plain autograd."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from deniable.learn.clip import PerExample, per_example
from deniable.learn.clip.closed_forms import taps
from tests.learn.clip import models
from tests.learn.clip.naive import assert_exact, clipped, gradients
from tests.learn.clip.test_blocks import Watched

N = 9


def data(*shape: int, classes: int = 3, rows: int = N) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(rows, *shape), torch.randint(0, classes, (rows,))


def test_linear_layers() -> None:
    assert_exact(
        nn.Sequential(nn.Linear(5, 40), nn.ReLU(inplace=True), nn.Linear(40, 3, bias=False)), *data(5)
    )


@pytest.mark.parametrize(("length", "width"), [(6, 4), (2, 40), (40, 3)])
def test_linear_layers_on_sequences_by_gram_or_product(length: int, width: int) -> None:
    model = nn.Sequential(
        nn.Linear(5, width), nn.Tanh(), nn.Linear(width, width), nn.Flatten(), nn.Linear(length * width, 3)
    )
    assert_exact(model, *data(length, 5))


@settings(max_examples=min(40, settings().max_examples // 2))
@given(
    axes=st.integers(1, 3),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    dilation=st.integers(1, 2),
    padding=st.sampled_from([0, 1, 2, "same", "valid"]),
    mode=st.sampled_from(["zeros", "circular", "reflect", "replicate"]),
    groups=st.sampled_from([1, 2, 4]),
    wide=st.integers(1, 2),
    bias=st.booleans(),
)
def test_convolutions(
    axes: int,
    kernel: int,
    stride: int,
    dilation: int,
    padding: int | str,
    mode: str,
    groups: int,
    wide: int,
    bias: bool,
) -> None:
    assume(padding != "same" or stride == 1)
    assume(not (mode != "zeros" and padding == "valid"))
    torch.manual_seed(0)
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1]
    options = {"stride": stride, "dilation": dilation, "padding": padding, "padding_mode": mode, "bias": bias}
    first = kind(4, 4 * wide, kernel, groups=groups, **options)
    body = nn.Sequential(first, nn.Tanh(), kind(4 * wide, 2, 1), nn.Flatten())
    x, y = data(4, *(5, 6, 5)[:axes], rows=5)
    width = body(x).shape[1]
    assert_exact(nn.Sequential(body, nn.Linear(width, 3)), x, y)


def test_even_kernels_are_padded_at_the_end() -> None:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(2, 3, (2, 4), padding="same"), nn.Tanh(), nn.Flatten(), nn.Linear(60, 3))
    assert_exact(body, *data(2, 4, 5))


def test_a_wide_convolution_is_measured_by_gram() -> None:
    body = nn.Sequential(nn.Conv2d(1, 64, 3), nn.Tanh(), nn.Conv2d(64, 64, 3), nn.Flatten(), nn.Linear(64, 3))
    assert_exact(body, *data(1, 5, 5))


def test_a_view_after_a_convolution_sees_the_usual_layout() -> None:
    class Viewing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = nn.Conv2d(2, 4, 3), nn.Linear(36, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.inner(x).view(-1, 36))

    assert_exact(Viewing(), *data(2, 5, 5))


@pytest.mark.parametrize("padding", [None, 0, -1])
def test_embeddings_with_repeated_words(padding: int | None) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 4, padding_idx=padding), nn.Tanh(), nn.Flatten(), nn.Linear(32, 3))
    assert_exact(model, torch.randint(0, 5, (N, 8)), torch.randint(0, 3, (N,)))


@pytest.mark.parametrize(
    "layer",
    [
        nn.LayerNorm((4, 6)),
        nn.LayerNorm(6, bias=False),
        nn.RMSNorm(6),
        nn.GroupNorm(2, 4),
        nn.InstanceNorm1d(4, affine=True),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_normalisations(layer: nn.Module) -> None:
    torch.manual_seed(0)
    for p in layer.parameters():
        nn.init.normal_(p)
    assert_exact(
        nn.Sequential(nn.Linear(6, 6), layer, nn.Tanh(), nn.Flatten(), nn.Linear(24, 3)), *data(4, 6)
    )


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize(
    "options", [{}, {"batch_first": True, "num_layers": 2, "bidirectional": True}, {"bias": False}]
)
def test_recurrent_layers(kind: type[nn.RNNBase], options: dict[str, object]) -> None:
    torch.manual_seed(0)
    assert_exact(models.Recurrent(kind, **options), *data(6, 5))


def test_relu_recurrence_and_projected_lstm() -> None:
    torch.manual_seed(0)
    assert_exact(models.Recurrent(nn.RNN, nonlinearity="relu"), *data(6, 5))
    projected = models.Recurrent(nn.LSTM, proj_size=2)
    projected.head = nn.Linear(2, 3)
    assert_exact(projected, *data(6, 5), method="one by one")


@pytest.mark.parametrize(("cell", "pair"), [(nn.LSTMCell, True), (nn.GRUCell, False), (nn.RNNCell, False)])
def test_cells(cell: type[nn.RNNCellBase], pair: bool) -> None:
    torch.manual_seed(0)
    assert_exact(models.Steps(cell(5, 4), pair=pair), *data(4, 5))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"same": False},
        {"weights": False},
        {"causal": True},
        {"bias": False},
        {"kdim": 6, "vdim": 6, "same": False},
    ],
    ids=str,
)
def test_attention(options: dict[str, object]) -> None:
    torch.manual_seed(0)
    assert_exact(models.Attention(**options), *data(4, 6))


def test_a_transformer() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(24, 3))
    still = copy.deepcopy(model).eval()
    assert_exact(still, *data(4, 6))
    assert PerExample(model, nn.CrossEntropyLoss()).method(*data(4, 6)) == "closed form"


@pytest.mark.parametrize("model", [models.Reused, models.Shared])
def test_a_layer_used_four_times_and_a_shared_one_add_no_more_than_the_clip(model: type[nn.Module]) -> None:
    torch.manual_seed(0)
    assert_exact(model(), *data(5))


def test_tied_tables_and_kernels_at_two_resolutions() -> None:
    torch.manual_seed(0)
    assert_exact(models.Tied(), torch.randint(0, 7, (N, 6)), torch.randint(0, 7, (N,)))
    assert_exact(models.ReusedConvolution(), *data(2, 8, 8))


def test_bare_parameters() -> None:
    torch.manual_seed(0)
    assert_exact(models.Bare(), *data(6, 5))


def test_what_no_closed_form_covers_falls_back() -> None:
    torch.manual_seed(0)
    assert_exact(models.Odd(), *data(5))  # no closed form of its own: copies for each example
    assert_exact(models.Branching(), *data(5), method="one by one")


class Doubled(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return 2 * weight


class Mean(nn.Module):
    """Over the positions of a sequence."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(1)


class Penalised(nn.Module):
    """A weight of a length and a direction that is used in a layer and by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.utils.parametrizations.weight_norm(nn.Linear(5, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with nn.utils.parametrize.cached():
            return self.inner(x) * self.inner.weight.square().mean()


def test_weights_made_from_parameters_are_covered() -> None:
    torch.manual_seed(0)
    model = nn.Linear(5, 3)
    nn.utils.parametrize.register_parametrization(model, "weight", Doubled())
    assert_exact(model, *data(5))


@pytest.mark.parametrize("axis", [0, 1, None])
def test_weights_of_a_length_and_a_direction(axis: int | None) -> None:
    torch.manual_seed(0)
    normed = partial(nn.utils.parametrizations.weight_norm, dim=axis)
    assert_exact(normed(nn.Linear(5, 3)), *data(5))
    assert_exact(nn.Sequential(normed(nn.Linear(5, 4)), nn.Tanh(), Mean(), nn.Linear(4, 3)), *data(6, 5))
    pictures = nn.Sequential(
        normed(nn.Conv2d(2, 3, 3, bias=False)), nn.Tanh(), nn.Flatten(), nn.Linear(48, 3)
    )
    assert_exact(pictures, *data(2, 6, 6))
    assert_exact(nn.Sequential(normed(nn.Conv1d(2, 3, 3)), nn.Flatten(), nn.Linear(12, 3)), *data(2, 6))


def test_a_weight_of_a_length_and_a_direction_that_is_used_twice() -> None:
    torch.manual_seed(0)
    assert_exact(Penalised(), *data(5))


def test_double_precision() -> None:
    torch.manual_seed(0)
    x, y = data(2, 6, 6)
    assert_exact(
        nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(48, 3)).double(), x.double(), y
    )


@pytest.mark.parametrize("k", [2, 3])
def test_rows_of_one_example_are_averaged_and_clipped_once(k: int) -> None:
    torch.manual_seed(0)
    convolution = nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.GroupNorm(1, 3), nn.Tanh(), nn.Flatten(), nn.Linear(48, 3)
    )
    assert_exact(convolution, *data(2, 6, 6, rows=6 * k), k=k)
    assert_exact(models.Odd(), *data(5, rows=6 * k), k=k)
    assert_exact(models.Branching(), *data(5, rows=6 * k), method="one by one", k=k)


def test_groups_are_clipped_apart() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    groups = {"body": ("0.weight", "2.bias"), "head": ("2.weight", "0.bias")}
    clips = {"body": 0.3, "head": 0.2}
    x, y = data(5)
    got = PerExample(model, nn.CrossEntropyLoss(), groups=groups)(x, y, clip=clips)
    right = clipped(gradients(model, nn.CrossEntropyLoss(reduction="none"), x, y), groups, clips)
    for name, value in right.items():
        torch.testing.assert_close(got.sums[name].double(), value, rtol=0, atol=1e-5)


def test_frozen_parameters_are_left_alone_and_hold_nothing() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    model[0].weight.requires_grad_(False)
    assert list(assert_exact(model, *data(5)).sums) == ["0.bias", "2.weight", "2.bias"]


def test_microbatches_change_nothing_but_rounding() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(27, 3))
    x, y = data(1, 5, 5)
    whole = PerExample(model, nn.CrossEntropyLoss())(x, y, clip=0.5)
    for size in (1, 2, 9):
        apart = PerExample(model, nn.CrossEntropyLoss(), microbatch=size)(x, y, clip=0.5)
        for name in whole.sums:
            torch.testing.assert_close(apart.sums[name], whole.sums[name], rtol=0, atol=1e-6)


def test_microbatches_are_alike_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short one at the end costs a whole pass."""
    monkeypatch.setattr(per_example, "HELD", 4 * 3)
    monkeypatch.setattr(per_example, "LEAST", 1)
    clipper, (x, y) = Watched(nn.Linear(5, 3), nn.CrossEntropyLoss()), data(5)
    clipper.check(x, y)
    clipper.sizes.clear()
    clipper(x, y, clip=0.5)
    assert clipper.sizes == [3, 3, 3]


@pytest.mark.parametrize("k", [1, 2])
def test_what_a_convolution_saw_is_copied_out_in_pieces(monkeypatch: pytest.MonkeyPatch, k: int) -> None:
    """Pieces of one example, of a few and of all give the same gradients."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.Tanh(), nn.Conv2d(3, 4, 2, 2), nn.Flatten(), nn.Linear(36, 3)
    )
    found = []
    for cached in (1, 2 * k * 36 * 18, 2**30):
        monkeypatch.setattr(taps, "CACHED", cached)
        found.append(assert_exact(model, *data(2, 6, 6, rows=10), k=k).sums["0.weight"])
    assert torch.allclose(found[0], found[1], rtol=0, atol=1e-6)
    assert torch.allclose(found[0], found[2], rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 1, 4, 5), (2, 3, 4, 5), (2, 1, 2, 3, 4), (1, 1, 1, 5)])
def test_channels_are_last_in_memory_also_where_there_is_one(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    last = taps.channels_last(x)
    assert torch.equal(last, x)
    assert last.stride(1) == 1


def test_vectors_are_the_sums_of_a_group_end_to_end() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(27, 3))
    groups = {"late": ("3.bias", "0.bias"), "early": ("3.weight", "0.weight")}
    got = PerExample(model, nn.CrossEntropyLoss(), groups=groups)(
        *data(1, 5, 5), clip={"late": 0.1, "early": 0.2}
    )
    assert list(got.sums) == ["0.weight", "0.bias", "3.weight", "3.bias"]
    for group, names in groups.items():
        assert torch.equal(got.vectors[group], torch.cat([got.sums[name].flatten() for name in names]))
        assert got.vectors[group].data_ptr() == got.sums[names[0]].data_ptr()
        assert float(got.vectors[group].norm()) > 0


def test_a_lot_that_is_covered_in_part_adds_up() -> None:
    """Rows with a positive first number go one way, others another; sums of both ways
    are in different layouts."""

    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = nn.Parameter(torch.randn(3, 2, 2, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kernel = self.kernel if bool(x[0, 0, 0, 0] > 0) else self.kernel * torch.ones(())
            return F.conv2d(x, kernel).flatten(2).sum(2)

    torch.manual_seed(0)
    model, (x, y) = Branching(), data(2, 4, 4)
    assert 0 < int((x[:, 0, 0, 0] > 0).sum()) < N
    clipper = PerExample(model, nn.CrossEntropyLoss(), microbatch=1)
    assert clipper.method(x, y) == "closed form"
    found = gradients(model, nn.CrossEntropyLoss(reduction="none"), x, y)
    right = clipped(found, {"all": ["kernel"]}, {"all": 2.0})
    torch.testing.assert_close(
        clipper(x, y, clip=2.0).sums["kernel"].double(), right["kernel"], rtol=0, atol=1e-5
    )


def test_losses_of_sequences_are_averaged_over_their_positions() -> None:
    torch.manual_seed(0)
    model = nn.Conv1d(2, 3, 3)
    x, y = torch.randn(N, 2, 8), torch.randint(0, 3, (N, 6))
    got = PerExample(model, nn.CrossEntropyLoss())(x, y, clip=1e9)
    expected = torch.stack([F.cross_entropy(model(x[i : i + 1]), y[i : i + 1]) for i in range(N)]).detach()
    torch.testing.assert_close(got.losses, expected)


@pytest.mark.parametrize("channels", [1, 3, 8])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 3)])
def test_what_a_convolution_saw_is_copied_out_alike_by_either_way(
    channels: int, stride: int, padding: int, dilation: int
) -> None:
    x = taps.channels_last(torch.randn(5, channels, 9, 9))
    kernel, out = (3, 3), (9 + 2 * padding - 2 * dilation - 1) // stride + 1
    seen = taps.windows(x, kernel, (out, out), (stride,) * 2, (padding,) * 2, (dilation,) * 2)
    for part in (seen, seen[2:4]):
        assert torch.equal(taps.copy_out(part, torch.empty(part.shape)), part)
    unfolded = F.unfold(x, kernel, dilation, padding, stride).view(5, channels, 9, out, out)
    assert torch.equal(seen.flatten(3, 4), unfolded.permute(0, 3, 4, 2, 1))
