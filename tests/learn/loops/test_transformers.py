"""Private training in the loop of `transformers.Trainer`: the same run as in one's own loop, no training loss in its
logs, releases only in its checkpoints, and taken up after it broke off."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hub
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset
from transformers.modeling_outputs import CausalLMOutput

from deniable.errors import InvalidParameter, LedgerError
from deniable.learn.loops import next_token_losses
from deniable.learn.loops.transformers import PrivateTrainer
from deniable.learn.sgd import DPSGD, BatchLoss, make_private
from deniable.ledger import Account, Ledger
from deniable.randomness import SeededRandom
from tests.learn.loops.loop_models import account_of, kinds, run_of, same, weights

WORDS, LENGTH, N, LOT, PASS = 12, 6, 180, 36, 5  # smaller lots are tried in several batches
STEPS = 2 * PASS
ROW = {name: torch.zeros(LENGTH, dtype=torch.int64) for name in ("input_ids", "labels")}


class Counting(Dataset[Any]):
    """Rows that count up from a number of their own."""

    def __init__(self, size: int, start: int = 0) -> None:
        self.ids = (torch.arange(size)[:, None] + start + torch.arange(LENGTH)) % WORDS

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> dict[str, Tensor]:
        torch.rand(1)  # as a random view would
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class Reader(nn.Module):
    """The next word from the word before, in the manner of a hub model."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(WORDS, 8), nn.Linear(8, WORDS)

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> Any:
        logits = self.out(self.words(input_ids))
        loss = (
            None if labels is None else F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        )
        return CausalLMOutput(loss=loss, logits=logits)


def model_of() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Reader()


def gpt2() -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes: dict[str, Any] = {"n_positions": LENGTH, "n_embd": 8, "n_layer": 1, "n_head": 2}
        return hub.GPT2LMHeadModel(
            hub.GPT2Config(vocab_size=WORDS, bos_token_id=0, eos_token_id=0, loss_type="ForCausalLM", **sizes)
        )


def small(model: Any, **lots: Any) -> DPSGD:
    sizes = {"n": N, "lot": LOT, "steps": STEPS} | lots
    return run_of(model, BatchLoss(next_token_losses), ROW, **sizes)


def arguments(folder: Path, **given: Any) -> hub.TrainingArguments:
    settings: dict[str, Any] = {
        "output_dir": str(folder), "num_train_epochs": 2, "learning_rate": 0.02, "logging_steps": 3,
        "save_strategy": "no", "report_to": "none", "disable_tqdm": True, "use_cpu": True,
    }  # fmt: skip
    return hub.TrainingArguments(**(settings | given))


def trainer_of(run: DPSGD, account: Account, folder: Path, **given: Any) -> PrivateTrainer:
    named = {name: given.pop(name) for name in ("rng", "every", "callbacks", "eval_dataset") if name in given}
    rows = given.pop("rows", Counting(N))
    return PrivateTrainer(run, account=account, args=arguments(folder, **given), train_dataset=rows, **named)


@pytest.fixture
def account() -> Iterator[Account]:
    with Ledger.open("sqlite://") as ledger:
        yield account_of(ledger)


def test_it_is_the_same_run_as_in_one_s_own_loop(account: Account, tmp_path: Path) -> None:
    model, own, run = gpt2(), gpt2(), {"steps": PASS}
    settings = {"rng": SeededRandom(3), "lr_scheduler_type": "constant", "num_train_epochs": 1}
    trainer = trainer_of(small(model, **run), account, tmp_path, **settings)
    trainer.train()
    trainer.model = own
    trainer.optimizer = None
    optimizer = trainer.create_optimizer()
    private = make_private(small(own, **run), optimizer, Counting(N), account=account, rng=SeededRandom(3))
    for _ in private.lots():
        private.step()
    assert same(weights(model), weights(own))
    assert not same(weights(model), weights(gpt2()))


def test_logs_and_outcome_hold_no_training_loss(account: Account, tmp_path: Path) -> None:
    model = model_of()
    public = Counting(10, start=3)
    trainer = trainer_of(small(model), account, tmp_path, eval_dataset=public, eval_strategy="epoch")
    output = trainer.train()
    assert math.isnan(output.training_loss)
    names = {name for record in trainer.state.log_history for name in record}
    assert not names & {"loss", "train_loss", "grad_norm"}
    assert {"gradient_norm", "usable_rows", "learning_rate", "eval_loss"} <= names
    assert (output.global_step, trainer.state.total_flos) == (STEPS, 0)
    assert kinds(account) == ["create", "open", "begin", "settle"]
    with pytest.raises(InvalidParameter, match="trained once"):
        trainer.train()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"gradient_accumulation_steps": 2}, "a lot of any size is one step"),
    ({"bf16": True}, "sums in fewer bits"),
    ({"max_grad_norm": 0.5}, "it would not act"),
    ({"label_smoothing_factor": 0.1}, "it would not act"),
    ({"gradient_checkpointing": True}, "gradients of rows"),
    ({"num_train_epochs": 3}, "would take 15 steps and the run has 10, 5 in an epoch"),
    ({"max_steps": 4}, "would take 4 steps"),
    ({"max_steps": 0}, "would take 0 steps"),
    ({"skip_memory_metrics": False}, "how many rows were drawn"),
    ({"include_num_input_tokens_seen": "all"}, "tokens were drawn is private"),
]


@pytest.mark.parametrize(("settings", "words"), REFUSED)
def test_what_a_run_cannot_follow_is_refused_before_the_charge(
    account: Account, tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidParameter, match=words):
        trainer_of(small(gpt2()), account, tmp_path, **settings).train()
    assert kinds(account) == ["create"]


def test_a_precision_of_the_environment_is_refused(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accelerate reads it there, whatever the arguments say."""
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    trainer = trainer_of(small(model_of()), account, tmp_path)
    with pytest.raises(InvalidParameter, match="got bf16"):
        trainer.train()
    assert kinds(account) == ["create"]


def test_private_rows_are_not_evaluated(account: Account, tmp_path: Path) -> None:
    rows = Counting(N)
    trainer = trainer_of(small(model_of()), account, tmp_path, rows=rows, eval_dataset={"a": rows})
    looks: list[Any] = [trainer.train, trainer.evaluate, lambda: trainer.evaluate("a")]
    for look in (*looks, lambda: trainer.evaluate(rows), lambda: trainer.predict(rows)):
        with pytest.raises(InvalidParameter, match="nobody paid for"):
            look()
    assert kinds(account) == ["create"]


class Breaking(hub.TrainerCallback):  # type: ignore[misc]
    """Breaks a run off after a number of steps; sees no row."""

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        assert all(set(batch) == {"step"} for batch in given["train_dataloader"])
        if state.global_step == 4:
            raise RuntimeError("broken off")


def broken_off(account: Account, folder: Path, rows: Any = None) -> Path:
    settings = {"every": 3, "save_strategy": "steps", "save_steps": 3, "rows": rows or Counting(N)}
    trainer = trainer_of(small(model_of()), account, folder, callbacks=[Breaking()], **settings)
    with pytest.raises(RuntimeError, match="broken off"):
        trainer.train()
    return folder / "checkpoint-3"


def test_a_run_that_broke_off_is_taken_up_under_its_charge(account: Account, tmp_path: Path) -> None:
    checkpoint = broken_off(account, tmp_path)
    assert kinds(account) == ["create", "open", "begin", "begin"]
    spent = account.spent()
    trainer = trainer_of(small(model_of()), account, tmp_path, every=3)
    output = trainer.train(resume_from_checkpoint=True)
    starts = [entry.details["start"] for entry in account.history() if entry.kind.value == "begin"]
    assert starts == [0, 3, 6, 9]  # the second block was noted; two of its steps were never taken
    assert (trainer.loop.taken, output.global_step) == (STEPS, STEPS - 3)
    assert kinds(account).count("open") == 1
    assert account.spent() == spent
    with pytest.raises(LedgerError, match="settled"):
        trainer_of(small(model_of()), account, tmp_path).train(resume_from_checkpoint=str(checkpoint))


def test_a_loop_gives_back_no_steps_that_another_one_has_taken(account: Account, tmp_path: Path) -> None:
    """Two loops go on with one run; the one that stops early does not know what the other has begun."""

    class Meanwhile(hub.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            if state.global_step == 4:
                other = trainer_of(small(model_of()), account, tmp_path / "other", every=PASS)
                other.loop.take_up(json.loads((tmp_path / "checkpoint-3/deniable.json").read_text()))
                other.create_optimizer()
                other.loop.begin(other.optimizer, Counting(N), "Trainer")
                other.loop.step()
                control.should_training_stop = True

    settings = {"every": 5, "save_strategy": "steps", "save_steps": 3, "callbacks": [Meanwhile()]}
    trainer_of(small(model_of()), account, tmp_path, **settings).train()
    assert kinds(account) == ["create", "open", "begin", "begin"]


def test_a_run_is_not_taken_up_with_a_seed(account: Account, tmp_path: Path) -> None:
    """Its charge says that its noise is secret."""
    broken_off(account, tmp_path)
    before = kinds(account)
    with pytest.raises(InvalidParameter, match="secure generator"):
        trainer_of(small(model_of()), account, tmp_path, rng=SeededRandom(1)).train(True)
    assert kinds(account) == before


def test_a_checkpoint_holds_releases_only(account: Account, tmp_path: Path) -> None:
    checkpoint = broken_off(account, tmp_path)
    record = json.loads((checkpoint / "deniable.json").read_text())
    assert set(record) == {"name", "loss", "step", "bounds", "history"}
    assert (record["step"], set(record["history"])) == (
        3,
        {"learning_rate", "clip", "gradient_norm", "usable"},
    )
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    assert not any("loss" in name for each in state["log_history"] for name in each)
    other = broken_off(account, tmp_path / "other", Counting(N // 2, start=5))
    here, there = (
        torch.load(each / "rng_state.pth", weights_only=False)["cpu"] for each in (checkpoint, other)
    )
    assert torch.equal(here, there)  # whatever the rows were

    (checkpoint / "deniable.json").unlink()
    before = kinds(account)
    with pytest.raises(InvalidParameter, match="which charge paid"):
        trainer_of(small(model_of()), account, tmp_path).train(resume_from_checkpoint=str(checkpoint))
    assert kinds(account) == before


def test_a_collator_sees_each_row_alone(account: Account, tmp_path: Path) -> None:
    sizes: list[int] = []

    def collate(rows: list[Any]) -> dict[str, Tensor]:
        sizes.append(len(rows))
        return {name: torch.stack([row[name] for row in rows]) for name in ("input_ids", "labels")}

    run = small(model_of(), steps=PASS)
    args = arguments(tmp_path, num_train_epochs=1)
    PrivateTrainer(run, account=account, args=args, train_dataset=Counting(N), data_collator=collate).train()
    assert set(sizes) == {1}


def test_losses_of_next_tokens_are_those_of_the_model_alone() -> None:
    model = gpt2().eval()
    ids = Counting(4).ids
    labels = ids.clone()
    labels[1, 3:] = -100
    labels[3] = -100
    losses = next_token_losses(model, {"input_ids": ids, "labels": labels})
    for row in range(3):
        alone = model(input_ids=ids[row : row + 1], labels=labels[row : row + 1]).loss
        assert torch.allclose(losses[row], alone, atol=1e-6)
    assert losses[3].item() == 0
