"""The worked example of fine-tuning, in a small form on made-up plays: all its models are trained and asked."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

from tests.meta.source import ROOT

PLAYS = "\n\n".join(f"SPEAKER {k % 12}:\nSpeech number {k}, and a word more." for k in range(120))


def example() -> Any:
    spec = importlib.util.spec_from_file_location(
        "tiny_shakespeare", ROOT / "examples" / "tiny_shakespeare.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_model_of_the_example_is_trained_and_asked() -> None:
    module = example()
    sizes = module.Sizes(
        length=30, width=8, rank=2, public_steps=5, epochs=1, lot=72, speaker_lot=10, epsilon=30.0
    )
    rows = list(module.compare(PLAYS, "Some public text, and a little more. " * 9, sizes))
    assert [name for name, *_ in rows] == [
        "public text alone", "plays, no protection", "plays, ε = 30 by speech", "plays, ε = 30 by speaker"
    ]  # fmt: skip
    for _, bits, once, often in rows:
        assert 0 < bits < 10
        assert all(0 <= exposed <= math.log2(10_000) for exposed in (once, often))


def test_speeches_and_secrets_are_read_as_they_stand() -> None:
    module = example()
    assert module.speeches(PLAYS)[13] == ("SPEAKER 1", "Speech number 13, and a word more.")
    said, secrets = module.planted()
    assert len(said) == 4 + 4 * 8
    assert all(any(words.endswith(secret) for _, words in said) for secret in secrets.values())
    assert len(module.sentence("Anna")) + 4 <= module.Sizes().length
    assert len(module.public_text()) > 100_000
