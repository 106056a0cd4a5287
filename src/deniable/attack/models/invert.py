"""Model inversion: what does a model that recognises people show of what they look like?

Who holds the model and a label searches for an image that the model takes for it:

    confidence   gradient ascent on the model's confidence, pixel by pixel from grey (Fredrikson et al. 2015)
    public mean  the same from the mean of other, public people, by smooth steps and only until the model is
                 rather sure
    generator    the same among images that look like faces: a generator learnt on other, public people gives
                 the images, and the search is for its code z, identity + prior:
                 −ln p(label | G(z)) + ½‖z‖² (GMI, Zhang et al. 2020)

GMI's generator is an adversarial network learnt on many thousand faces. The public half of a small set has
two hundred images, which such a network learns by heart, so ours is probabilistic PCA (Tipping, Bishop 1999):
its best fit is known in closed form, and −ln p(z) is a true prior where GMI has a critic's score.

The image found is one of the *class*. Differential privacy for an image hides whether that image was there,
not what all images of the class have in common; `measure` tells the two apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn, idctn
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import Pipeline, make_pipeline

from deniable import extras
from deniable.attack import asking
from deniable.attack.learnt import Floats, Learnt, percent
from deniable.attack.members.coins import Watch, iterate_silently
from deniable.datasets.real import load
from deniable.errors import InvalidParameter
from deniable.guarantee import DEFAULT_DELTA
from deniable.learn.sgd import DPSGD

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise extras.missing("Model inversion needs PyTorch", "learn") from None

ATTACK = "invert"
FINEST = 0.01
"""Of the squared frequency, in units of the finest: coarser waves than this are not favoured any further."""
Images: TypeAlias = NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int64]


# ------------------------------------------------------------------------------------------------ data


@dataclass(frozen=True)
class Album:
    """Images as rows of grey values from 0 to 1. The model is trained on `train` of the private people,
    `held_out` are others of the same people that it never saw; `public` shows other people."""

    shape: tuple[int, int]
    public: Images
    train: Images
    train_labels: Labels
    held_out: Images
    held_out_labels: Labels

    @property
    def people(self) -> int:
        return int(self.train_labels.max()) + 1

    @property
    def first(self) -> Images:
        """An image of each person that the model was trained on."""
        return np.array([self.train[self.train_labels == k][0] for k in range(self.people)])

    @property
    def means(self) -> Images:
        """The mean of all images of each person."""
        photos, owner = np.vstack([self.train, self.held_out]), np.r_[self.train_labels, self.held_out_labels]
        return np.array([photos[owner == k].mean(0) for k in range(self.people)])


def album(data: str = "digits", people: int | None = None, *, seed: int = 0) -> Album:
    """`faces`: the ORL faces, every fourth pixel by means, half the people public. `digits`: scikit-learn's,
    each digit in the place of a person."""
    if data not in ("faces", "digits"):
        raise InvalidParameter(f"Expected data={data!r} to be faces or digits.")
    images, labels, shape = _faces() if data == "faces" else _digits()
    most = int(labels.max()) + 1
    people = most // 2 if people is None else people
    if not 2 <= people <= most - 2:
        raise InvalidParameter(
            f"Expected people={people} between 2 and {most - 2}; the rest of {data} is public."
        )
    g = np.random.default_rng(seed)
    place = np.argsort(g.permutation(most))[labels]  # private people first
    halves = np.zeros(len(labels), np.bool_)
    for person in range(people):
        own = g.permutation(np.flatnonzero(place == person))
        halves[own[: len(own) // 2]] = True
    other = (place < people) & ~halves
    return Album(shape, images[place >= people], images[halves], place[halves], images[other], place[other])


def _faces() -> tuple[Images, Labels, tuple[int, int]]:
    data = load("orl-faces")
    blocks = data.images.reshape(len(data.images), 28, 4, 23, 4).mean(axis=(2, 4)) / 255
    return blocks.reshape(len(blocks), -1).astype(np.float32), data.person.astype(np.int64), (28, 23)


def _digits() -> tuple[Images, Labels, tuple[int, int]]:
    x, y = load_digits(return_X_y=True)
    return (x / 16).astype(np.float32), y.astype(np.int64), (8, 8)


# ------------------------------------------------------------------------------------------------ targets


def network(pixels: int, people: int, *, hidden: int = 64, seed: int = 0) -> nn.Module:
    """One hidden layer, or softmax regression without (`hidden=0`). It centres grey values by itself."""
    torch.manual_seed(seed)
    layers = (
        [nn.Linear(pixels, hidden), nn.Tanh(), nn.Linear(hidden, people)]
        if hidden
        else [nn.Linear(pixels, people)]
    )
    return nn.Sequential(Centred(), *layers)


class Centred(nn.Module):
    """Grey values from −1 to 1."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x - 1


def train_plain(model: nn.Module, x: Images, y: Labels, *, steps: int = 300) -> nn.Module:
    """All images at every step, by Adam, with a weight decay as usual."""
    rows, labels = torch.from_numpy(x), torch.from_numpy(y)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(rows), labels).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return model


def private(
    model: nn.Module, x: Images, y: Labels, *, epsilon: float, delta: float = DEFAULT_DELTA
) -> nn.Module:
    """DP-SGD through an account of (ε, δ), for an image: a person with k images has k·ε.
    The number of images is public here."""
    run = DPSGD.from_keywords(
        model,
        nn.CrossEntropyLoss(reduction="none"),
        n=len(x),
        lot=len(x) // 2,
        steps=min(60, len(x) // 2),  # the fewer images, the fewer steps their sum can outweigh the noise of
        clip=1.0,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=1e-2),
        epsilon=epsilon,
        delta=delta,
        progress=False,
    )
    rows = torch.from_numpy(x), torch.from_numpy(y)
    return cast(nn.Module, asking.release_model(run, rows, epsilon=epsilon, delta=delta))


def accuracy(model: nn.Module, x: Images, y: Labels) -> float:
    with torch.no_grad():
        return float((model(torch.from_numpy(x)).argmax(1).numpy() == y).mean())


# ------------------------------------------------------------------------------------------------ attacks


@dataclass(frozen=True)
class FaceGenerator:
    """Probabilistic PCA: an image is mean + basis·z with z standard normal, and white
    noise that is left out."""

    mean: Tensor
    basis: Tensor

    @classmethod
    def learn(cls, public: Images, size: int) -> FaceGenerator:
        """The likeliest: basis = U·√(Λ − σ²), σ² the mean of the eigenvalues left
        (Tipping, Bishop 1999, eq. 7 and 8)."""
        analysis = PCA(size, svd_solver="full").fit(public.astype(np.float64))
        stretch = np.sqrt(np.maximum(analysis.explained_variance_ - analysis.noise_variance_, 0))
        mean, basis = analysis.mean_, analysis.components_ * stretch[:, None]
        return cls(torch.from_numpy(mean).float(), torch.from_numpy(basis).float())

    def __call__(self, z: Tensor) -> Tensor:
        return (self.mean + z @ self.basis).clamp(0, 1)


def by_confidence(
    model: nn.Module, people: int, pixels: int, *, steps: int = 300, stop_at: float = 0.9999
) -> Images:
    """The grey image for each person, made ever more the person's in the model's eyes
    until it is sure: no knowledge of faces."""
    return _ascend(model, torch.full((people, pixels), 0.5), lambda slope: slope, steps, stop_at)


def by_public_mean(
    model: nn.Module,
    people: int,
    public: Images,
    shape: tuple[int, int],
    *,
    steps: int = 300,
    stop_at: float = 0.99,
) -> Images:
    """The mean of all public images, for each person changed smoothly until the model is rather sure. What is
    known of faces is that mean and that faces are smooth: coarse waves of a step count for more than fine
    ones."""
    start = torch.from_numpy(public.mean(0)).expand(people, -1)
    height, width = shape
    waves = np.add.outer((np.arange(height) / height) ** 2, (np.arange(width) / width) ** 2)
    gain = 1 / np.sqrt(FINEST + waves)

    def smooth(slope: Tensor) -> Tensor:
        spectrum = dctn(slope.numpy().reshape(-1, height, width), axes=(1, 2), norm="ortho")
        image = idctn(spectrum * gain, axes=(1, 2), norm="ortho")
        return torch.from_numpy(image.reshape(slope.shape).astype(np.float32))

    return _ascend(model, start, smooth, steps, stop_at)


def _ascend(
    model: nn.Module, start: Tensor, project: Callable[[Tensor], Tensor], steps: int, stop_at: float
) -> Images:
    """Row k after steps of one length towards a surer k."""
    x, labels = start.clone(), torch.arange(len(start))
    for _ in range(steps):
        x.requires_grad_()
        identity = nn.functional.cross_entropy(model(x), labels, reduction="none")
        (gradient,) = torch.autograd.grad(identity.sum(), x)
        slope = project(gradient)
        step = 0.1 * slope / slope.norm(dim=1, keepdim=True).clamp(min=1e-12)
        unsure = (identity > -math.log(stop_at))[:, None]
        x = (x - step * unsure).clamp(0, 1).detach()
    return x.numpy()


def by_generator(
    model: nn.Module, people: int, generator: FaceGenerator, *, steps: int = 300, weight: float = 0.02
) -> Images:
    """The generated image of least identity loss + `weight` times the prior's, for each person."""
    z, labels = torch.zeros(people, len(generator.basis), requires_grad=True), torch.arange(people)
    optimiser = torch.optim.Adam([z], lr=0.05)
    for _ in range(steps):
        optimiser.zero_grad()
        identity = nn.functional.cross_entropy(model(generator(z)), labels, reduction="sum")
        (identity + weight * (z**2).sum() / 2).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return generator(z).detach().numpy()


# ------------------------------------------------------------------------------------------------ measuring


@dataclass(frozen=True)
class InvertedImages:
    """An image for each person, found in one model by one attack, and what it shows.

    `hits`: the evaluator, which shares no image with the model, names the person. `nearest_own`,
    `nearest_other`: the distance to the nearest image of the person and of any other. `to_mean`: to the mean
    of the person's images. `seen_first`: the person's nearest image is one that the model was trained on;
    half of them are, so chance is a half.
    """

    model: str
    attack: str
    images: Images
    accuracy: float
    hits: NDArray[np.bool_]
    nearest_own: Floats
    nearest_other: Floats
    to_mean: Floats
    seen_first: NDArray[np.bool_]

    def learnt(self) -> Learnt:
        people, right = len(self.hits), int(self.hits.sum())
        own, other, mean = (float(d.mean()) for d in (self.nearest_own, self.nearest_other, self.to_mean))
        closer = int((self.nearest_own < self.nearest_other).sum())
        reading = (
            f"{self.model}, by {self.attack}: another recogniser names the right one in {right} of {people} "
            f"images found, where chance gives {percent(1 / people)}; {closer} are nearer to an image of the "
            f"right one than to anybody else's. They are {own:.2f} from the nearest image and {mean:.2f} "
            "from the mean of the class; the nearest is one that the model was trained on in "
            f"{int(self.seen_first.sum())} of {people}, where chance gives half."
        )
        facts = {
            "accuracy": self.accuracy,
            "closer_to_own": closer,
            "distance_own": own,
            "distance_other": other,
            "distance_mean": mean,
            "trained_on_nearest": int(self.seen_first.sum()),
        }
        return Learnt(
            ATTACK, f"{self.model}, by {self.attack}", right, people, 1 / people, reading, facts=facts
        )


def evaluator(x: Images, y: Labels) -> Pipeline:
    """Fisherfaces (Belhumeur et al. 1997): discriminants of the principal components.
    Another kind of model than the target."""
    size = min(40, len(x) - int(y.max()) - 2, x.shape[1])
    judge: Pipeline = make_pipeline(
        PCA(size, svd_solver="full"), LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3)
    ).fit(x, y)
    return judge


def measure(
    images: Images, album: Album, judge: Pipeline, *, model: str, attack: str, accuracy: float = 0.0
) -> InvertedImages:
    """Row k of `images` against the images of person k and of all others."""
    people = np.arange(album.people)
    photos, owner = np.vstack([album.train, album.held_out]), np.r_[album.train_labels, album.held_out_labels]
    distance = np.linalg.norm(images[:, None, :].astype(np.float64) - photos[None], axis=2)
    own, far = owner == people[:, None], np.inf
    return InvertedImages(
        model,
        attack,
        images,
        accuracy,
        np.asarray(judge.predict(images) == people),
        np.where(own, distance, far).min(1),
        np.where(own, far, distance).min(1),
        np.linalg.norm(images - album.means, axis=1).astype(np.float64),
        np.where(own, distance, far).argmin(1) < len(album.train),
    )


def compare(
    album: Album, *, epsilon: float = 2.0, hidden: int = 64, seed: int = 0, watch: Watch = iterate_silently
) -> list[InvertedImages]:
    """Three attacks on a model trained without protection and on one trained by DP-SGD on the same images."""
    pixels = album.train.shape[1]
    judge = evaluator(album.held_out, album.held_out_labels)
    generator = FaceGenerator.learn(album.public, min(60, pixels // 2, len(album.public) - 1))
    results = []
    for k in watch(range(2), "Training and inverting"):
        model, name = network(pixels, album.people, hidden=hidden, seed=seed), "plain"
        if k:
            model, name = (
                private(model, album.train, album.train_labels, epsilon=epsilon),
                f"private, ε = {epsilon:g}",
            )
        else:
            train_plain(model, album.train, album.train_labels)
        right = accuracy(model, album.held_out, album.held_out_labels)
        guesses = {
            "confidence": by_confidence(model, album.people, pixels),
            "public mean": by_public_mean(model, album.people, album.public, album.shape),
            "generator": by_generator(model, album.people, generator),
        }
        results += [
            measure(v, album, judge, model=name, attack=attack, accuracy=right)
            for attack, v in guesses.items()
        ]
    return results
