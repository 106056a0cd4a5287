"""Your own training loop: charged first, one step for each lot, settled at the end."""

from __future__ import annotations

import gc
import math
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from deniable.errors import BudgetExceeded, DataError, InvalidParameter, InvalidQuery, LedgerError
from deniable.guarantee import Budget
from deniable.learn.sgd import make_private
from deniable.learn.sgd.training.private import check_optimizer
from deniable.learn.sgd.training.steps import Ask, TrainingSteps
from deniable.learn.sgd.training.trainer import Trainer
from deniable.ledger import Account, EntryKind, Filter, Ledger
from deniable.mechanism import Interactive
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.learn.sgd.runs import linear, problem, run_of, small
from tests.learn.sgd.test_rows import GOOD, Listed

X, Y = problem(2000)
STEPS: dict[str, Any] = {"n": 2000, "lot": 200, "steps": 60, "clip": 1.0, "noise_multiplier": 1.5}


@pytest.fixture
def account() -> Iterator[Account]:
    with Ledger.open("sqlite://") as ledger:
        yield ledger.create("images", Unit.row(), limit=Budget(20, 1e-4), filter=Filter.renyi)


def private(
    account: Account, data: Any = (X, Y), net: nn.Module | None = None, rng: Any = None, **given: Any
) -> Any:
    net = linear() if net is None else net
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    run = run_of(net, nn.CrossEntropyLoss(), **(STEPS | given))
    return make_private(run, optimizer, data, account=account, rng=rng)


def test_three_lines_train_the_caller_s_own_model(account: Account) -> None:
    net = linear()
    training = private(account, net=net, noise_multiplier=None, epsilon=3, delta=1e-5)
    sizes = []
    for x, y in training.lots():
        nn.functional.cross_entropy(net(x), y).backward()  # a loop that still does this is not disturbed
        release = training.step()
        assert torch.equal(net.weight.grad, release.value["weight"])
        assert release.loss == training.run.loss
        sizes.append(len(x))
    training.close()
    assert len(sizes) == 60
    assert len(set(sizes)) > 10
    assert float((net(X).argmax(dim=1) == Y).float().mean()) > 0.9
    kinds = [entry.kind for entry in account.history()]
    assert kinds == [EntryKind.CREATE, EntryKind.OPEN, EntryKind.BEGIN, EntryKind.SETTLE]


def test_the_whole_run_is_charged_before_the_first_lot(account: Account) -> None:
    expected = account.preview(small(n=2000, lot=200, steps=60, noise_multiplier=1.5).loss).after
    run = private(account).run
    assert account.spent() == expected
    assert [entry.kind for entry in account.history()[1:]] == [EntryKind.OPEN, EntryKind.BEGIN]
    assert account.history()[1].loss == run.loss


def test_closing_settles_the_steps_not_taken(account: Account) -> None:
    before = account.remaining().rho
    with private(account) as training:
        for _ in training.lots():
            training.step()
            if training.taken == 10:
                break
        whole = account.remaining().rho
        run = training.run
    after = account.remaining().rho
    assert whole < after < before
    assert account.history()[-1].loss == run.loss_of(10)
    training.close()
    assert len(account.history()) == 4


def test_nothing_taken_gives_everything_back(account: Account) -> None:
    before = account.remaining()
    private(account).close()
    assert account.remaining() == before


def test_a_lot_is_used_once_and_none_is_left_out(account: Account) -> None:
    training = private(account)
    lots = training.lots()
    with pytest.raises(InvalidQuery, match="each lot is used once"):
        training.step()
    next(lots)
    training.step()
    with pytest.raises(InvalidQuery, match="each lot is used once"):
        training.step()
    next(lots)
    with pytest.raises(InvalidQuery, match="if some are left out, the others are no Poisson samples"):
        next(lots)
    assert training.taken == 1


def test_no_step_beyond_the_last(account: Account) -> None:
    training = private(account, steps=2)
    for _ in training.lots():
        training.step()
    assert list(training.lots()) == []
    with pytest.raises(InvalidQuery, match="All 2 steps of this run are taken"):
        training.step()
    training.close()
    with pytest.raises(LedgerError, match="is closed"):
        training.step()


def test_a_run_that_does_not_fit_is_refused_with_nothing_run(account: Account) -> None:
    net = linear()
    before = [p.detach().clone() for p in net.parameters()]
    with pytest.raises(BudgetExceeded):
        private(account, net=net, noise_multiplier=0.3)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    assert len(account.history()) == 1


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"data": (X, Y[:5])}, DataError, "one row for each example"),
        ({"data": (X[:, :2], Y)}, InvalidParameter, "fails on generated rows"),
        ({"n": None}, InvalidParameter, "Expected two of n, lot and rate"),
        ({"net": nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3))}, InvalidParameter, "BatchNorm"),
    ],
)
def test_what_is_wrong_raises_before_the_charge(
    account: Account, given: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        private(account, **given)
    assert len(account.history()) == 1


def test_an_optimiser_of_another_model_is_refused(account: Account) -> None:
    with pytest.raises(InvalidParameter, match="trainable parameters of this model and no others"):
        make_private(small(), torch.optim.SGD(linear().parameters()), (X, Y), account=account)


def test_rows_of_a_data_set_and_empty_lots_come_too(account: Account) -> None:
    training = private(
        account,
        data=Listed([*GOOD, None, (X[0][:2], Y[0])]),
        n=100,
        lot=1,
        steps=30,
        noise_multiplier=2.0,
        example=(X[0] * 0, 0),
    )
    sizes = [len(x) for x, _ in training.lots() if training.step()]
    assert 0 in sizes


def test_training_is_an_interactive() -> None:
    training = TrainingSteps(small(), Trainer.with_copy)
    assert isinstance(training, Interactive)
    talk = training.open((X, Y), rng=SeededRandom(1))
    with pytest.raises(InvalidQuery, match="Expected one of"):
        talk.ask("everything")  # type: ignore[arg-type]
    assert talk.ask(Ask.LOT) == 1
    assert set(talk.ask(Ask.STEP)) == {"weight", "bias"}  # type: ignore[arg-type]
    assert talk.used == small().loss_of(1)


@pytest.mark.parametrize("kind", [torch.optim.LBFGS, torch.optim.SparseAdam])
def test_an_optimiser_that_cannot_take_such_steps_is_refused_before_the_charge(
    account: Account, kind: Any
) -> None:
    net = linear()
    before = [p.detach().clone() for p in net.parameters()]
    with pytest.raises(
        InvalidParameter,
        match=r"whose step\(\) needs no closure and takes dense gradients.*Nothing was charged",
    ):
        make_private(small(net), kind(net.parameters()), (X, Y), account=account)
    assert len(account.history()) == 1
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


# ------------------------------------------------------------------------------------------------ loops that were not private


@pytest.mark.parametrize("own", [True, False], ids=["its optimiser", "another one"])
def test_an_ordinary_loop_left_around_it_raises_and_moves_nothing(account: Account, own: bool) -> None:
    net = linear()
    optimizer, other = (torch.optim.SGD(net.parameters(), lr=1.0) for _ in range(2))
    training = make_private(small(net), optimizer, (X, Y), account=account)
    x, y = next(training.lots())
    nn.functional.cross_entropy(net(x), y).backward()
    before = net.weight.detach().clone()  # type: ignore[operator]
    with pytest.raises(InvalidQuery, match=r"moves by private\.step\(\) alone.*Nothing was moved"):
        (optimizer if own else other).step()
    assert torch.equal(net.weight, before)  # type: ignore[arg-type]
    elsewhere = torch.nn.Parameter(torch.ones(1))
    elsewhere.grad = torch.ones(1)
    torch.optim.SGD([elsewhere], lr=1.0).step()  # other models train as they like
    training.step()
    training.close()
    other.step()  # and this one, once the loop is closed


def test_a_loop_that_is_forgotten_guards_nothing(account: Account) -> None:
    net = linear()
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    training = make_private(small(net), optimizer, (X, Y), account=account)
    del training
    gc.collect()
    optimizer.step()


def test_a_second_loop_of_a_model_is_refused_before_its_charge(account: Account) -> None:
    """It was charged, and its first step raised."""
    net = linear()
    first = private(account, net=net)
    with pytest.raises(InvalidParameter, match=r"loop of this model is open.*Nothing was charged.*close\(\)"):
        private(account, net=net)
    private(account, net=linear()).close()
    first.close()
    private(account, net=net).close()


def test_a_loop_says_that_few_rows_were_usable(account: Account, caplog: pytest.LogCaptureFixture) -> None:
    """A share of them, so that the run is not stopped."""
    few = torch.where(torch.arange(len(X))[:, None] % 10 < 2, X, math.nan)
    for data, words in (((few, Y), ["rows of a lot were usable, of 200 expected"]), ((X, Y), [])):
        training = private(account, data=data, rng=SeededRandom(5), steps=16, noise_multiplier=0.7)
        for _ in training.lots():
            training.step()
        training.close()
        training.close()
        told = [record.getMessage() for record in caplog.records]
        assert len(told) == len(words)
        assert all(word in message for word, message in zip(words, told, strict=True))
        caplog.clear()


def test_what_is_done_to_a_lot_in_place_does_not_reach_the_step(account: Account) -> None:
    released = []
    for act in (torch.Tensor.clone, torch.Tensor.zero_):
        net = linear()
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        with make_private(small(net), optimizer, (X, Y), account=account, rng=SeededRandom(3)) as training:
            act(next(training.lots())[0])
            released.append(training.step().value["weight"])
    assert torch.equal(*released)


class Frozen(nn.Module):
    """A network that is only read, with batch norm, below a layer that is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8)).eval().requires_grad_(False)
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.drop(self.body(x)))
        return out


def test_modes_that_change_in_the_loop_are_tried_first(account: Account) -> None:
    """model.train() in the loop would wake the batch norm; dropout alone is no obstacle."""
    net = Frozen()
    optimizer = torch.optim.SGD(net.head.parameters(), lr=0.1)
    with make_private(small(net), optimizer, (X, Y), account=account) as training:
        lots = training.lots()
        next(lots)
        net.train()
        with pytest.raises(InvalidParameter, match=r'The layer "body\.1" \(BatchNorm1d\).*eval mode'):
            training.step()
        assert training.taken == 0
        net.body.eval()
        net.drop.eval()
        training.step()
        assert {found.run.__name__ for found in training._trainer._clipper.ways.values()} <= {
            "chained",
            "mapped",
        }


def _centred(module: nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
    return output - output.mean(0)


def _mix_by_hook(net: nn.Module) -> None:
    net.get_submodule("0").register_forward_hook(_centred)


def _mix_by_forward(net: nn.Module) -> None:
    before = net.forward
    net.forward = lambda x: before(x - x.mean(0))  # type: ignore[method-assign]


def _mix_by_hook_of_all(net: nn.Module) -> None:
    first = net.get_submodule("0")

    def mixed(module: nn.Module, _: Any, out: torch.Tensor) -> torch.Tensor | None:
        return out - out.mean(0) if module is first else None

    HOOKS.append(torch.nn.modules.module.register_module_forward_hook(mixed))


HOOKS: list[Any] = []


@pytest.mark.parametrize("change", [_mix_by_hook, _mix_by_forward, _mix_by_hook_of_all])
def test_code_that_is_added_in_the_loop_is_tried_first(account: Account, change: Any) -> None:
    """A hook or another `forward` that mixes rows is refused, and the lot is not lost when it is gone."""
    net = nn.Sequential(linear(), nn.LayerNorm(3))
    with private(account, net=net, steps=3) as training:
        lots = training.lots()
        next(lots)
        training.step()
        next(lots)
        change(net)
        with pytest.raises(InvalidParameter, match="lets one example of a lot change"):
            training.step()
        assert training.taken == 1
        net.get_submodule("0")._forward_hooks.clear()
        vars(net).pop("forward", None)
        while HOOKS:
            HOOKS.pop().remove()
        training.step()


def _another_head(net: nn.Module) -> None:
    net.add_module("1", nn.Linear(3, 3))


def _one_more(net: nn.Module) -> None:
    net.register_parameter("more", nn.Parameter(torch.zeros(3)))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda net: net.double(), "0.weight"),
        (lambda net: net.bfloat16(), "0.weight"),
        (_another_head, "1.weight"),
        (_one_more, "more"),
    ],
)
def test_parameters_that_are_converted_or_replaced_end_the_loop_in_a_sentence(
    account: Account, change: Any, name: str
) -> None:
    """Before, every row failed from here on and was left out, and the steps were paid for."""
    net = nn.Sequential(linear(), nn.Linear(3, 3))
    with private(account, net=net, steps=3) as training:
        next(training.lots())
        change(net)
        with pytest.raises(InvalidQuery, match=rf"have changed:.*{name}.*Nothing was run"):
            training.step()
        assert training.taken == 0


def test_fewer_bits_in_the_middle_of_a_loop_are_refused_and_freeze_nothing(account: Account) -> None:
    with private(account, steps=3) as training:
        lots = training.lots()
        next(lots)
        torch.set_float32_matmul_precision("high")
        try:
            with pytest.raises(InvalidQuery, match=r"rounded further.*Nothing was run"):
                training.step()
        finally:
            torch.set_float32_matmul_precision("highest")
        training.step()
        assert training.taken == 1


def test_an_optimiser_on_the_same_memory_is_refused_too(account: Account) -> None:
    net = linear()
    training = private(account, net=net, steps=2)
    next(training.lots())
    twins = [nn.Parameter(p.data) for p in net.parameters()]
    for twin in twins:
        twin.grad = torch.ones_like(twin)
    with pytest.raises(InvalidQuery, match="Nothing was moved"):
        torch.optim.SGD(twins, lr=1.0).step()
    training.close()


def test_a_hook_before_the_optimiser_s_step_is_refused(account: Account) -> None:
    net = linear()
    training = private(account, net=net, steps=2)
    next(training.lots())
    for register in (training._optimizer.register_step_pre_hook, register_optimizer_step_pre_hook):
        hook = register(lambda *_: net.weight.grad.add_(1000))
        with pytest.raises(InvalidParameter, match="before its step"):
            training.step()
        hook.remove()
    training.step()
    training.close()
    assert net.weight.abs().max() < 100
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    optimizer.register_step_pre_hook(lambda *_: None)
    with pytest.raises(InvalidParameter, match="Nothing was run"):
        check_optimizer(run_of(net, nn.CrossEntropyLoss(), **STEPS), optimizer)


def test_a_frozen_batch_norm_is_no_obstacle(account: Account) -> None:
    net = Frozen()
    release = account.run(small(net), (X, Y))
    assert torch.equal(release.value.model.body[1].running_mean, net.body[1].running_mean)
    assert not torch.equal(release.value.model.head.weight, net.head.weight)


def test_inside_inference_mode_nothing_is_trained(account: Account) -> None:
    training = private(account, steps=2)
    with torch.inference_mode(), pytest.raises(InvalidParameter, match="inference_mode"):
        account.run(small(), (X, Y))
    next(training.lots())
    with torch.inference_mode(), pytest.raises(InvalidQuery, match="inference_mode"):
        training.step()
    training.step()
    with torch.no_grad():  # gradients are on where they are needed
        next(training.lots())
        assert training.step().value["weight"].count_nonzero()


@pytest.mark.parametrize("after", [True, False])
def test_hooks_on_parameters_are_refused_before_the_charge(account: Account, after: bool) -> None:
    net = linear()
    if after:
        net.weight.register_post_accumulate_grad_hook(lambda p: None)  # type: ignore[operator]
    else:
        net.weight.register_hook(lambda g: g * 0)  # type: ignore[operator]
    with pytest.raises(InvalidParameter, match="'weight' has a hook, which would act on nothing"):
        account.run(small(net), (X, Y))
    assert len(account.history()) == 1


def test_a_model_that_cannot_be_copied_is_refused_with_the_way_out() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = nn.utils.weight_norm(linear())
    with pytest.raises(InvalidParameter, match=r"cannot be copied.*parametrizations\.weight_norm"):
        small(old)


def test_a_penalty_on_the_given_weights_is_refused(account: Account) -> None:
    net = linear()

    def penalised(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(out, y, reduction="none") + net.weight.square().sum()  # type: ignore[operator]

    with pytest.raises(InvalidParameter, match="a copy of it is trained, on which that does not act"):
        account.run(small(net, penalised), (X, Y))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with make_private(small(net, penalised), optimizer, (X, Y), account=account) as training:
        next(training.lots())
        training.step()  # the model itself is trained here, so the penalty acts


class _Centred(nn.Linear):
    """Rows less their mean."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = super().forward(x)
        return out - out.mean(0)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda layer: setattr(layer, "__class__", _Centred), "lets one example"),
        (lambda layer: layer.compile(), "is compiled"),
    ],
)
def test_a_layer_of_another_class_or_compiled_in_the_loop_is_refused(
    account: Account, change: Any, word: str
) -> None:
    net = nn.Sequential(linear(), nn.Tanh())
    training = private(account, net=net)
    lots = training.lots()
    next(lots)
    change(net[0])
    with pytest.raises(InvalidParameter, match=word):
        training.step()


def by_data(p: nn.Parameter) -> None:
    p.data.sub_(p.grad)  # type: ignore[arg-type]


def by_copy(p: nn.Parameter) -> None:
    with torch.no_grad():
        p.copy_(p - p.grad)  # type: ignore[operator]


def by_one_number(p: nn.Parameter) -> None:
    p.data.view(-1)[-1] += 1e-3


@pytest.mark.parametrize("change", [by_data, by_copy, by_one_number])
@pytest.mark.parametrize("steps_before", [0, 1])
def test_weights_that_are_moved_by_hand_in_the_loop_are_refused(
    account: Account, change: Any, steps_before: int
) -> None:
    net = linear(classes=3)
    training = private(account, net=net, steps=3)
    for _ in range(steps_before):
        next(training.lots())
        training.step()
    x, y = next(training.lots())
    before = {name: value.clone() for name, value in net.state_dict().items()}
    nn.functional.cross_entropy(net(x), y).backward()
    change(net.bias)  # type: ignore[arg-type]
    with pytest.raises(InvalidQuery, match="weights were changed between two steps") as refusal:
        training.step()
    assert "Nothing was run" in str(refusal.value)
    assert training.taken == steps_before
    net.load_state_dict(before)
    training.step()
    training.close()


def test_weights_that_are_loaded_before_the_first_lot_copied_or_tied_are_no_change(account: Account) -> None:
    net = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3))
    net[1].weight = net[0].weight
    training = private(account, net=net, steps=3)
    net.load_state_dict({name: value + 1 for name, value in net.state_dict().items()})
    mean = [p.detach().clone() for p in net.parameters()]
    training._optimizer.register_step_post_hook(
        lambda *_: [p.data.clamp_(-9, 9) for p in net.parameters()]  # without rows, after the noise
    )
    for _ in training.lots():
        for average, p in zip(mean, net.parameters(), strict=True):
            average.lerp_(p.detach(), 0.5)
        training.step()
        own = {name: value.clone() for name, value in net.state_dict().items()}
        net.load_state_dict({name: value * 0 for name, value in own.items()})  # averages to look at,
        net.load_state_dict(own)  # and back
    assert training.taken == 3
    training.close()
