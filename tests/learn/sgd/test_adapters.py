"""Containers of others are read by position, and told before the charge where no row of them could be used."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split

from deniable.errors import DataError, InvalidParameter
from deniable.learn.sgd import BatchLoss, Padded, Users, Words
from deniable.learn.sgd.data.rows import TensorRows, rows
from tests.learn.sgd.runs import FEATURES, problem, small, trainer

X, Y = problem(30)
NAMES = [f"f{i}" for i in range(FEATURES)]
EXAMPLE = (torch.zeros(FEATURES), 0)
FRAME = pd.DataFrame(X.numpy(), columns=NAMES).assign(label=Y.numpy())
ROW: dict[str, Any] = dict.fromkeys(NAMES, 0.0) | {"label": 0}


def sums(data: Any, **given: Any) -> Tensor:
    """The sum of all rows' clipped gradients."""
    run = small(**given)
    run.check(data)
    drawn_from = run.rows(data)
    return trainer(run).clipped(drawn_from.take(np.arange(len(drawn_from)), torch.float32)).total["all"]


@functools.cache
def tensor_sums(start: int = 0, factor: float = 1.0) -> Tensor:
    """The sum of these rows as tensors, which need no adapter."""
    return sums((factor * X[start:], Y[start:]))


def by_name(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    inputs = torch.stack([batch[name] for name in NAMES], 1)
    return nn.functional.cross_entropy(model(inputs), batch["label"], reduction="none")


def close(here: Tensor, there: Tensor) -> bool:
    return torch.allclose(here, there, rtol=0, atol=1e-5)


def test_pandas_is_read_by_position_not_by_label() -> None:
    """A shuffled index, as train_test_split leaves it, would put one person's label beside another's row."""
    mixed = FRAME.sample(frac=1, random_state=0)
    right = tensor_sums()
    assert close(sums((mixed[NAMES], mixed["label"])), right)
    assert close(sums((mixed[NAMES].to_numpy(), mixed["label"]), example=EXAMPLE), right)
    assert close(sums((mixed[NAMES].to_numpy().tolist(), mixed["label"]), example=EXAMPLE), right)
    words = mixed["label"].map(dict(enumerate("abc")))
    assert close(sums((mixed[NAMES], words), example=(EXAMPLE[0], Words(*"abc"))), right)


def test_a_column_is_no_row() -> None:
    """Of a frame with numbers for names, [0] is a column: what everybody has, where one row was asked for."""
    frame = pd.DataFrame(X.numpy())
    for x in (frame, pa.Table.from_pandas(frame), pl.from_pandas(frame.add_prefix("f"))):
        lot = rows((x, Y.tolist()), EXAMPLE).take(np.arange(30), torch.float32)
        assert torch.equal(torch.cat([batch.rows[0] for batch in lot]), X)


def test_a_collator_gets_rows_not_columns() -> None:
    """By position and with their names, whatever [0] means to the container."""
    series = pd.Series([*range(30)], index=[*range(29, -1, -1)])
    expected = {"series": [0, 1, 2], "frame": Y[:3].tolist()}
    for name, dataset in (("series", series), ("frame", pa.Table.from_pandas(FRAME))):
        lengths = (lambda batch: torch.tensor(batch)) if name == "series" else _labels
        found = rows(DataLoader(dataset, collate_fn=lengths), 0)
        (lot,) = found.take(np.arange(3), torch.float32)
        assert lot.rows.tolist() == expected[name]
        assert len(found) == 30


def _labels(batch: list[Any]) -> Tensor:
    return torch.tensor([row["label"] for row in batch])


@pytest.mark.parametrize(
    "kind", [pa.Table.from_pandas, lambda frame: pa.RecordBatch.from_pandas(frame), pl.from_pandas]
)
def test_tables_of_arrow_are_frames(kind: Callable[[Any], Any]) -> None:
    words = FRAME.assign(label=pd.Categorical(["abc"[int(y)] for y in Y], categories=list("abc")))
    for frame, row in ((FRAME, ROW), (words, ROW | {"label": Words(*"abc")})):
        assert close(sums(kind(frame), criterion=BatchLoss(by_name), example=row), tensor_sums())
    missing = FRAME.astype({"label": "Int64"})
    missing.loc[:4, "label"] = pd.NA
    assert close(sums(kind(missing), criterion=BatchLoss(by_name), example=ROW), tensor_sums(5))


class Hub(Dataset[Any]):
    """Rows that say their columns as `datasets` of Hugging Face does."""

    def __init__(self, kind: str | None = None) -> None:
        self.format = {"type": kind, "columns": list(FRAME.columns)}
        self.made: Any = lambda row: row

    def __len__(self) -> int:
        return len(FRAME)

    def __getitem__(self, index: int) -> Any:
        return self.made(FRAME.iloc[index].to_dict())


@pytest.mark.parametrize("data", [FRAME, pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME), Hub()])
def test_a_column_that_is_not_there_is_told_before_the_charge(data: Any) -> None:
    misspelled = {**ROW, "Label": 0}
    with pytest.raises(
        InvalidParameter, match=r"'Label', and the data has no such column.*Nothing was charged"
    ):
        small(criterion=BatchLoss(by_name), example=misspelled).check(data)
    with pytest.raises(InvalidParameter, match=r"an example that is a dict.*Nothing was charged"):
        small(example=EXAMPLE).check(data)


def test_rows_that_a_function_makes_have_names_of_their_own() -> None:
    hub = Hub("custom")
    hub.made = lambda row: (torch.tensor([row[name] for name in NAMES]), row["label"])
    assert close(sums(hub, example=EXAMPLE), tensor_sums())


def test_a_column_of_dates_is_told_before_the_charge() -> None:
    frame = FRAME.assign(f0=pd.date_range("2020-01-01", periods=30))
    run = small(criterion=BatchLoss(by_name), example=ROW)
    for data in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        with pytest.raises(DataError, match=r"'f0' holds dates.*Nothing was charged"):
            run.check(data)
    run.check(FRAME.assign(day=frame["f0"]))  # one that nobody declared is nobody's trouble


def test_parts_of_a_data_set_of_tensors_need_no_example() -> None:
    first, second = random_split(TensorDataset(X, Y), [20, 10], torch.Generator().manual_seed(0))
    assert isinstance(rows(first), TensorRows)
    assert close(sums(first) + sums(second), tensor_sums())
    inner = Subset(Subset(TensorDataset(X, Y), range(20)), [0, 3])
    assert close(sums(inner), sums((X[[0, 3]], Y[[0, 3]])))


class Doubled(TensorDataset):
    def __getitem__(self, index: Any) -> Any:
        x, y = super().__getitem__(index)
        return 2 * x, y


class DoubledPart(Subset[Any]):
    def __getitem__(self, index: Any) -> Any:
        x, y = super().__getitem__(index)
        return 2 * x, y

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


def test_a_class_that_makes_its_own_rows_is_asked_for_them() -> None:
    """Transforms in `__getitem__` were left out where the class was one of tensors."""
    whole = TensorDataset(X, Y)
    for data in (Doubled(X, Y), DoubledPart(whole, range(30)), Subset(Doubled(X, Y), range(30))):
        assert close(sums(data, example=EXAMPLE), tensor_sums(factor=2.0))
        with pytest.raises(InvalidParameter, match="Expected example="):
            small().check(data)


def test_arrays_that_torch_does_not_take_are_read_all_the_same() -> None:
    numbers = X.numpy()
    for x in (numbers.astype(">f4"), numbers[::-1][::-1], numbers.astype(np.longdouble)):
        assert close(sums((x, Y.numpy())), tensor_sums())
    assert close(sums((numbers[::-1], Y.numpy()[::-1])), tensor_sums())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((scipy.sparse.csr_matrix(X.numpy()), Y.numpy()), r"toarray\(\)"),
        ((X.to_sparse(), Y), r"to_dense\(\)"),
        (TensorDataset(X.to_sparse(), Y), r"to_dense\(\)"),
        ((np.ma.masked_greater(X.numpy(), 1), Y.numpy()), "without a mask"),
        ([(X[0], 0), (X[1], 1)], r"got list.*DataLoader\(rows\)"),
    ],
)
def test_what_would_be_misread_is_refused(data: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        small(example=EXAMPLE).check(data)


def test_people_in_a_table_of_ids_are_refused() -> None:
    with pytest.raises(DataError, match="as a list, an array or a column"):
        Users((X, Y), torch.zeros(30, 2))


def test_what_fills_whole_numbers_up_is_whole() -> None:
    """0.5 was cut to 0 in silence."""
    with pytest.raises(InvalidParameter, match=r"Expected whole numbers in fill=0\.5"):
        rows(Hub("custom"), Padded({"ids": [0] * 4, "x": 0.0}, fill=0.5)).form(torch.float32)
    rows(Hub("custom"), Padded({"ids": [0] * 4, "x": 0.0}, fill={"ids": 0.0, "x": 0.5})).form(torch.float32)


@pytest.mark.parametrize(
    "column",
    [
        lambda values: pd.Series(values, dtype="Int64"),
        lambda values: pl.Series(values),
        lambda values: pa.chunked_array([pa.array(values)]),
    ],
    ids=["pandas", "polars", "arrow"],
)
def test_columns_that_may_have_gaps_need_an_example_whatever_they_hold(column: Callable[[Any], Any]) -> None:
    x = np.zeros((3, 2), dtype=np.float32)
    for values in ([0, 1, 0], [0, None, 0]):
        for pair in ((x, column(values)), {"x": x, "y": column(values)}):
            with pytest.raises(InvalidParameter, match="Expected example="):
                rows(pair)
        assert len(rows((x, column(values)), (x[0], 0))) == 3
    assert len(rows((x, pd.Series([0, 1, 0])))) == 3
