"""Models of `transformers`, tiny and with their default dropout, in closed form and exact; LoRA by `peft`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hub
from torch import Tensor, nn

from deniable.learn.clip import BatchLoss, PerExample
from deniable.learn.clip.objective import objective
from tests.running.lazy import Lazy

peft = Lazy("peft")

ROWS, CLIP = 4, 0.5
torch.manual_seed(0)
IDS, LABELS = torch.randint(3, 50, (ROWS, 8)), torch.randint(0, 2, (ROWS,))
WORDS = {"input_ids": IDS, "attention_mask": torch.ones(ROWS, 8, dtype=torch.long)}
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
READER = {**SIZES, "vocab_size": 60, "max_position_embeddings": 32}


def next_word(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The mean over the words of a row."""
    out = model(**batch).logits[:, :-1].transpose(1, 2)
    return nn.functional.cross_entropy(out, batch["input_ids"][:, 1:], reduction="none").mean(1)


def adapted() -> nn.Module:
    model = hub.LlamaForCausalLM(hub.LlamaConfig(**READER, num_key_value_heads=1))
    settings = peft.LoraConfig(r=2, lora_alpha=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj"])
    made: nn.Module = peft.get_peft_model(model, settings)
    return made


def translated(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The mean over the words of a row's translation."""
    out = model(input_ids=batch["input_ids"], decoder_input_ids=batch["other"]).logits.transpose(1, 2)
    return nn.functional.cross_entropy(out, batch["other"], reduction="none").mean(1)


def translator(attention: str) -> nn.Module:
    sizes = {"vocab_size": 60, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    config = hub.T5Config(**sizes, decoder_start_token_id=0, attn_implementation=attention)
    made: nn.Module = hub.T5ForConditionalGeneration(config)
    return made


def experts(way: str) -> nn.Module:
    """Mixtral, whose experts see the words of all rows at once."""
    config = hub.MixtralConfig(**READER, num_key_value_heads=1, num_local_experts=4)
    config._experts_implementation = way
    made: nn.Module = hub.MixtralForCausalLM(config)
    return made


MODELS: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "BERT": (
        lambda: hub.BertForSequenceClassification(hub.BertConfig(**READER)),
        nn.CrossEntropyLoss(),
        WORDS | {"labels": LABELS},
    ),
    "GPT-2": (
        lambda: hub.GPT2LMHeadModel(
            hub.GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=60, n_positions=32)
        ),
        BatchLoss(next_word),
        WORDS,
    ),
    "ViT": (
        lambda: hub.ViTForImageClassification(hub.ViTConfig(**SIZES, image_size=8, patch_size=4)),
        nn.CrossEntropyLoss(),
        {"pixel_values": torch.randn(ROWS, 3, 8, 8), "labels": LABELS},
    ),
    "LoRA": (adapted, BatchLoss(next_word), WORDS),
    "T5": (
        lambda: translator("sdpa"),
        BatchLoss(translated),
        {"input_ids": IDS, "other": IDS.flip(1)},
    ),
    "T5 by products": (
        lambda: translator("eager"),
        BatchLoss(translated),
        {"input_ids": IDS, "other": IDS.flip(1)},
    ),
    "Mixtral": (lambda: experts("grouped_mm"), BatchLoss(next_word), WORDS),
    "Mixtral by a loop": (lambda: experts("eager"), BatchLoss(next_word), WORDS),
    "OPT": (
        lambda: hub.OPTForCausalLM(
            hub.OPTConfig(
                vocab_size=60,
                hidden_size=16,
                ffn_dim=32,
                num_hidden_layers=1,
                num_attention_heads=2,
                word_embed_proj_dim=16,
                max_position_embeddings=32,
            )
        ),
        BatchLoss(next_word),
        WORDS,
    ),
    "Gemma": (
        lambda: hub.GemmaForCausalLM(hub.GemmaConfig(**READER, num_key_value_heads=1, head_dim=8)),
        BatchLoss(next_word),
        WORDS,
    ),
}


def alone(model: nn.Module, criterion: Any, batch: dict[str, Tensor], i: int) -> Tensor:
    """The gradient of one row by autograd."""
    trained = [p for p in model.parameters() if p.requires_grad]
    loss = objective(criterion)(model, {name: part[i : i + 1] for name, part in batch.items()}).sum()
    found = torch.autograd.grad(loss, trained, allow_unused=True)
    return torch.cat(
        [(torch.zeros_like(p) if g is None else g).flatten() for p, g in zip(trained, found, strict=True)]
    ).double()


DROPPING = "BERT", "T5"
"""Models that drop by default, one of each kind of attention; all of them by `make soak`."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in DROPPING else pytest.mark.soak) for name in MODELS]
)
def test_in_closed_form_with_default_dropout(name: str) -> None:
    build, criterion, batch = MODELS[name]
    torch.manual_seed(1)
    assert PerExample(build().train(), criterion).method(batch) == "closed form"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", MODELS)
def test_in_closed_form_and_exact_without_dropout(name: str) -> None:
    build, criterion, batch = MODELS[name]
    torch.manual_seed(1)
    model = build().eval()
    clipper = PerExample(model, criterion)
    assert clipper.method(batch) == "closed form"
    rows = [alone(model, criterion, batch, i) for i in range(ROWS)]
    right = sum(g * min(1.0, CLIP / float(g.norm())) for g in rows)
    got = clipper(batch, clip=CLIP).vectors["all"].double()
    assert float((got - right).norm()) < 1e-4 * CLIP
    for i in range(ROWS):
        one = clipper({part: values[i : i + 1] for part, values in batch.items()}, clip=CLIP).vectors["all"]
        assert float(one.double().norm()) <= CLIP
