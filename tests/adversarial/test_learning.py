"""Holes of private training, each closed: what a row makes happen never shows, and
nothing is paid for in silence."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from deniable.errors import DataError, DeniableError, InvalidParameter, InvalidQuery
from deniable.guarantee import Budget
from deniable.learn.clip import Batch, per_example
from deniable.learn.recipes.classifier import Recipe
from deniable.learn.recipes.linear import LinearDescent
from deniable.learn.select import Selection
from deniable.learn.sgd import DPSGD, Distributed, make_private, train
from deniable.learn.sgd.training.trainer import Trainer
from deniable.ledger import Account, Ledger, Status
from deniable.loss import NegativeBinomialRuns
from deniable.mechanism import Sequentially
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.learn.sgd.runs import FEATURES, linear, problem, run_of, small, trainer

X, Y = problem(60)
EXAMPLE = (torch.zeros(FEATURES), 0)


class Watched(Dataset[Any]):
    """Rows, and the positions that were read."""

    def __init__(self, items: list[Any]) -> None:
        self.items, self.reads = items, list[int]()

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        self.reads.append(index)
        item = self.items[index]
        return item() if callable(item) else item


def watched() -> Watched:
    return Watched(list(zip(X, Y, strict=True)))


@pytest.fixture
def ledger() -> Any:
    with Ledger.open("sqlite://") as opened:
        yield opened


def account(ledger: Ledger) -> Account:
    return ledger.create("rows", Unit.row(), limit=Budget(10_000, 1e-4))


def doors(own: Account) -> dict[str, Callable[..., Any]]:
    """The ways to train on a data set."""

    def loop(run: DPSGD, data: Any) -> None:
        optimizer = torch.optim.SGD([p for p in run.model.parameters() if p.requires_grad], lr=0.1)
        with make_private(run, optimizer, data, account=own) as private:
            for _ in private.lots():
                private.step()

    return {
        "account": lambda run, data: own.run(run, data),
        "opener": lambda run, data: own.run(run, lambda: data),
        "selection": lambda run, data: own.run(
            Selection((run,), lambda _: 0.0, NegativeBinomialRuns(1, 0.5)), data
        ),
        "sequence": lambda run, data: own.run(Sequentially((run, run)), data),
        "train": lambda run, data: train(run, data, account=own),
        "loop": loop,
    }


DOORS = ["account", "opener", "selection", "sequence", "train", "loop"]


def one_number(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output, target)


def detached(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.detach(), target, reduction="none")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "one loss for all rows": ({"criterion": one_number}, "one loss per row"),
    "no gradient": ({"criterion": detached}, "no gradient in any trainable parameter"),
    "a model of other rows": ({"model": nn.Linear(FEATURES + 1, 3)}, "fails on generated rows"),
    "a label beyond the classes": ({"example": (torch.zeros(FEATURES), 7)}, "fails on the example"),
    "labels of the wrong kind": ({"example": (torch.zeros(FEATURES), 0.5)}, "fails on generated rows"),
    "rows of three parts": ({"example": (torch.zeros(FEATURES), 0, 0)}, "two parts, an input and a target"),
    "words": ({"example": ("some text", 0)}, "Expected Words"),
    "nothing declared": ({"example": None}, "Expected example="),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_found_on_the_example_before_the_charge(
    wrong: str, door: str, ledger: Ledger
) -> None:
    given, sentence = WRONG[wrong]
    own, data = account(ledger), watched()
    run = small(**({"example": EXAMPLE} | given))
    with pytest.raises(InvalidParameter, match=sentence):
        doors(own)[door](run, data)
    assert not data.reads, "a private row was read to tell"
    assert len(own.history()) == 1, "something was charged"


def raising(error: BaseException) -> Callable[[], Any]:
    def row() -> Any:
        raise error

    return row


class Touchy(nn.Linear):
    """A model that does something to itself, or to the process, at one row (a value that no made-up row has)."""

    def __init__(self, deed: str) -> None:
        super().__init__(FEATURES, 3)
        self.deed = deed

    def forward(self, x: Tensor) -> Tensor:
        if bool((x[:, 0] == 1e7).any()):
            match self.deed:
                case "raises":
                    raise RuntimeError("Ann")
                case "raises our own":
                    raise InvalidParameter("Ann")
                case "ends the process":
                    raise SystemExit(3)
                case "freezes a parameter":
                    self.bias.requires_grad_(False)
                case "warns":
                    warnings.warn("Ann", stacklevel=1)
        return super().forward(x)


ROWS: dict[str, Any] = {
    "another shape": (torch.zeros(FEATURES + 1), 0),
    "one axis more": (torch.zeros(2, FEATURES), 0),
    "three parts": (X[0], 0, 0),
    "a dict": {"x": X[0], "y": 0},
    "a word": ("Ann", 0),
    "nothing": None,
    "a failing read": raising(ValueError("Ann")),
    "our own error": raising(InvalidParameter("Ann")),
    "no class": (X[0], 3),
    "another device": (X[0].to("meta"), 0),
    "huge": (torch.full((FEATURES,), 3e38), 0),
}


@pytest.mark.sampled
@pytest.mark.parametrize("door", ["account", "opener", "train", "loop"])
@pytest.mark.parametrize("row", ROWS)
def test_no_row_freezes_the_account_or_shows(row: str, door: str, ledger: Ledger) -> None:
    own, data = account(ledger), Watched([*zip(X, Y, strict=True), ROWS[row]])
    run = small(n=61, lot=61, example=EXAMPLE)
    doors(own)[door](run, data)
    assert own.status is Status.OPEN
    found, without = (
        trainer(run).clip_lot(run.rows(rows).take(np.arange(len(rows)), torch.float32)).total["all"]
        for rows in (data, watched())
    )
    assert torch.allclose(found, without, atol=1e-5), "a bad row adds zero"


@pytest.mark.sampled
@pytest.mark.parametrize("door", ["account", "train", "loop"])
@pytest.mark.parametrize(
    "deed", ["raises", "raises our own", "ends the process", "freezes a parameter", "warns"]
)
def test_what_a_model_does_at_a_row_does_not_show(deed: str, door: str, ledger: Ledger) -> None:
    """Also not at the next step: a parameter that was frozen for a row is trained again."""
    own = account(ledger)
    data = (torch.cat([X, torch.full((1, FEATURES), 1e7)]), torch.cat([Y, Y[:1]]))
    model = Touchy(deed)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        doors(own)[door](small(model, n=61, lot=61), data)
    assert own.status is Status.OPEN
    assert not [one for one in heard if "Ann" in str(one.message)]
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("door", ["account", "opener", "train", "loop"])
def test_the_model_is_probed_once_a_run(door: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, honest = list[int](), per_example.probe

    def counted(*given: Any) -> Any:
        calls.append(1)
        return honest(*given)

    monkeypatch.setattr(per_example, "probe", counted)
    own = account(ledger)
    doors(own)[door](small(example=EXAMPLE), (X, Y))
    assert len(calls) == 1
    doors(own)[door](small(example=EXAMPLE), Watched([*zip(X, Y, strict=True), (X[0, :2], 0), (X[0], 0.5)]))
    assert len(calls) == 2, "a row of another shape is not probed after the charge"


def test_ranks_are_told_before_the_charge() -> None:
    with pytest.raises(InvalidParameter, match="fails on generated rows"):
        Distributed(small(nn.Linear(9, 3))).fits((X, Y))


# ------------------------------------------------------------------------------------------------ loops of one's own


def loop(own: Account, model: nn.Module, data: Any = None, **given: Any) -> Any:
    optimizer = given.pop("optimizer", None) or torch.optim.SGD(model.parameters(), lr=0.1)
    given = {"n": 60, "lot": 60, "steps": 3, "noise_multiplier": 1.0} | given
    rng = given.pop("rng", None)
    run = run_of(model, nn.CrossEntropyLoss(), **given)
    return make_private(run, optimizer, (X, Y) if data is None else data, account=own, rng=rng)


def test_what_is_done_to_a_lot_does_not_reach_the_step(ledger: Ledger) -> None:
    sums = []
    for spoil in (False, True):
        private = loop(account(ledger) if not sums else ledger.account("rows"), linear(), rng=SeededRandom(1))
        for x, _ in private.lots():
            if spoil:
                x.sub_(x.mean(0)).div_(x.std(0)).mul_(1e3)
            sums.append(private.step().value["weight"])
            break
        private.close()
    assert torch.equal(*sums)


def test_an_ordinary_loop_left_around_is_refused(ledger: Ledger) -> None:
    model = linear()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    with loop(account(ledger), model, optimizer=optimizer) as private:
        for x, y in private.lots():
            before = model.weight.clone()
            nn.functional.cross_entropy(model(x), y).backward()
            with pytest.raises(InvalidQuery, match=r"moves by private.step\(\) alone"):
                optimizer.step()
            assert torch.equal(model.weight, before)
            private.step()
            assert not torch.equal(model.weight, before)
    optimizer.step()  # after the loop it is the caller's again


def test_a_step_in_inference_mode_is_refused_without_a_freeze(ledger: Ledger) -> None:
    own = account(ledger)
    with loop(own, linear()) as private:
        next(private.lots())
        with torch.inference_mode(), pytest.raises(InvalidQuery, match="inference_mode"):
            private.step()
        assert own.status is Status.OPEN
    with (
        torch.inference_mode(),
        pytest.raises(InvalidParameter, match=r"Inside torch\.inference_mode there are no gradients"),
    ):
        own.run(small(), (X, Y))


def test_a_parameter_frozen_by_the_caller_is_told_without_a_freeze_of_the_account(ledger: Ledger) -> None:
    own, model = account(ledger), linear()
    with loop(own, model) as private:
        next(private.lots())
        model.bias.requires_grad_(False)
        with pytest.raises(InvalidQuery, match="trainable parameters have changed: bias"):
            private.step()
    assert own.status is Status.OPEN


# ------------------------------------------------------------------------------------------------ gradients that mix


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient + gradient.sum(0, keepdim=True)


class Sneaky(nn.Module):
    """Mixes rows on the way back, or forward, when `when` says so."""

    def __init__(self, when: Callable[[Sneaky, Tensor], bool], way: str) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, 8), nn.Linear(8, 3)
        self.when, self.way, self.calls = when, way, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        hidden: Tensor = torch.tanh(self.first(x))
        if self.when(self, x):
            if self.way == "function":
                hidden = _Sum.apply(hidden)  # type: ignore[no-untyped-call]
            elif hidden.requires_grad:
                hidden.register_hook(lambda g: g + g.sum(0, keepdim=True))
        out: Tensor = self.second(hidden)
        return out


SNEAKY: dict[str, Callable[[Sneaky, Tensor], bool]] = {
    "above 10 rows": lambda model, x: len(x) > 10,
    "above 40 rows": lambda model, x: len(x) > 40,
    "above 50 rows": lambda model, x: len(x) > 50,
}


def moved(run: DPSGD, model: nn.Module | None = None) -> float:
    """By how much one row moves the sum, in clips."""
    each = (
        trainer(run)
        if model is None
        else Trainer(run, SeededRandom(1), model, run.learning.new_optimizer(model))
    )
    whole, less = (each.clip_lot([Batch((X[:k], Y[:k]))]).total["all"] for k in (60, 59))
    return float((whole - less).norm())


@pytest.mark.parametrize("way", ["function", "hook"])
@pytest.mark.parametrize("when", SNEAKY)
def test_a_backward_pass_that_mixes_rows_moves_nothing(when: str, way: str) -> None:
    torch.manual_seed(0)
    run = small(Sneaky(SNEAKY[when], way), n=60, lot=60)
    try:
        run.check((X, Y))
    except InvalidParameter:
        return
    assert moved(run) <= 1.001


def test_a_model_that_begins_to_mix_after_some_calls_never_does() -> None:
    """By Python state: what a pass leaves in a model's attributes is taken back, so its counter does not advance."""
    torch.manual_seed(0)
    run = small(Sneaky(lambda model, x: model.calls > 200, "function"), n=60, lot=60, steps=1000)
    run.check((X, Y))
    training = trainer(run)
    for _ in range(500):
        training.step([Batch((X[:30], Y[:30]))])
    whole, less = (training.clip_lot([Batch((X[:k], Y[:k]))]).total["all"] for k in (60, 59))
    assert float((whole - less).norm()) <= 1.001
    assert training.model.calls <= 200  # type: ignore[operator]


# ------------------------------------------------------------------------------------------------ what acts on nothing


class Normed(nn.Module):
    """Transfer learning: a body that is only read, batch norm in it, and a head that is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(8, 3))
        self.body.requires_grad_(False).eval()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x))
        return out


@pytest.mark.parametrize("door", DOORS)
def test_frozen_batch_norm_is_trained_around(door: str, ledger: Ledger) -> None:
    own, model = account(ledger), Normed()
    before = {name: value.clone() for name, value in model.body.state_dict().items()}
    doors(own)[door](small(model, example=EXAMPLE), watched())
    assert all(torch.equal(value, before[name]) for name, value in model.body.state_dict().items())
    assert own.status is Status.OPEN


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(zip(X, Y, strict=True))


@pytest.mark.parametrize("door", ["account", "train", "loop"])
def test_what_cannot_be_trained_is_refused_before_the_charge(door: str, ledger: Ledger) -> None:
    own = account(ledger)
    spectral = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(FEATURES, 4)), nn.Linear(4, 3))
    original = linear()

    def penalised(output: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output, target, reduction="none") + original.weight.square().sum()

    wrong: list[tuple[Any, Any]] = [((), Endless()), ((spectral,), watched())]
    if door != "loop":  # which trains the model itself
        wrong.append(((original, penalised), watched()))
    for made, data in wrong:
        with pytest.raises(DeniableError):
            doors(own)[door](small(*made, example=EXAMPLE), data)
        assert len(own.history()) == 1


def test_rates_of_parameter_groups_are_not_overridden(ledger: Ledger) -> None:
    def groups(parameters: Any) -> torch.optim.Optimizer:
        first, *others = parameters
        return torch.optim.SGD([{"params": [first], "lr": 0.1}, {"params": others, "lr": 0.7}])

    with pytest.raises(InvalidParameter, match="would give them all one rate"):
        small(optimizer=groups)
    run, model = small(optimizer=groups, learning_rate=None), linear()
    own = account(ledger)
    own.run(run, (X, Y))
    with pytest.raises(InvalidParameter, match="would give them all one rate"):
        loop(own, model, optimizer=groups(model.parameters()), learning_rate=0.5)
    assert [g["lr"] for g in run.learning.new_optimizer(linear()).param_groups] == [0.1, 0.7]


def test_a_collate_function_is_called_for_each_row_by_itself(ledger: Ledger) -> None:
    batches = list[int]()

    def collate(rows: list[Any]) -> Any:
        batches.append(len(rows))
        return torch.stack([2 * x for x, _ in rows]), torch.tensor([int(y) for _, y in rows])

    loader = DataLoader(watched(), batch_size=7, collate_fn=collate)
    run = small(example=EXAMPLE)
    found = trainer(run).clip_lot(run.rows(loader).take(np.arange(60), torch.float32)).total["all"]
    assert torch.allclose(found, trainer(run).clip_lot([Batch((2 * X, Y))]).total["all"], atol=1e-5)
    assert set(batches) == {1}
    account(ledger).run(run, loader)


# ------------------------------------------------------------------------------------------------ recipes


def picky(images: Tensor) -> Tensor:
    if bool((images > 200).any()):
        raise ValueError("Ann")
    return images.float()[:, None]


def recipe(**given: Any) -> Recipe:
    descent = LinearDescent(steps=3, learning_rate=1.0, clip=1.0)
    return Recipe.for_budget(100, 1e-5, n=60, maps=picky, descent=descent, classes=3, **given)


def test_an_image_that_maps_fails_on_adds_nothing(ledger: Ledger) -> None:
    own = account(ledger)
    images = np.arange(60 * 9).reshape(60, 9) % 97
    bad = np.vstack([images, np.full((1, 9), 250)])
    own.run(recipe(), (bad, [*Y.tolist(), 0]))
    assert own.status is Status.OPEN
    with_her, without = (
        recipe()(data, rng=SeededRandom(3)).linear for data in ((bad, [*Y.tolist(), 0]), (images, Y))
    )
    assert torch.equal(with_her.weights, without.weights)


@pytest.mark.parametrize("images", [[[1.0, 2.0], [3.0]], [[1.0, 2.0], [3.0, 4.0]], np.array(["Ann", "Bob"])])
def test_images_without_a_shape_of_their_own_are_refused_before_the_charge(
    images: Any, ledger: Ledger
) -> None:
    own = account(ledger)
    with pytest.raises(DataError, match="as a tensor or an array of numbers"):
        own.run(recipe(), (images, [0, 1]))
    with pytest.raises(DeniableError, match="Expected example="):
        own.run(recipe(), lambda: (images, [0, 1]))
    assert len(own.history()) == 1
