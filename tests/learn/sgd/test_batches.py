"""Rows as people have them: dicts, several inputs, masks, lengths, functions of model
and batch; each alike to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from deniable.errors import DataError, InvalidParameter
from deniable.learn.clip import Batch, BatchLoss, PerExample
from deniable.learn.sgd import Padded
from deniable.learn.sgd.data.rows import rows
from deniable.learn.sgd.outcome import Usable
from deniable.randomness import SeededRandom
from tests.learn.sgd.runs import small, trainer

torch.manual_seed(0)
N, WORDS, LENGTH = 24, 11, 7
IDS = torch.randint(1, WORDS, (N, LENGTH))
MASK = (torch.arange(LENGTH)[None] < torch.randint(1, LENGTH + 1, (N, 1))).long()
SIDE, LABELS = torch.randn(N, 3), torch.randint(0, 3, (N,))
EXAMPLE = {
    "ids": torch.ones(LENGTH, dtype=torch.long),
    "mask": torch.ones(LENGTH),
    "side": torch.zeros(3),
    "labels": 0,
}


class Reader(nn.Module):
    """Words under a mask and numbers beside them; also called with positions alone."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table, self.norm = nn.Embedding(WORDS, 8), nn.LayerNorm(8)
        self.head = nn.Linear(8 + 3, 3)

    def forward(self, ids: Tensor, mask: Tensor, side: Tensor) -> Tensor:
        words = self.norm(self.table(ids)) * mask[..., None]
        mean = words.sum(1) / mask.sum(1, keepdim=True).clamp_min(1)
        out: Tensor = self.head(torch.cat([mean, side], 1))
        return out


def of_batch(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    """Weighted by a part of the row itself."""
    out = model(batch["ids"], batch["mask"], batch["side"])
    return nn.functional.cross_entropy(out, batch["labels"], reduction="none") * (1 + batch["mask"].sum(1))


def dicts() -> list[dict[str, Any]]:
    each = zip(IDS, MASK.float(), SIDE, LABELS, strict=True)
    return [{"ids": i, "mask": m, "side": s, "labels": y} for i, m, s, y in each]


class Listed(Dataset[Any]):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


class Hub:
    """A set with the manners of Hugging Face's: rows by number, plain lists and words,
    columns of no interest."""

    column_names = ("ids", "mask", "side", "labels", "text")

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> Any:
        row = {name: part.tolist() for name, part in dicts()[index].items()}
        return row | {"text": "some words"}


def summed(
    data: Any, criterion: Any = None, example: Any = EXAMPLE, clip: float = 0.3, model: Any = None
) -> Tensor:
    run = small(model or Reader(), criterion, example=example, clip=clip)
    lot = run.rows(data).take(np.arange(N), torch.float32)
    return trainer(run).clip_lot(lot).total["all"]


def one_by_one(criterion: Any = None, clip: float = 0.3) -> Tensor:
    """The oracle: each row alone through autograd."""
    model, total = Reader(), torch.zeros(())
    for i in range(N):
        row = {
            "ids": IDS[i : i + 1],
            "mask": MASK[i : i + 1].float(),
            "side": SIDE[i : i + 1],
            "labels": LABELS[i : i + 1],
        }
        plain = nn.functional.cross_entropy(model(row["ids"], row["mask"], row["side"]), row["labels"])
        loss = plain if criterion is None else of_batch(model, row).sum()
        flat = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
        total = total + flat * min(1.0, clip / float(flat.norm()))
    return total


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "data",
    [
        {"ids": IDS, "mask": MASK.float(), "side": SIDE, "labels": LABELS},
        Listed(dicts()),
        DataLoader(Listed(dicts()), batch_size=5),
        Hub(),
    ],
    ids=["tensors", "dataset", "loader", "hub"],
)
def test_rows_that_are_dicts(data: Any) -> None:
    length = N if isinstance(data, dict | DataLoader) else len(data)
    run = small(Reader(), example=EXAMPLE, clip=0.3)
    lot = run.rows(data).take(np.arange(length), torch.float32)
    assert torch.allclose(trainer(run).clip_lot(lot).total["all"], one_by_one(), atol=1e-5)
    run.check(data)
    assert torch.allclose(trainer(run).clip_lot(lot).total["all"], one_by_one(), atol=1e-5), (
        "together as alone"
    )


def test_several_inputs_and_a_function_of_model_and_batch() -> None:
    several = ((IDS, MASK.float(), SIDE), LABELS)
    assert torch.allclose(summed(several, example=None), one_by_one(), atol=1e-5)
    named = ({"ids": IDS, "mask": MASK.float(), "side": SIDE}, LABELS)
    assert torch.allclose(summed(named, example=None), one_by_one(), atol=1e-5)
    got = summed(Listed(dicts()), BatchLoss(of_batch))
    assert torch.allclose(got, one_by_one(of_batch), atol=1e-5)


def test_such_models_are_clipped_in_closed_form() -> None:
    batch = {"ids": IDS, "mask": MASK.float(), "side": SIDE, "labels": LABELS}
    assert PerExample(Reader(), BatchLoss(of_batch)).method(batch) == "closed form"
    assert PerExample(Reader(), nn.CrossEntropyLoss()).method(batch) == "closed form"


def test_no_row_of_any_structure_exceeds_the_clip() -> None:
    wild = {"ids": IDS, "mask": MASK.float() * 1e4, "side": SIDE * 1e5, "labels": LABELS}
    clipper = PerExample(Reader(), BatchLoss(of_batch))
    for i in range(N):
        alone = clipper({name: part[i : i + 1] for name, part in wild.items()}, clip=0.1)
        assert float(alone.vectors["all"].double().norm()) <= 0.1


def mixing(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    side = batch["side"] - batch["side"].mean(0)
    return nn.functional.cross_entropy(
        model(batch["ids"], batch["mask"], side), batch["labels"], reduction="none"
    )


def mixing_words(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    """By whole numbers, which have no gradient."""
    common = (batch["ids"] == batch["ids"][:1]).float().mean()
    return of_batch(model, batch) * (1 + common)


def one_number(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    return of_batch(model, batch).mean()


@pytest.mark.parametrize("function", [mixing, mixing_words])
def test_a_function_that_mixes_rows_is_refused(function: Any) -> None:
    with pytest.raises(InvalidParameter, match="lets one example of a lot change what another one gives"):
        small(Reader(), BatchLoss(function), example=EXAMPLE).check(Listed(dicts()))


def test_what_cannot_be_trained_is_refused_before_any_charge() -> None:
    with pytest.raises(InvalidParameter, match="one loss per row"):
        small(Reader(), BatchLoss(one_number), example=EXAMPLE).check(Listed(dicts()))
    with pytest.raises(InvalidParameter, match="two parts, an input and a target"):
        small(Reader(), example={"ids": [1, 2], "mask": [1.0, 1.0]}).check(Listed(dicts()))
    with pytest.raises(InvalidParameter, match="Expected example="):
        small(Reader()).check(Hub())
    with pytest.raises(DataError, match="got list"):
        small(Reader(), example=EXAMPLE).check(dicts())


def test_lengths_that_may_not_be_zero_are_taken_from_the_example() -> None:
    """A packed sequence has no length 0: made-up rows then have the example's own whole numbers."""

    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.line = nn.Embedding(WORDS, 4), nn.Linear(4, 3)

        def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
            if bool((lengths < 1).any()):
                raise ValueError("a length of 0")
            kept = torch.arange(ids.shape[1])[None] < lengths[:, None]
            out: Tensor = self.line((self.table(ids) * kept[..., None]).sum(1) / lengths[:, None])
            return out

    lengths = MASK.sum(1)
    run = small(Packed(), example=((IDS[0] * 0 + 1, 7), 0))
    run.check(((IDS, lengths), LABELS))
    assert next(iter(run.checked.ways.values())).run.__name__ == "closed"
    without = small(Packed())
    with pytest.raises(InvalidParameter, match="give an example whose numbers are right"):
        without.check(((IDS, lengths), LABELS))


def test_rows_of_many_lengths_have_one_public_shape() -> None:
    """Shorter ones are filled up, longer ones are cut; each is then what it would be if it had come so."""
    ragged = [
        {"ids": IDS[i, : int(MASK[i].sum())].tolist(), "mask": [1.0] * int(MASK[i].sum()), "side": SIDE[i], "labels": LABELS[i]}
        for i in range(N)
    ]  # fmt: skip
    ragged[3]["ids"], ragged[3]["mask"] = [*ragged[3]["ids"], *[1] * 9], [*ragged[3]["mask"], *[0.0] * 9]
    example = Padded(EXAMPLE, fill={"ids": 0, "mask": 0, "side": 0, "labels": 0})
    got = rows(Listed(ragged), example).take(np.arange(N), torch.float32)
    assert len(got) == 1
    assert tuple(got[0].rows["ids"].shape) == (N, LENGTH)
    assert torch.allclose(summed(Listed(ragged), example=example), one_by_one(), atol=1e-5)
    with pytest.raises(InvalidParameter, match="put together like the row"):
        rows(Listed(ragged), Padded(EXAMPLE, fill={"ids": 0})).form(torch.float32)


def frame_loss(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    return nn.functional.cross_entropy(
        model(torch.stack([batch["age"], batch["stay"]], 1)), batch["ward"], reduction="none"
    )


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames(kind: Any) -> None:
    table = {
        "age": SIDE[:, 0].numpy(),
        "stay": SIDE[:, 1].numpy(),
        "name": ["Ann"] * N,
        "ward": LABELS.numpy(),
    }
    model = nn.Linear(2, 3)
    run = small(model, BatchLoss(frame_loss), example={"age": 0.0, "stay": 0.0, "ward": 0})
    run.check(kind(table))
    lot = run.rows(kind(table)).take(np.arange(N), torch.float32)
    plain = small(model)
    right = trainer(plain).clip_lot([Batch((SIDE[:, :2], LABELS))]).total["all"]
    assert torch.allclose(trainer(run).clip_lot(lot).total["all"], right, atol=1e-5)
    with pytest.raises(InvalidParameter, match="Expected example="):
        small(model).check(kind(table))


def test_views_of_rows_with_several_inputs() -> None:
    def turned(inputs: Any) -> Any:
        return inputs | {"side": -inputs["side"]}

    def mixed(inputs: Any) -> Any:
        return inputs | {"side": inputs["side"].flip(0)}

    data = Listed(dicts())
    run = small(Reader(), example=EXAMPLE, multiplicity=2, augment=turned)
    run.check(data)
    flipped = Listed([row | {"side": -row["side"]} for row in dicts()])
    right = summed(flipped, clip=1.0)
    assert torch.allclose(
        trainer(run).clip_lot(run.rows(data).take(np.arange(N), torch.float32)).total["all"], right, atol=1e-5
    )
    with pytest.raises(InvalidParameter, match="change with the other rows"):
        small(Reader(), example=EXAMPLE, augment=mixed).check(data)


def test_three_tensors_go_to_a_function() -> None:
    """What a data set of three tensors is for is not guessed."""
    data = TensorDataset(IDS, SIDE, LABELS)
    with pytest.raises(InvalidParameter, match="two parts, an input and a target"):
        small(Reader()).check(data)

    def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        ids, side, labels = batch
        return nn.functional.cross_entropy(model(ids, torch.ones(ids.shape), side), labels, reduction="none")

    small(Reader(), BatchLoss(loss)).check(data)


# ------------------------------------------------------------------------------------------------ nothing paid in silence


SILENT: dict[str, tuple[Any, Any]] = {
    "every row fails": (lambda i: 1 / 0, None),
    "labels in words": (lambda i: (SIDE[i % N], "surgery"), None),
    "labels beyond the classes": (lambda i: (SIDE[i % N], 3 + i), None),
    "other dicts": (lambda i: {"x": SIDE[i % N], "y": 0}, None),
    "words for numbers": (lambda i: ("12", 0), None),
}


class Made(Dataset[Any]):
    def __init__(self, row: Any, length: int = 1000) -> None:
        self.row, self.length = row, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.row(index)


def count_usable(row: Callable[[int], Any]) -> Usable:
    run = small(nn.Linear(3, 3), n=1000, lot=200, steps=8, example=(torch.zeros(3), 0))
    usable = run(Made(row), rng=SeededRandom(3)).usable
    assert usable is not None
    return usable


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", SILENT)
def test_a_run_says_that_its_rows_could_not_be_used(case: str) -> None:
    usable = count_usable(SILENT[case][0])
    assert usable.few, str(usable)


def test_a_run_says_that_its_rows_were_used() -> None:
    usable = count_usable(lambda i: (SIDE[i % N], LABELS[i % N]))
    assert not usable.few
    assert abs(usable.rows - 200) < 6 * usable.deviation + 60
