"""A small character model with secrets in its training text, trained with and without DP-SGD.

Embeddings, one causal convolution over the last characters, one linear layer. The protected unit is a line of
text: each line is one example of DP-SGD, however many characters it has.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from deniable import extras
from deniable.attack import asking
from deniable.attack.learnt import Learnt
from deniable.attack.members.coins import Watch, iterate_silently
from deniable.attack.models import memorize
from deniable.attack.models.memorize import Asked, Space
from deniable.errors import InvalidParameter
from deniable.guarantee import DEFAULT_DELTA
from deniable.learn.sgd import DPSGD

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise extras.missing("The character model needs PyTorch", "learn") from None

ATTACK = "memorize"
CONTEXT = 12
WIDTH = 48
PAD = 0
OWNERS = ("anna", "bert", "carl", "dora", "emil", "fay", "gus", "hana")
"""Made-up owners of the secrets; each has a sentence of their own."""


class Characters(nn.Module):
    """The next character's logits at every place of a line, from the `CONTEXT` characters before it."""

    def __init__(self, letters: int, hidden: int = 96) -> None:
        super().__init__()
        self.embedding = nn.Embedding(letters + 1, 16)
        self.convolution = nn.Conv1d(16, hidden, CONTEXT)
        self.head = nn.Linear(hidden, letters + 1)

    def forward(self, x: Tensor) -> Tensor:
        inside = torch.relu(self.convolution(self.embedding(x).transpose(1, 2)))
        out: Tensor = self.head(inside.transpose(1, 2))
        return out


def line_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy of each line's characters, padding left out."""
    each = nn.functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none", ignore_index=PAD)
    return each.sum(1) / (targets != PAD).sum(1).clamp(min=1)


def encode_lines(lines: Sequence[str], letters: str) -> tuple[Tensor, Tensor]:
    """Lines as numbers: the characters before each place, and those at it. 0 is no
    character; unknown ones are 0 too."""
    rows = np.full((len(lines), CONTEXT + WIDTH), PAD, np.int64)
    for row, line in zip(rows, lines, strict=True):
        codes = [letters.find(c) + 1 for c in line[:WIDTH]]
        row[CONTEXT : CONTEXT + len(codes)] = codes
    return torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, CONTEXT:].copy())


def ask_model(model: nn.Module, letters: str, alphabet: str) -> Asked:
    """The model as `memorize` asks it: log-probabilities of the alphabet's characters after each text."""
    columns = torch.tensor([letters.index(c) + 1 for c in alphabet])

    def answer(texts: list[str]) -> NDArray[np.float64]:
        rows = np.full((len(texts), CONTEXT), PAD, np.int64)
        for row, text in zip(rows, texts, strict=True):
            codes = [letters.find(c) + 1 for c in text[-CONTEXT:]]
            row[CONTEXT - len(codes) :] = codes
        with torch.no_grad():
            logits = model(torch.from_numpy(rows))[:, 0]
        return np.asarray(torch.log_softmax(logits.double(), dim=1)[:, columns].numpy())

    return answer


# ------------------------------------------------------------------------------------------------ training


def train_plain(model: nn.Module, x: Tensor, y: Tensor, *, epochs: int, seed: int, watch: Watch) -> nn.Module:
    """Adam on minibatches of 32 lines."""
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    g = torch.Generator().manual_seed(seed)
    for _ in watch(range(epochs), "Training without protection"):
        order = torch.randperm(len(x), generator=g)
        for start in range(0, len(x), 32):
            lot = order[start : start + 32]
            optimiser.zero_grad()
            line_loss(model(x[lot]), y[lot]).mean().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return model


def private(
    model: nn.Module, x: Tensor, y: Tensor, *, epochs: int, epsilon: float, delta: float = DEFAULT_DELTA
) -> nn.Module:
    """DP-SGD through an account of (ε, δ): the text is public here, so its number of
    lines may be stated as n."""
    run = DPSGD.from_keywords(
        model,
        line_loss,
        n=len(x),
        lot=min(256, len(x)),
        epochs=epochs,
        clip=1.0,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=3e-3),
        epsilon=epsilon,
        delta=delta,
    )
    return cast(nn.Module, asking.release_model(run, (x, y), epsilon=epsilon, delta=delta))


# --------------------------------------------------------------------------------------------- the experiment


@dataclass(frozen=True)
class TextCanary:
    """A secret, its sentence, and how often it stands in the text."""

    space: Space
    secret: str
    copies: int

    @property
    def line(self) -> str:
        return self.space.prefix + self.secret


@dataclass(frozen=True)
class Exposed:
    """What a model knows of a canary."""

    canary: TextCanary
    rank: int
    sample_bits: float
    law_bits: float
    completion: str

    @property
    def exposure(self) -> float:
        return memorize.exposure(self.rank, self.canary.space.size)

    @property
    def is_extracted(self) -> bool:
        return self.completion == self.canary.secret


def canaries(copies: Sequence[int], digits: int, seed: int) -> list[TextCanary]:
    if not 1 <= len(copies) <= len(OWNERS) or min(copies) < 0:
        raise InvalidParameter(
            f"Expected 1 to {len(OWNERS)} numbers of copies, none negative, got {list(copies)}."
        )
    g = np.random.default_rng(seed)
    spaces = [Space(f"{owner}'s number is ", digits) for owner in OWNERS]
    return [
        TextCanary(s, s.secret_at(int(g.integers(s.size))), c) for s, c in zip(spaces, copies, strict=False)
    ]


def measure(
    model: nn.Module, letters: str, canaries: Sequence[TextCanary], *, seed: int = 0
) -> list[Exposed]:
    """Rank, estimates and completion of every canary."""
    out = []
    for canary in canaries:
        space, secret = canary.space, canary.secret
        ask = ask_model(model, letters, space.alphabet)
        by_count = memorize.sample_exposure(ask, space, secret, seed=seed)
        by_law = memorize.extrapolate_exposure(ask, space, secret, seed=seed)
        first = memorize.likeliest(ask, space)[0][0]
        out.append(Exposed(canary, memorize.rank(ask, space, secret), by_count, by_law, first))
    return out


def compare(
    lines: Sequence[str],
    *,
    copies: Sequence[int] = (0, 1, 4, 16),
    digits: int = 6,
    epochs: int = 12,
    epsilon: float = 2.0,
    seed: int = 0,
    watch: Watch = iterate_silently,
) -> dict[str, list[Exposed]]:
    """The same text with the same canaries, learnt without protection and by DP-SGD."""
    secrets = canaries(copies, digits, seed)
    text = [line for line in lines if line.strip()] + [c.line for c in secrets for _ in range(c.copies)]
    letters = "".join(sorted(set("".join(text)) | set("0123456789") | set("".join(c.line for c in secrets))))
    x, y = encode_lines(text, letters)
    torch.manual_seed(seed)
    start = Characters(len(letters))
    models = {
        "plain": train_plain(copy.deepcopy(start), x, y, epochs=epochs, seed=seed, watch=watch),
        f"private, ε = {epsilon:g}": private(start, x, y, epochs=epochs, epsilon=epsilon),
    }
    return {name: measure(model, letters, secrets, seed=seed) for name, model in models.items()}


def _times(number: int) -> str:
    return {0: "never", 1: "once"}.get(number, f"{number} times")


def learnt(name: str, exposures: Sequence[Exposed]) -> Learnt:
    """How many of the planted secrets the model completes by itself."""
    present = [secret for secret in exposures if secret.canary.copies]
    right = sum(secret.is_extracted for secret in present)
    top = max(exposures, key=lambda secret: secret.exposure)
    bits = np.log2(top.canary.space.size)
    reading = (
        f"{name}: asked to complete the sentence, the model gives away {right} of {len(present)} secrets. "
        f"The one of largest exposure ({_times(top.canary.copies)} in the text): {top.exposure:.1f} of "
        f"{bits:.1f} bits, rank {top.rank:,} of {top.canary.space.size:,}."
    )
    facts = [
        {
            "copies": secret.canary.copies,
            "rank": secret.rank,
            "exposure": secret.exposure,
            "sampled": secret.sample_bits,
            "extrapolated": secret.law_bits,
            "extracted": secret.is_extracted,
        }
        for secret in exposures
    ]
    return Learnt(
        ATTACK, name, right, len(present), 1 / top.canary.space.size, reading, facts={"canaries": facts}
    )
