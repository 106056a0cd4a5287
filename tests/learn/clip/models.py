"""Small models, one for each thing that has to be clipped."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.first = options.get("batch_first", False)
        self.inner = kind(5, 4, **options)
        self.head = nn.Linear(8 if options.get("bidirectional") else 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out = self.inner(x if self.first else x.transpose(0, 1))[0]
        return self.head(out.mean(1 if self.first else 0))


class Steps(nn.Module):
    """A cell used once per position."""

    def __init__(self, cell: nn.Module, *, pair: bool) -> None:
        super().__init__()
        self.cell, self.pair, self.head = cell, pair, nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        state: Any = None
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
        return self.head(state[0] if self.pair else state)


class Attention(nn.Module):
    def __init__(
        self, *, same: bool = True, weights: bool = True, causal: bool = False, **options: Any
    ) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(6, 2, batch_first=True, **options)
        self.same, self.weights, self.causal, self.head = same, weights, causal, nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (x, x, x) if self.same else (x, x.roll(1, 1), x * 2)
        mask = torch.ones(x.shape[1], x.shape[1]).triu(1).bool() if self.causal else None
        return self.head(self.inner(q, k, v, need_weights=self.weights, attn_mask=mask)[0].mean(1))


class Tied(nn.Module):
    """One table for reading and for writing."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 4)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.table(x).tanh(), self.table.weight).mean(1)


class Shared(nn.Module):
    """One parameter under two modules."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 5)
        self.b.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x).tanh())


class Reused(nn.Module):
    """A layer used four times."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(4):
            x = self.inner(x).tanh()
        return x


class ReusedConvolution(nn.Module):
    """One kernel at two resolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Conv2d(2, 2, 3, padding=1), nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(x).tanh()
        return self.head(self.inner(F.avg_pool2d(x, 2)).mean((2, 3)))


class Bare(nn.Module):
    """Parameters without a layer: a scale, learned positions, a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.positions = nn.Parameter(torch.randn(5)), nn.Parameter(torch.randn(1, 6, 5))
        self.one, self.matrix = nn.Parameter(torch.randn(())), nn.Parameter(torch.randn(5, 3))

    def forward(self, x: Tensor) -> Tensor:
        return ((self.one * (x * self.scale) + self.positions).tanh() @ self.matrix).mean(1)


class Odd(nn.Module):
    """A parameter used in a way that no closed form covers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.power = nn.Linear(5, 3), nn.Parameter(torch.rand(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).abs() ** self.power


class Branching(nn.Module):
    """A model that looks at its numbers; functorch cannot follow."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.power = nn.Linear(5, 3), nn.Parameter(torch.rand(3))

    def forward(self, x: Tensor) -> Tensor:
        out = self.inner(x).abs() ** self.power
        return out if bool((out >= 0).all()) else out + 0


class Centred(nn.Module):
    """The classic: each example minus the mean of its lot."""

    def __init__(self, share: float = 1.0, *, detached: bool = False) -> None:
        super().__init__()
        self.share, self.detached = share, detached

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(0)
        return x - self.share * (mean.detach() if self.detached else mean)


class Remembering(nn.Module):
    """A layer that keeps what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(5, 3)
        self.register_buffer("seen", torch.zeros(5))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += x.detach().mean(0)
        return self.inner(x)


class Noisy(nn.Module):
    """A layer that draws its own numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x + torch.randn_like(x))
