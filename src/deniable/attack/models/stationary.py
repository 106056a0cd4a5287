"""Training images of a small network read off its weights: the idea of Haim et al. 2022,
in the form of Buzaglo et al. 2023.

A network trained to the end sits where the gradient of its objective vanishes. With weight decay μ that reads

    W = (1/μ)·Σ_i (−∂ℓ_i/∂W)(x_i, y_i)

so the weights are a sum over the training points of a function that is known but for the
points. Whoever holds W looks for points that solve the equation, and those that do are the
training points themselves. Haim et al. take the limit of homogeneous networks without decay,
where points enter with unknown weights λ_i; with decay and many classes the weights are known
too and the equation holds at a finite W (Buzaglo et al. 2023), which is the form used here.
Units are smooth, since rectified ones like to stop at their kinks, where there is no gradient.

Here the first layer alone is trained. Its rows then lie in the span of the training points, so the rank of W
tells their number and the search needs no more dimensions than that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from deniable import extras
from deniable.attack import asking
from deniable.attack.learnt import Floats, Learnt, percent
from deniable.attack.members.coins import Watch, iterate_silently
from deniable.attack.models.invert import Album, Images, Labels
from deniable.errors import InvalidParameter
from deniable.guarantee import DEFAULT_DELTA
from deniable.learn.sgd import DPSGD

try:
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import cross_entropy, one_hot, softplus
except ImportError:
    raise extras.missing("Model inversion needs PyTorch", "learn") from None

ATTACK = "stationary"
SHARPNESS = 10.0
DECAY = 0.01
REACH = 2.3
"""How far from 0 an image lies: the attacker's only knowledge of what images are."""
FOLLOWED = 4
SOLVED = 3e-3
"""A relative residual under which the equation counts as solved: chance does not come near it."""


class Net(nn.Module):
    """Softplus units of (x, 1) under a fixed random second layer, in double precision."""

    second: Tensor

    def __init__(self, features: int, classes: int, *, hidden: int = 200, seed: int = 0) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(seed)
        draw = torch.randn(hidden, features + 1, generator=g, dtype=torch.float64)
        self.first = nn.Parameter(0.1 * draw)
        self.register_buffer("second", 0.1 * torch.randn(hidden, classes, generator=g, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return softplus(_append_ones(x) @ self.first.T, beta=SHARPNESS) @ self.second


def left(first: Tensor, second: Tensor, points: Tensor, targets: Tensor) -> Tensor:
    """W − (1/μ)·Σ_i −∂ℓ_i/∂W: the gradient of Σ ℓ_i + μ‖W‖²/2 over μ, zero where W is
    stationary. Points end in a one."""
    before = points @ first.T
    error = targets - torch.softmax(softplus(before, beta=SHARPNESS) @ second, dim=1)
    return first - (torch.sigmoid(SHARPNESS * before) * (error @ second.T)).T @ points / DECAY


def train(net: Net, x: Floats, y: Labels) -> Net:
    """L-BFGS on Σ ℓ_i + μ‖W‖²/2 until it is stationary to about seven digits."""
    points, targets = _append_ones(torch.from_numpy(x)), _targets(y, net.second.shape[1])
    labels, shape = torch.from_numpy(y), net.first.shape

    def objective(flat: Floats) -> tuple[float, Floats]:
        first = torch.from_numpy(flat).view(shape)
        logits = softplus(points @ first.T, beta=SHARPNESS) @ net.second
        value = cross_entropy(logits, labels, reduction="sum") + DECAY / 2 * (first**2).sum()
        return value.item(), DECAY * left(first, net.second, points, targets).numpy().ravel()

    weights = _least(objective, net.first.detach().numpy().ravel(), rounds=3000)[0]
    with torch.no_grad():
        net.first.copy_(torch.from_numpy(weights).view(shape))
    return net


def private(net: Net, x: Floats, y: Labels, *, epsilon: float, delta: float = DEFAULT_DELTA) -> Net:
    """DP-SGD through an account, for an image. From so few images it learns next to nothing, and it is not
    stationary: the attack has nothing to start from. That no other attack succeeds follows from the
    guarantee, not from this one's failure."""
    run = DPSGD.from_keywords(
        net,
        nn.CrossEntropyLoss(reduction="none"),
        n=len(x),
        rate=1,
        steps=max(1, len(x) // 5),
        clip=1.0,
        learning_rate=0.5,
        epsilon=epsilon,
        delta=delta,
        progress=False,
    )
    rows = torch.from_numpy(x), torch.from_numpy(y)
    return cast(Net, asking.release_model(run, rows, epsilon=epsilon, delta=delta))


# ------------------------------------------------------------------------------------------------ the attack


@dataclass(frozen=True)
class StationaryPoint:
    """Points, and how far they leave the weights from stationary: ‖left‖ / ‖W‖."""

    points: Floats
    residual: float


def residual(net: Net, x: Floats, y: Labels) -> float:
    """How far the net is from stationary on these points."""
    with torch.no_grad():
        rest = left(
            net.first, net.second, _append_ones(torch.from_numpy(x)), _targets(y, net.second.shape[1])
        )
        return float(rest.norm() / net.first.norm())


def reconstruct(
    net: Net,
    y: Labels,
    *,
    starts: int = 12,
    rounds: int = 3000,
    seed: int = 0,
    watch: Watch = iterate_silently,
) -> StationaryPoint:
    """Points of the labels `y` on which `net` is stationary, by L-BFGS: a few rounds from many random starts,
    then the most promising are followed until one solves the equation.

    Nothing is used but the weights, the labels and the decay; the residual tells the
    attacker whether he is right.
    """
    rows = _span(net.first.detach())
    first, targets = net.first.detach() @ rows.T, _targets(y, net.second.shape[1])
    # The points (x, 1) of the span are origin + code·basis, since the last column of the basis in x's
    # coordinates is zero.
    ones = rows[:, -1]
    origin, basis, size = ones / (ones @ ones), torch.linalg.svd(ones[None])[2][1:], first.norm()

    def objective(flat: Floats) -> tuple[float, Floats]:
        code = torch.from_numpy(flat).view(len(y), -1).requires_grad_()
        value = (left(first, net.second, origin + code @ basis, targets) ** 2).sum() / (2 * size**2)
        (slope,) = torch.autograd.grad(value, code)
        return value.item(), slope.numpy().ravel()

    spread = REACH / math.sqrt(max(len(basis), 1))
    draws = [
        spread * np.random.default_rng([seed, k]).normal(size=len(y) * len(basis)) for k in range(starts)
    ]
    attempts = [
        _least(objective, draws[k], rounds // 10)
        for k in watch(range(starts), "Looking for the training images")
    ]
    best, value = min(attempts, key=lambda pair: pair[1])
    for code, _ in sorted(attempts, key=lambda pair: pair[1])[:FOLLOWED]:
        if np.sqrt(2 * value) > SOLVED:
            best, value = min((best, value), _least(objective, code, rounds), key=lambda pair: pair[1])
    points = (origin + torch.from_numpy(best).view(len(y), -1) @ basis) @ rows
    return StationaryPoint(points[:, :-1].numpy(), float(np.sqrt(2 * value)))


def _span(first: Tensor) -> Tensor:
    """An orthonormal basis of the row space of W, in which the training points (x, 1) lie."""
    _, stretch, rows = torch.linalg.svd(first, full_matrices=False)
    basis: Tensor = rows[stretch > 1e-5 * stretch[0]]
    return basis


def _least(objective: object, start: Floats, rounds: int) -> tuple[Floats, float]:
    options = {"maxiter": rounds, "maxfun": 2 * rounds, "maxcor": 30, "ftol": 1e-18, "gtol": 1e-12}
    minimum = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(minimum.x), float(minimum.fun)


def _append_ones(x: Tensor) -> Tensor:
    return torch.cat([x, x.new_ones((*x.shape[:-1], 1))], dim=-1)


def _targets(y: Labels, classes: int) -> Tensor:
    return one_hot(torch.from_numpy(y), classes).double()


# ------------------------------------------------------------------------------------------------ measuring


@dataclass(frozen=True)
class RecoveredImages:
    """The images found in a net trained on `images`: for each of these the nearest one
    found, its distance, and if it counts.

    An image counts as found if what came out is at most half as far from it as the nearest other real image
    is; `control` is the share of images that were not trained on of which the same is true.
    """

    model: str
    images: Images
    nearest: Images
    distance: Floats
    hits: NDArray[np.bool_]
    control: float
    residual: float

    def learnt(self) -> Learnt:
        right, size = int(self.hits.sum()), len(self.hits)
        reading = (
            f"{self.model}, by stationarity: {right} of the {size} training images come out of the weights, "
            f"twice as near to the truth as any other image is (so do {percent(self.control)} of images not "
            f"trained on). Median distance {np.median(self.distance):.2g}; the equation is solved to "
            f"{self.residual:.1g}."
        )
        facts = {"residual": self.residual, "median_distance": float(np.median(self.distance))}
        return Learnt(
            ATTACK, f"{self.model}, by stationarity", right, size, self.control, reading, facts=facts
        )


def measure(point: StationaryPoint, x: Floats, other_images: Floats, *, model: str) -> RecoveredImages:
    """All of them as grey values; `other_images` were not trained on."""
    real = np.vstack([x, other_images])
    between = np.linalg.norm(real[:, None] - real[None], axis=2)
    np.fill_diagonal(between, np.inf)
    distance = np.linalg.norm(real[:, None] - point.points[None], axis=2)
    hit = distance.min(1) < between.min(1) / 2
    nearest = point.points[distance[: len(x)].argmin(1)]
    truth, nearest = (v.clip(0, 1).astype(np.float32) for v in (x, nearest))
    own = distance[: len(x)].min(1)
    return RecoveredImages(
        model, truth, nearest, own, hit[: len(x)], float(hit[len(x) :].mean()), point.residual
    )


def compare(
    album: Album,
    *,
    size: int | None = None,
    epsilon: float = 2.0,
    starts: int = 12,
    seed: int = 0,
    watch: Watch = iterate_silently,
) -> list[RecoveredImages]:
    """Nets trained on `size` images (10, or one of each person), with and without protection."""
    size = max(album.people, 10) if size is None else size
    if not album.people <= size <= len(album.train):
        raise InvalidParameter(
            f"Expected size={size} between {album.people} (people) and {len(album.train)} (images)."
        )
    places = _first(album.train_labels, size)
    y, lens = album.train_labels[places], Lens.fit(album.public)
    x = lens(album.train[places])
    nets = {
        "plain": train(Net(x.shape[1], album.people, seed=seed), x, y),
        f"private, ε = {epsilon:g}": private(Net(x.shape[1], album.people, seed=seed), x, y, epsilon=epsilon),
    }
    out = []
    for name, net in nets.items():
        solution = reconstruct(net, y, starts=starts if name == "plain" else 2, seed=seed, watch=watch)
        grey = StationaryPoint(lens.invert(solution.points), solution.residual)
        out.append(
            measure(
                grey, album.train[places].astype(np.float64), album.held_out.astype(np.float64), model=name
            )
        )
    return out


@dataclass(frozen=True)
class Lens:
    """Images moved and scaled so that public ones lie around 0 at a distance of about
    `REACH`, whatever their size."""

    centre: Floats
    scale: float

    @classmethod
    def fit(cls, public: Images) -> Lens:
        centre = public.mean(0, dtype=np.float64)
        return cls(centre, REACH / float(np.linalg.norm(public - centre, axis=1).mean()))

    def __call__(self, images: Images) -> Floats:
        return np.asarray((images - self.centre) * self.scale)

    def invert(self, points: Floats) -> Floats:
        return np.asarray(points / self.scale + self.centre)


def _first(labels: Labels, size: int) -> Labels:
    """The places of `size` images: the first of everyone, then the second of everyone, and so on."""
    rank = np.array([int((labels[:i] == label).sum()) for i, label in enumerate(labels)])
    return np.lexsort((labels, rank))[:size]
