"""What transformers are made of, in closed form: tokens and positions that all examples share, attention with
dropout, flattened positions, and layers whose own gradients are held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deniable.errors import InvalidParameter
from deniable.learn.clip import BatchLoss, PerExample
from tests.learn.clip.naive import assert_exact

WIDTH, LENGTH, WORDS = 6, 5, 11


class Token(nn.Module):
    """Pictures of positions behind one learned token, as ViT begins."""

    def __init__(self, spread: Callable[[Tensor, int], Tensor]) -> None:
        super().__init__()
        self.token, self.places = (
            nn.Parameter(torch.randn(1, 1, WIDTH)),
            nn.Parameter(torch.randn(1, LENGTH + 1, WIDTH)),
        )
        self.spread, self.mix, self.head = spread, nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.cat([self.spread(self.token, len(x)), x], 1) + self.places
        out: Tensor = self.head(self.mix(rows).tanh().mean(1))
        return out


class Attention(nn.Module):
    """Words with positions of a first axis of one, attention by torch's function with
    dropout, matrices as GPT-2 has them."""

    def __init__(self, dropout: float = 0.3) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.weight, self.bias = (
            nn.Parameter(torch.randn(WIDTH, 3 * WIDTH)),
            nn.Parameter(torch.randn(3 * WIDTH)),
        )
        self.norm, self.head, self.dropout = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3), dropout

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1])[None])
        flat = torch.addmm(self.bias, x.view(-1, WIDTH), self.weight)
        q, k, v = flat.view(*x.shape[:2], 3 * WIDTH).unflatten(-1, (3, 2, WIDTH // 2)).permute(2, 0, 3, 1, 4)
        rate = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=rate).transpose(1, 2).flatten(2)
        out: Tensor = self.head(F.dropout(self.norm(x + mixed), rate, self.training).mean(1))
        return out


class Einsum(nn.Module):
    def __init__(self, equation: str, turned: bool) -> None:
        super().__init__()
        self.equation, self.turned = equation, turned
        self.weight, self.head = nn.Parameter(torch.randn(WIDTH, 4)), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        pair = (self.weight, x) if self.turned else (x, self.weight)
        out: Tensor = self.head(torch.einsum(self.equation, *pair).mean(1))
        return out


class Flattened(nn.Module):
    """Positions of all examples along one axis, through a layer and back."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(WIDTH, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.first(x.reshape(-1, WIDTH)).view(len(x), LENGTH, 4).tanh().mean(1))
        return out


def pictures(n: int = 7) -> tuple[Tensor, Tensor]:
    torch.manual_seed(3)
    return torch.randn(n, LENGTH, WIDTH), torch.randint(0, 3, (n,))


def words(n: int = 7) -> tuple[Tensor, Tensor]:
    torch.manual_seed(3)
    return torch.randint(0, WORDS, (n, LENGTH)), torch.randint(0, 3, (n,))


def after(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


def grouped() -> nn.Module:
    first, second = nn.ConvTranspose2d(1, 4, 2, padding=1), nn.ConvTranspose2d(4, 2, 3, groups=2, bias=False)
    return after(nn.Unflatten(1, (1, LENGTH)), first, second, nn.Flatten(), nn.Linear(84, 3))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Tensor, Tensor]]]] = {
    "expand": (lambda: Token(lambda p, n: p.expand(n, -1, -1)), pictures),
    "expand by a tuple": (lambda: Token(lambda p, n: p.expand((n, 1, WIDTH))), pictures),
    "repeat": (lambda: Token(lambda p, n: p.repeat(n, 1, 1)), pictures),
    "attention": (lambda: Attention(dropout=0.0), words),
    "flattened": (Flattened, pictures),
    "einsum": (lambda: Einsum("btd,do->bto", False), pictures),
    "einsum turned": (lambda: Einsum("do, btd -> bto", True), pictures),
    "PReLU": (lambda: after(nn.Linear(WIDTH, 4), nn.PReLU(LENGTH), nn.Flatten(), nn.Linear(4 * LENGTH, 3)), pictures),
    "one "
    "PReLU": (lambda: after(nn.Linear(WIDTH, 4), nn.PReLU(), nn.Flatten(), nn.Linear(4 * LENGTH, 3)), pictures),
    "transposed": (lambda: after(nn.ConvTranspose1d(LENGTH, 2, 3, stride=2), nn.Flatten(), nn.Linear(26, 3)), pictures),
    "transposed groups": (grouped, pictures),
    "bag": (lambda: after(nn.EmbeddingBag(WORDS, WIDTH), nn.Linear(WIDTH, 3)), words),
    "bag of sums": (lambda: after(nn.EmbeddingBag(WORDS, WIDTH, mode="sum"), nn.Linear(WIDTH, 3)), words),
}  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_the_examples_alone(name: str) -> None:
    torch.manual_seed(0)
    build, data = MODELS[name]
    assert_exact(build(), *data())


@pytest.mark.parametrize("name", ["expand", "attention", "flattened", "einsum", "transposed", "PReLU"])
def test_also_of_examples_of_several_rows(name: str) -> None:
    torch.manual_seed(0)
    build, data = MODELS[name]
    assert_exact(build(), *(part[:6] for part in data()), k=2)


@pytest.mark.sampled
@pytest.mark.parametrize("size", [1, 4, LENGTH, WIDTH, 11])
@pytest.mark.parametrize("name", ["expand", "attention", "flattened"])
def test_no_size_of_a_lot_is_mistaken_for_a_length(name: str, size: int) -> None:
    """As many examples as there are positions, widths or words."""
    torch.manual_seed(0)
    build, _ = MODELS[name]
    x, y = (words if name == "attention" else pictures)(size)
    assert_exact(build(), x, y)


def test_attention_s_dropout_is_no_reason_to_go_one_by_one() -> None:
    assert PerExample(Attention(0.3), nn.CrossEntropyLoss()).method(*words()) == "closed form"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", MODELS)
def test_no_example_exceeds_the_clip(name: str) -> None:
    torch.manual_seed(0)
    build, data = MODELS[name]
    x, y = data()
    clipper = PerExample(build(), nn.CrossEntropyLoss(reduction="sum"))
    for i in range(len(x)):
        rows = 1e4 * x[i : i + 1] if x.is_floating_point() else x[i : i + 1]
        assert float(clipper(rows, y[i : i + 1], clip=0.01).vectors["all"].double().norm()) <= 0.01


def test_positions_in_another_order_are_not_trusted() -> None:
    """Transposed before it is flattened, a row of the matrix is no part of the example that it stands at."""

    class Turned(Flattened):
        def forward(self, x: Tensor) -> Tensor:
            flat = self.first(x.transpose(0, 1).reshape(-1, WIDTH))
            out: Tensor = self.head(flat.view(LENGTH, len(x), 4).tanh().mean(0))
            return out

    torch.manual_seed(0)
    assert_exact(Turned(), *pictures(), method="vmap")


def test_a_token_of_the_batch_is_not_spread() -> None:
    """One row of parameters for each place in the lot is no model of examples."""

    class Placed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own, self.head = nn.Parameter(torch.randn(64, WIDTH)), nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(x.mean(1) + self.own[: len(x)])
            return out

    with pytest.raises(InvalidParameter, match="lets one example of a lot change"):
        PerExample(Placed(), nn.CrossEntropyLoss()).check(*pictures())


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), "its layer is lazy"),
        (
            lambda: torch.compile(nn.Linear(WIDTH, 3)),
            "is compiled, and what is compiled cannot be looked into",
        ),
    ],
)
def test_what_cannot_be_looked_into_is_refused_in_a_sentence(model: Any, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        PerExample(model(), nn.CrossEntropyLoss())


def test_a_module_compiled_in_place_is_refused() -> None:
    model = nn.Linear(WIDTH, 3)
    model.compile()
    with pytest.raises(InvalidParameter, match="is compiled"):
        PerExample(model, nn.CrossEntropyLoss())


def test_sparse_tables_are_summed_like_others() -> None:
    torch.manual_seed(0)
    sparse, dense = (
        nn.Sequential(nn.EmbeddingBag(WORDS, 4, mode="sum", sparse=s), nn.Linear(4, 3)) for s in (True, False)
    )
    dense.load_state_dict(sparse.state_dict())
    got, right = (
        PerExample(m, nn.CrossEntropyLoss())(*words(), clip=0.4).vectors["all"] for m in (sparse, dense)
    )
    assert torch.allclose(got, right, atol=1e-6)


def test_a_function_of_the_batch_may_call_the_model_twice() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 4), nn.Tanh(), nn.Linear(4, 2))

    def contrast(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        return (model(batch["a"]) - model(batch["b"])).square().sum(1)

    torch.manual_seed(0)
    batch = {"a": torch.randn(5, WIDTH), "b": torch.randn(5, WIDTH)}
    clipper = PerExample(model, BatchLoss(contrast))
    assert clipper.method(batch) == "closed form"
    total = torch.zeros(4 * WIDTH)
    for i in range(5):
        loss = contrast(model, {name: part[i : i + 1] for name, part in batch.items()}).sum()
        grads = torch.autograd.grad(loss, list(model.parameters()))
        size = torch.cat([g.flatten() for g in grads]).norm()
        total += grads[0].flatten() * min(1.0, 0.3 / float(size))
    assert torch.allclose(clipper(batch, clip=0.3).sums["0.weight"].flatten(), total, atol=1e-5)
