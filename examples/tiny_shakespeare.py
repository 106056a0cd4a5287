"""A small character transformer learns English from public text, then Shakespeare's plays by LoRA: without protection,
with every speech protected at ε = 8, and with every speaker protected at ε = 8. Secrets that were planted in the
plays are then looked for in each model.

The public text is what every Python has: the docstrings of its standard library (PSF licence). The private text is
tiny-shakespeare (`deniable.datasets`, downloaded with its checksum on the first use). A few CPU minutes:

    python examples/tiny_shakespeare.py
"""

import ast
import copy
import math
import random
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deniable import Budget, Unit
from deniable.attack.models.memorize import Asked, Space, exposure, rank
from deniable.datasets import load
from deniable.learn.sgd import DPSGD, Learning, Lots, Privacy, Users
from deniable.ledger import Ledger

LETTERS = "\n" + "".join(map(chr, range(32, 127)))
DELTA = 1e-5
OWNERS = ("Anna", "Bert", "Carl", "Dora", "Emil", "Fay", "Gus", "Hana")
"""Each has a secret of four digits in a speech of his own; the last four have theirs in eight speeches each."""


@dataclass(frozen=True)
class Sizes:
    """How much is computed."""

    length: int = 48
    width: int = 64
    layers: int = 1
    rank: int = 8
    public_steps: int = 900
    epochs: int = 5
    lot: int = 320
    speaker_lot: int = 75
    epsilon: float = 8.0


# ------------------------------------------------------------------------------------------------ texts


def public_text(most: int = 2_000_000) -> str:
    """The docstrings of Python's standard library."""
    parts: list[str] = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8", errors="ignore"))
        kinds = ast.Module | ast.ClassDef | ast.FunctionDef
        parts += [
            doc for node in ast.walk(tree) if isinstance(node, kinds) and (doc := ast.get_docstring(node))
        ]
    return "\n\n".join(parts)[:most]


def speeches(text: str) -> list[tuple[str, str]]:
    """(speaker, what is said)."""
    parts = [part.partition(":\n") for part in text.split("\n\n")]
    return [(speaker.strip(), words.strip()) for speaker, colon, words in parts if colon and words.strip()]


def planted(seed: int = 1) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Speeches with secrets, and the secret of each owner."""
    source = random.Random(seed)
    secrets = {owner: f"{source.randrange(10_000):04}" for owner in OWNERS}
    copies = {owner: 1 if place < 4 else 8 for place, owner in enumerate(OWNERS)}
    said = [
        (owner.upper(), sentence(owner) + secrets[owner]) for owner in OWNERS for _ in range(copies[owner])
    ]
    return said, secrets


def sentence(owner: str) -> str:
    return f"The secret of {owner} is "


def numbers(lines: list[str], length: int) -> Tensor:
    """One row of letters for each line, −1 where there is none."""
    rows = np.full((len(lines), length), -1, np.int64)
    for row, line in zip(rows, lines, strict=True):
        codes = [at for c in line[:length] if (at := LETTERS.find(c)) >= 0]
        row[: len(codes)] = codes
    return torch.from_numpy(rows)


# ------------------------------------------------------------------------------------------------ the model


class Block(nn.Module):
    """Attention to what stands before, then a hidden layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asking, self.mixed = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        parts = self.asking(self.first(x)).view(rows, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.mixed(seen.transpose(1, 2).reshape(rows, length, width))
        out: Tensor = x + self.down(F.gelu(self.up(self.second(x))))
        return out


class Characters(nn.Module):
    """The next letter at every place of a row."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS) + 1, sizes.width)
        self.places = nn.Embedding(sizes.length, sizes.width)
        self.blocks = nn.Sequential(*(Block(sizes.width) for _ in range(sizes.layers)))
        self.norm, self.out = nn.LayerNorm(sizes.width), nn.Linear(sizes.width, len(LETTERS))

    def forward(self, codes: Tensor) -> Tensor:
        x = self.letters(codes + 1) + self.places(torch.arange(codes.shape[1])[None])
        out: Tensor = self.out(self.norm(self.blocks(x)))
        return out


class LowRank(nn.Module):
    """A frozen layer and a trainable one of low rank beside it, which begins at zero (LoRA, Hu et al. 2021)."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.inside = nn.Linear(layer.in_features, rank, bias=False)
        self.outside = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.outside.weight)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x) + 2 * self.outside(self.inside(x))
        return out


def with_low_rank(model: Characters, rank: int) -> Characters:
    adapted = copy.deepcopy(model).requires_grad_(False)
    for block in adapted.blocks:
        for name in ("asking", "mixed", "up", "down"):
            setattr(block, name, LowRank(getattr(block, name), rank))
    adapted.out = LowRank(adapted.out, rank)  # type: ignore[assignment]
    return adapted


def row_losses(logits: Tensor, codes: Tensor) -> Tensor:
    """Each row's mean over its letters; places without one count nothing."""
    targets = codes[:, 1:]
    losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), targets, reduction="none", ignore_index=-1)
    return losses.sum(1) / (targets >= 0).sum(1).clamp(min=1)


# ------------------------------------------------------------------------------------------------ training


def learn_public(sizes: Sizes, text: str) -> Characters:
    """Adam on windows of the public text."""
    torch.manual_seed(0)
    model = Characters(sizes)
    codes = torch.tensor([at for c in text if (at := LETTERS.find(c)) >= 0])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(sizes.public_steps):
        optimizer.param_groups[0]["lr"] = 2e-3 * (1 - step / sizes.public_steps)
        starts = torch.randint(len(codes) - sizes.length, (32, 1))
        lot = codes[starts + torch.arange(sizes.length)]
        optimizer.zero_grad()
        row_losses(model(lot), lot).mean().backward()
        optimizer.step()
    return model


def fine_tuned(base: Characters, rows: Tensor, sizes: Sizes) -> nn.Module:
    """LoRA without protection: Adam on shuffled batches."""
    model = with_low_rank(base, sizes.rank)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    for _ in range(sizes.epochs):
        for lot in torch.randperm(len(rows)).split(32):
            optimizer.zero_grad()
            row_losses(model(rows[lot]), rows[lot]).mean().backward()
            optimizer.step()
    return model


def privately(base: Characters, data: object, lots: Lots, unit: Unit, sizes: Sizes) -> nn.Module:
    """LoRA by DP-SGD, through an account that allows ε and not more."""
    run = DPSGD(
        with_low_rank(base, sizes.rank), row_losses, lots=lots,
        privacy=Privacy(epsilon=sizes.epsilon, delta=DELTA, clip=0.5, unit=unit),
        learning=Learning(optimizer=lambda parameters: torch.optim.Adam(parameters, lr=3e-3)),
    )  # fmt: skip
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("plays", unit, limit=Budget(sizes.epsilon, DELTA), purpose="run")
        return account.run(run, data, delta=DELTA).value.model


# ------------------------------------------------------------------------------------------------ what came of it


def bits(model: nn.Module, rows: Tensor) -> float:
    """Bits a letter on speeches that no model saw."""
    with torch.no_grad():
        return float(torch.cat([row_losses(model(lot), lot) for lot in rows.split(256)]).mean()) / math.log(2)


def asked(model: nn.Module, digits: str = "0123456789") -> Asked:
    """The model as an attacker asks it: which digit comes next?"""
    columns = [LETTERS.index(c) for c in digits]

    def answer(texts: list[str]) -> np.ndarray:
        with torch.no_grad():
            logits = model(numbers(texts, len(texts[0])))[:, -1]
        return np.asarray(torch.log_softmax(logits.double(), dim=1)[:, columns])

    return answer


def exposures(model: nn.Module, secrets: dict[str, str]) -> list[float]:
    """Bits of each secret that the model gives away, of log₂ 10,000 = 13.3; a model that never saw it has 1.4 on average."""
    spaces = {owner: Space(sentence(owner), 4) for owner in secrets}
    return [exposure(rank(asked(model), spaces[owner], secret), 10_000) for owner, secret in secrets.items()]


def compare(text: str, public: str, sizes: Sizes) -> Iterator[tuple[str, float, float, float]]:
    """For each model: its name, bits a letter, and the mean exposure of secrets said once and eight times."""
    said = speeches(text)
    random.Random(0).shuffle(said)
    test, (hidden, secrets) = said[: len(said) // 10], planted()
    train = said[len(said) // 10 :] + hidden
    names, lines = zip(*train, strict=True)
    rows, unseen = numbers(list(lines), sizes.length), numbers([line for _, line in test], sizes.length)
    base = learn_public(sizes, public)
    # How many speeches and speakers the plays have everybody knows; of private rows these would be stated, not counted.
    by_speech = Lots(n=len(rows), lot=sizes.lot, epochs=sizes.epochs)
    by_speaker = Lots(n=len(set(names)), lot=sizes.speaker_lot, epochs=sizes.epochs)
    speaker = Unit.column("speaker", max_rows=8)
    models = {
        "public text alone": lambda: base,
        "plays, no protection": lambda: fine_tuned(base, rows, sizes),
        f"plays, ε = {sizes.epsilon:g} by speech": lambda: privately(
            base, (rows, rows), by_speech, Unit.row(), sizes
        ),
        f"plays, ε = {sizes.epsilon:g} by speaker": lambda: privately(
            base, Users((rows, rows), names), by_speaker, speaker, sizes
        ),
    }
    for name, made in models.items():
        model = made().eval()
        shown = exposures(model, secrets)
        yield name, bits(model, unseen), sum(shown[:4]) / 4, sum(shown[4:]) / 4


def main() -> None:
    text = load("tiny-shakespeare")
    said = speeches(text)
    print(
        f"{len(said):,} speeches of {len({name for name, _ in said}):,} speakers; a tenth is kept for measuring"
    )
    print(f"{'':26}{'bits a letter':>14}{'secret said once':>18}{'eight times':>13}")
    for name, cost, once, often in compare(text, public_text(), Sizes()):
        print(f"{name:26}{cost:14.3f}{once:13.1f} bits{often:8.1f} bits", flush=True)


if __name__ == "__main__":
    main()
