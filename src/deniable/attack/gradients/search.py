"""Deep leakage: an image whose gradient is the one that was sent, searched for by L-BFGS
(Zhu, Liu, Han 2019).

The network is convolutional with sigmoids and wide first weights, as in that paper: there the search is
smooth and mostly ends at the true image. The label is read off the last layer first: for one image only its
own class has a bias that rises (Zhao, Mopuri, Bilen 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor, nn

from deniable.attack.gradients.sent import Images, Inverted, Update, Victims, cost, nearest, receive_update
from deniable.federated.fedavg import FedAvg
from deniable.federated.train.recipe import flat

CHANNELS = 12
OUTER, INNER = 25, 20
"""Calls of L-BFGS, and steps in each."""
SCALE = 100.0
"""The squared distance is small; this keeps L-BFGS from stopping early."""

Watch = Callable[[Iterable[int], str], Iterable[int]]


def convolutional(victims: Victims) -> nn.Module:
    """Two convolutions of stride 2 with sigmoids, then a linear layer."""
    side = victims.shape[0]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = nn.Sequential(
            nn.Unflatten(1, (1, side, side)),
            nn.Conv2d(1, CHANNELS, 5, padding=2, stride=2),
            nn.Sigmoid(),
            nn.Conv2d(CHANNELS, CHANNELS, 5, padding=2, stride=2),
            nn.Sigmoid(),
            nn.Flatten(),
            nn.Linear(CHANNELS * (-(-side // 4)) ** 2, 10),
        )
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -0.5, 0.5)
    return model


def search(run: FedAvg, update: Update, *, seed: int = 0) -> Images:
    """An image whose clipped update comes nearest to the one that was sent."""
    pixels = _pixels(run.model)
    label = torch.tensor([int(update[-10:].argmax())])
    target = torch.from_numpy(-update).float()
    guess = torch.rand(1, pixels, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    descent = torch.optim.LBFGS([guess], lr=1, max_iter=INNER)

    def distance() -> Tensor:
        descent.zero_grad()
        loss = SCALE * ((_gradient(run, guess, label) - target) ** 2).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    for _ in range(OUTER):
        descent.step(distance)  # type: ignore[no-untyped-call]
    image: Images = guess.detach().clamp(0, 1).double().nan_to_num(0.5).numpy()
    return image


def _gradient(run: FedAvg, image: Tensor, label: Tensor) -> Tensor:
    """What a device with this one image would send, noise aside: the attacker knows the clip."""
    loss = run.criterion(run.model(image), label)
    gradient = flat(torch.autograd.grad(loss, list(run.model.parameters()), create_graph=True))
    return gradient * torch.clamp(run.start_clip / gradient.norm(), max=1.0)


def _pixels(model: nn.Module) -> int:
    first = next(iter(model.children()))
    assert isinstance(first, nn.Unflatten)
    return int(np.prod(first.unflattened_size))


def attack(victims: Victims, run: FedAvg, release: str, *, images: int, watch: Watch) -> Inverted:
    """The first `images` victims, one device each."""
    candidates = [
        search(run, receive_update(run, *victims.rows(k, 1))) for k in watch(range(images), release)
    ]
    pairs = [nearest(each, victims.images[k : k + 1]) for k, each in enumerate(candidates)]
    scores = tuple(value for _, values in pairs for value in values)
    return Inverted(
        release, "search (L-BFGS)", np.concatenate([image for image, _ in pairs]), scores, cost(run)
    )
