"""Lots of people: however many rows somebody has, and whatever they hold, she moves the
sum by at most the clip."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from deniable.errors import DataError
from deniable.guarantee import Budget
from deniable.learn.sgd import DPSGD, Learning, Lots, Privacy, Users
from deniable.learn.sgd.data.rows import TensorRows
from deniable.learn.sgd.data.users import sizes
from deniable.learn.sgd.training.trainer import Trainer
from deniable.ledger import Ledger
from deniable.loss import Grouped
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.learn.sgd.runs import FEATURES, linear, problem, small, trainer
from tests.learn.sgd.test_rows import Listed

ROWS = 80
X, Y = problem(ROWS)
IDS = [f"person {i * i % 17}" for i in range(ROWS)]
UNIT = Unit.column("person", max_rows=3)
EXAMPLE = (torch.zeros(FEATURES), 0)


def people(model: nn.Module | None = None, **given: Any) -> DPSGD:
    # Smaller lots are tried in several batches.
    return small(model, **({"unit": UNIT, "n": 80, "lot": 40, "clip": 0.4} | given))


def everybody(run: DPSGD, data: Any, *, checked: bool = False, by: Trainer | None = None) -> Tensor:
    """The sum over all people. A check tries the model out first, for a second or two, and gives the same sum; so
    does a trainer `by` that has tried such rows before."""
    drawn_from = run.rows(data)
    if checked:
        run.check(drawn_from)
    sample = drawn_from.take(np.arange(len(drawn_from)), run.dtype, SeededRandom(1))
    return (by or trainer(run)).clip_lot(sample).total["all"]


def naive(model: nn.Module, clip: float, most: int | None = None) -> Tensor:
    """Each person's mean gradient, clipped once."""
    total = torch.zeros(sum(p.numel() for p in model.parameters()), dtype=torch.float64)
    for person in dict.fromkeys(IDS):
        own = [i for i, who in enumerate(IDS) if who == person][:most]
        loss = nn.functional.cross_entropy(model(X[own]), Y[own])
        flat = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))]).double()
        total += flat * min(1.0, clip / float(flat.norm()))
    return total


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "model",
    [
        linear(),
        nn.Sequential(nn.Linear(FEATURES, 9), nn.Tanh(), nn.LayerNorm(9), nn.Linear(9, 3)),
        nn.Bilinear,
    ],
    ids=["chain", "closed form", "vmap"],
)
@pytest.mark.parametrize("checked", [True, False])
def test_a_person_is_one_gradient(model: Any, checked: bool) -> None:
    torch.manual_seed(0)
    if model is nn.Bilinear:

        class Twice(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.form = nn.Bilinear(FEATURES, FEATURES, 3)

            def forward(self, x: Tensor) -> Tensor:
                out: Tensor = self.form(x, x)
                return out

        model = Twice()
    everyone = max(IDS.count(who) for who in IDS)
    run = people(model, unit=Unit.column("person", max_rows=everyone))
    got = everybody(run, Users((X, Y), IDS), checked=checked)
    assert torch.allclose(got.double(), naive(model, 0.4), atol=2e-5)


def test_of_more_rows_than_count_some_are_drawn_anew_each_time() -> None:
    run = people(unit=Unit.column("person", max_rows=2), n=1, lot=1, rate=None)
    users = run.rows(Users((X, Y), ["one"] * ROWS))
    t = trainer(run)
    drawn = [users.take(np.arange(1), torch.float32, t.rng)[0].rows[0] for _ in range(400)]
    assert all(tuple(rows.shape) == (2, FEATURES) for rows in drawn)
    counts = np.bincount(
        [int((row == X).all(1).nonzero()[0]) for rows in drawn for row in rows], minlength=ROWS
    )
    assert stats.chisquare(counts).pvalue > 1e-9


@pytest.mark.sampled(3)
@pytest.mark.parametrize("many", [1, 3, 5, 17, 200])
def test_no_number_of_rows_moves_the_sum_by_more_than_the_clip(many: int) -> None:
    run = people(clip=0.25)
    hers = 1e6 * torch.randn(many, FEATURES, generator=torch.Generator().manual_seed(many))
    wild = (
        torch.cat([X, hers]),
        torch.cat([Y, run.model(hers).argmin(1)]),
    )  # labels that surprise the model most
    t = trainer(run)
    without = everybody(run, Users((X, Y), [str(i) for i in range(ROWS)]), by=t)
    with_her = everybody(run, Users(wild, [*(str(i) for i in range(ROWS)), *["her"] * many]), by=t)
    moved = float((with_her.double() - without.double()).norm())
    assert moved <= 0.25 * (1 + 1e-4)
    assert moved > 0.2, "she counts"


ODD: dict[str, Any] = {
    "another shape": (torch.zeros(FEATURES + 1), 0),
    "one axis more": (torch.zeros(4, FEATURES), 0),
    "not a number": (torch.full((FEATURES,), math.nan), 0),
    "nothing": None,
    "a word": ("Ann", 0),
}


@pytest.fixture(scope="module")
def strict() -> Trainer:
    """Of a run that clips nearly all of a gradient away."""
    return trainer(people(clip=1e-3, example=EXAMPLE))


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_row_of_a_person_is_left_out_and_no_second_gradient(odd: str, strict: Trainer) -> None:
    """Rows of two shapes would be clipped apart: twice the clip."""
    good = list(zip(X[:2], Y[:2], strict=True))
    found = everybody(strict.run, Users(Listed([*good, ODD[odd]]), ["her"] * 3), by=strict)
    right = everybody(strict.run, Users(Listed(good), ["her"] * 2), by=strict)
    assert torch.allclose(found, right, atol=1e-8)
    assert float(found.norm()) <= 1e-3


class AnyLength(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(1, 3)

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.out(x.mean(1, keepdim=True))
        return answer


def test_a_model_that_takes_any_length_gives_a_person_no_second_gradient() -> None:
    """A model that takes no other shape leaves such a row out by itself."""
    run = people(AnyLength(), clip=1e-3, example=EXAMPLE)
    lengths = [(torch.ones(FEATURES + more), 0) for more in (0, 1, 2)]
    t = trainer(run)
    found = everybody(run, Users(Listed(lengths), ["her"] * 3), by=t)
    assert torch.allclose(found, everybody(run, Users(Listed(lengths[:1]), ["her"]), by=t), atol=1e-8)
    assert float(found.norm()) <= 1e-3


@pytest.mark.parametrize("column", [pa.array, lambda ids: pa.chunked_array([ids[:2], ids[2:]])])
def test_missing_ids_of_arrow_are_nobody_s_too(column: Any) -> None:
    users = Users(problem(5), column(["ann", None, "bob", "ann", None]))
    assert [rows.tolist() for rows in users.rows] == [[0, 3], [2]]


def test_rows_read_before_are_not_drawn_one_by_one_where_people_are_protected() -> None:
    with pytest.raises(DataError, match="Expected Users"):
        people().rows(TensorRows(problem(5)))


def test_rows_of_nobody_are_left_out() -> None:
    run = people()
    nobody = [None, math.nan, np.nan, [1], {"a": 1}, pd.NA, pd.NaT]
    data = (X[:9], Y[:9])
    t = trainer(run)
    got = everybody(run, Users(data, ["a", "b", *nobody]), by=t)
    assert torch.allclose(got, everybody(run, Users((X[:2], Y[:2]), ["a", "b"]), by=t), atol=1e-6)
    assert len(run.rows(Users(data, [1, 1.0, True, "1", b"1", 2, 2, 2, 2]))) == 4


def test_the_loss_is_that_of_rows_with_people_for_rows() -> None:
    run, rows = people(), small(n=80, lot=40, clip=0.4)
    assert run.loss == rows.loss
    assert run.unit == UNIT
    assert Grouped(3, rows.loss) != run.loss


def test_lots_are_poisson_samples_of_people() -> None:
    run, data = (
        people(n=40, lot=10, unit=Unit.column("p", max_rows=3)),
        (torch.arange(120.0)[:, None], torch.zeros(120)),
    )
    t, users = trainer(run), run.rows(Users(data, [i % 40 for i in range(120)]))
    seen = np.zeros(40)
    for _ in range(2000):
        batch = {int(row) for part in t.draw(users) for row in part.rows[0][:, 0]}
        people_drawn = {row % 40 for row in batch}
        assert len(batch) == 3 * len(people_drawn), "all rows of who is drawn, and none of others"
        seen[list(people_drawn)] += 1
    assert all(stats.binomtest(int(count), 2000, 0.25).pvalue > 1e-9 for count in seen)


def test_people_of_a_column() -> None:
    frame = pd.DataFrame({"person": IDS, "x": X[:, 0].numpy(), "label": Y.numpy()})
    run = people(nn.Linear(1, 3), example={"x": [0.0], "label": 0})
    assert len(run.rows(frame)) == len(set(IDS))
    assert len(run.rows({"person": np.arange(ROWS) % 7, "x": X, "label": Y})) == 7
    for wrong in (frame.drop(columns="person"), (X, Y)):
        with pytest.raises(DataError, match='a column "person"'):
            run.rows(wrong)
    with pytest.raises(DataError, match="one id for each row"):
        run.rows(Users((X, Y), IDS[:-1]))


def test_people_of_a_dict_of_columns() -> None:
    """Their ids are words, and no input of the model."""
    run = people(example={"input": torch.zeros(FEATURES), "label": 0})
    data = {"person": np.array(IDS), "input": X, "label": Y}
    assert torch.equal(everybody(run, data), everybody(people(), Users((X, Y), IDS)))


def halved(batch: list[Any]) -> Any:
    return torch.stack([x / 2 for x, _ in batch]), torch.tensor([int(y) for _, y in batch])


def test_people_of_loaders() -> None:
    """Loops of others take loaders: of people, and of data that has their column."""
    run, rows = people(example=EXAMPLE), TensorDataset(X, Y)
    t = trainer(run)
    right = everybody(run, Users((X, Y), IDS), by=t)
    for data in (DataLoader(Users(rows, IDS), batch_size=7), Users(DataLoader(rows, shuffle=True), IDS)):
        assert torch.allclose(everybody(run, data, by=t), right, rtol=0, atol=1e-5)
    own = everybody(run, DataLoader(Users(rows, IDS), collate_fn=halved), by=t)
    assert torch.allclose(own, everybody(run, Users((X / 2, Y), IDS), by=t), rtol=0, atol=1e-5)

    frame = pd.DataFrame({"person": IDS, "place": range(ROWS)})
    loader = DataLoader(frame, collate_fn=lambda batch: halved([rows[row["place"]] for row in batch]))
    assert torch.allclose(everybody(run, loader, by=t), own, rtol=0, atol=1e-5)
    with pytest.raises(DataError, match="sampler of its own"):
        run.rows(DataLoader(Users(rows, IDS), sampler=WeightedRandomSampler([1.0] * ROWS, 9)))
    with pytest.raises(DataError, match='a column "person"'):
        run.rows(DataLoader(rows))


def test_an_account_of_people_trains() -> None:
    net = linear()
    privacy = Privacy(epsilon=8, delta=1e-5, unit=UNIT)
    run = DPSGD(
        net,
        nn.CrossEntropyLoss(),
        lots=Lots(n=ROWS, lot=40, steps=20),
        privacy=privacy,
        learning=Learning(learning_rate=0.5),
    )
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("people", UNIT, limit=Budget(9, 1e-4))
        trained = account.run(run, Users((X, Y), range(ROWS)), delta=1e-5).value
    assert trained.steps == 20


def test_how_many_rows_people_are_filled_up_to() -> None:
    assert sizes(1) == [1]
    assert sizes(2) == [1, 2]
    assert sizes(8) == [1, 2, 4, 8]
    assert sizes(9) == [1, 2, 4, 8, 9]
