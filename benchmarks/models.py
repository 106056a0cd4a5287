"""Which models go through DP-SGD in closed form, and of which it is proved that rows are kept apart.

    python benchmarks/models.py

Prints a line for each model: how its examples are clipped, how it is known that rows are apart, and why not more. The
transformers are made from small configurations, so nothing is downloaded.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F

from deniable.errors import DeniableError
from deniable.learn.clip import BatchLoss, PerExample

ROWS, LENGTH, WORDS = 4, 16, 99
SMALL = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
WIDE = SMALL | {"intermediate_size": 64}
Model = tuple[nn.Module, Any, Any]


class Between(nn.Module):
    """A linear layer, a function of what it gives, and a second layer."""

    def __init__(self, between: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last, self.between = nn.Linear(6, 8), nn.Linear(8, 3), between

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.between(self.first(x)))
        return out


class Recurrent(nn.Module):
    """Words through a recurrent layer."""

    def __init__(self, kind: Callable[..., nn.Module], **options: Any) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 8)
        self.inner = kind(8, 8, batch_first=True, **options)
        self.head = nn.Linear(16 if options.get("bidirectional") else 8, 3)

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.head(self.inner(self.words(ids))[0][:, -1])
        return out


class Block(nn.Module):
    """Two convolutions and a way past them, as in a ResNet."""

    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(into, out, 3, stride, 1), nn.Conv2d(out, out, 3, 1, 1)
        self.past, self.norm = nn.Conv2d(into, out, 1, stride), nn.GroupNorm(4, out)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.second(F.relu(self.first(x)))) + self.past(x))


def next_word(model: nn.Module, rows: dict[str, Tensor]) -> Tensor:
    logits = model(input_ids=rows["input_ids"], attention_mask=rows["attention_mask"]).logits[:, :-1]
    return F.cross_entropy(logits.transpose(1, 2), rows["input_ids"][:, 1:], reduction="none").mean(1)


def translated(model: nn.Module, rows: dict[str, Tensor]) -> Tensor:
    logits = model(input_ids=rows["input_ids"], labels=rows["labels"]).logits
    return F.cross_entropy(logits.transpose(1, 2), rows["labels"], reduction="none").mean(1)


def small_models() -> Iterator[tuple[str, Model]]:
    loss, y = nn.CrossEntropyLoss(), torch.arange(ROWS) % 3
    x, ids, pictures = (
        torch.randn(ROWS, 6),
        torch.randint(1, WORDS, (ROWS, LENGTH)),
        torch.randn(ROWS, 3, 16, 16),
    )
    yield "MLP", (nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), loss, (x, y))
    convolutions = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(392, 3)
    )
    yield "CNN", (convolutions, loss, (pictures, y))
    ends = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 3)
    yield "ResNet, group norm", (nn.Sequential(Block(3, 16, 1), Block(16, 32, 2), *ends), loss, (pictures, y))
    yield "sine between layers", (Between(torch.sin), loss, (x, y))
    yield "a branch by the numbers", (Between(lambda h: h * 2 if h[0, 0] > 1e9 else h), loss, (x, y))
    yield "LSTM", (Recurrent(nn.LSTM), loss, (ids, y))
    yield "LSTM, both ways, 2 layers", (Recurrent(nn.LSTM, bidirectional=True, num_layers=2), loss, (ids, y))
    yield "GRU", (Recurrent(nn.GRU), loss, (ids, y))
    yield "bag of words", (nn.Sequential(nn.EmbeddingBag(WORDS, 8), nn.Linear(8, 3)), loss, (ids, y))
    yield "weight norm", (nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)), loss, (x, y))
    yield "orthogonal weight", (nn.utils.parametrizations.orthogonal(nn.Linear(6, 3)), loss, (x, y))
    yield "bilinear", (Bilinear(), loss, (x, y))
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.Sequential(
        nn.Embedding(WORDS, 8), nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(128, 3)
    )
    yield "transformer encoder", (encoder, loss, (ids, y))


class Bilinear(nn.Module):
    """A product of a row with itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Bilinear(6, 6, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x, x)
        return out


def hub_models() -> Iterator[tuple[str, Model]]:
    ids = torch.randint(1, WORDS, (ROWS, LENGTH))
    text = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    classes = (text, torch.arange(ROWS) % 2)
    t = transformers
    for name in ("Bert", "Roberta", "Electra", "DistilBert", "Deberta", "MobileBert"):
        yield name, (_of(name, "ForSequenceClassification"), nn.CrossEntropyLoss(), classes)
    for name in (
        "GPT2",
        "GPTNeoX",
        "OPT",
        "Llama",
        "Mistral",
        "Qwen2",
        "Gemma",
        "Phi",
        "Bloom",
        "Mixtral",
        "Mamba",
    ):
        head = "LMHeadModel" if name == "GPT2" else "ForCausalLM"
        yield name, (_of(name, head), BatchLoss(next_word), text)
    config = t.T5Config(vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, pad_token_id=0,
                        decoder_start_token_id=0)  # fmt: skip
    yield (
        "T5",
        (t.T5ForConditionalGeneration(config), BatchLoss(translated), {"input_ids": ids, "labels": ids}),
    )
    pictures = torch.randn(ROWS, 3, 32, 32), torch.arange(ROWS) % 2
    sizes = {name: WIDE[name] for name in WIDE if name != "vocab_size"} | {"image_size": 32, "patch_size": 8}
    yield "ViT", (t.ViTForImageClassification(t.ViTConfig(**sizes)), nn.CrossEntropyLoss(), pictures)
    next_size = t.ConvNextConfig(depths=[1, 1], hidden_sizes=[16, 32], num_stages=2)
    yield "ConvNext", (t.ConvNextForImageClassification(next_size), nn.CrossEntropyLoss(), pictures)


def _of(name: str, head: str) -> nn.Module:
    """A small model of this name, whatever its configuration calls its sizes."""
    config = getattr(transformers, f"{name}Config")()
    sizes = {
        "vocab_size": WORDS, "hidden_size": 32, "n_embd": 32, "dim": 32, "d_model": 32, "embedding_size": 32,
        "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4,
        "num_key_value_heads": 4, "intermediate_size": 64, "hidden_dim": 64, "ffn_dim": 64, "head_dim": 8,
        "word_embed_proj_dim": 32, "max_position_embeddings": 64, "n_positions": 64, "num_local_experts": 2,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "attn_implementation": "sdpa",
    }  # fmt: skip
    options = {key: value for key, value in sizes.items() if key in vars(config)}
    return getattr(transformers, name + head)(type(config)(**options))  # type: ignore[no-any-return]


def line(name: str, model: Model) -> tuple[str, str, str]:
    network, criterion, rows = model
    clipper = PerExample(network, criterion)
    try:
        clipper.check(rows)
        return (
            clipper.method(rows).split(" (")[0],
            str(clipper.apart(rows)),
            clipper._way(clipper._batch(rows)).reason,
        )
    except DeniableError as error:
        return "refused", "", str(error)


def main() -> None:
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    proved = total = 0
    for models in (small_models(), hub_models()):
        while True:
            try:
                name, model = next(models)
            except StopIteration:
                break
            method, apart, reason = line(name, model)
            proved, total = proved + apart.startswith("proved"), total + 1
            print(f"{name:28} {method:12} {apart:16} {reason[:100]}", flush=True)
    print(f"rows apart proved: {proved} of {total}")


if __name__ == "__main__":
    main()
