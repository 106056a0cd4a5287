"""Clients trained ten at a time come out as clients trained one by one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from deniable.federated.train import LocalRecipe, LocalTraining, Pupil, local_training, parameters_of
from deniable.federated.train.convolutional import Convolutional
from deniable.federated.train.loop import Loop
from deniable.federated.train.recipe import flat
from deniable.federated.train.stacked import Stacked

CRITERION = nn.CrossEntropyLoss()


def dense() -> nn.Sequential:
    torch.manual_seed(0)
    layers = (
        nn.Linear(7, 5),
        nn.Tanh(),
        nn.Linear(5, 4, bias=False),
        nn.Sigmoid(),
        nn.Linear(4, 4),
        nn.ReLU(),
    )
    return nn.Sequential(nn.Flatten(), *layers, nn.Sequential(nn.Linear(4, 3))).double()


def pupils(sizes: list[int]) -> list[Pupil]:
    draw = torch.Generator().manual_seed(1)
    return [
        Pupil(torch.randn(n, 7, generator=draw).double(), torch.randint(0, 3, (n,), generator=draw), seed)
        for seed, n in enumerate(sizes)
    ]


def trained(
    training: LocalTraining, model: nn.Module, clients: list[Pupil], recipe: LocalRecipe
) -> list[Tensor]:
    return list(training.updates(flat(parameters_of(model)), clients, recipe))


@pytest.mark.parametrize(
    "recipe",
    [
        LocalRecipe(1, 4, 0.3),
        LocalRecipe(2, 4, 0.3, proximal=0.5),
        LocalRecipe(1, None, 0.3),
        LocalRecipe(3, 1, 0.1),
        LocalRecipe(2, 50, 0.2, 0.1),
    ],
)
def test_a_stack_trains_like_a_loop(recipe: LocalRecipe) -> None:
    model, clients = dense(), pupils([5, 0, 12, 3, 4, 8, 1, 2, 9, 9, 9, 7])
    stacked = Stacked.from_model(model, CRITERION)
    assert stacked is not None
    one_by_one = trained(Loop(model, CRITERION), model, clients, recipe)
    for mine, other in zip(trained(stacked, model, clients, recipe), one_by_one, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-13)
    assert torch.count_nonzero(one_by_one[1]) == 0


def test_companions_do_not_move_a_bit() -> None:
    """In single precision: the same client with others beside it, in another place of the stack, and
    alone."""
    model = dense().float()
    stacked = Stacked.from_model(model, CRITERION)
    assert stacked is not None
    clients = [Pupil(p.x.float(), p.y, p.seed) for p in pupils([9, 30, 4, 17, 8, 2, 11, 25, 6, 13])]
    recipe = LocalRecipe(2, 5, 0.3)
    alone = trained(stacked, model, clients[3:4], recipe)[0]
    assert torch.equal(trained(stacked, model, clients, recipe)[3], alone)
    assert torch.equal(trained(stacked, model, clients[::-1], recipe)[6], alone)


def test_a_plain_loop_is_what_torch_makes_of_it() -> None:
    model, (client,) = dense(), pupils([9])
    update = trained(Loop(model, CRITERION), model, [client], LocalRecipe(1, 4, 0.3))[0]
    before = flat(parameters_of(model))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for batch in client.batches(LocalRecipe(1, 4)):
        optimizer.zero_grad()
        CRITERION(model(client.x[batch]), client.y[batch]).backward()
        optimizer.step()
    torch.testing.assert_close(flat(parameters_of(model)) - before, update, rtol=0, atol=1e-14)


class Odd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * 2


class Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2


def doubled(model: nn.Module) -> nn.Module:
    """The same model, whose outputs a hook doubles."""
    model.register_forward_hook(lambda module, given, out: out * 2)
    return model


def replaced_forward() -> nn.Module:
    model = nn.Linear(7, 3)
    model.forward = lambda x: nn.functional.linear(x, model.weight)  # type: ignore[method-assign]
    return model


TIED = nn.Linear(7, 7)


@pytest.mark.parametrize(
    ("model", "criterion"),
    [
        (Odd(), CRITERION),
        (Doubled(7, 3), CRITERION),
        (doubled(nn.Linear(7, 3)), CRITERION),
        (nn.Sequential(doubled(nn.Sequential(nn.Linear(7, 3)))), CRITERION),
        (doubled(nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(3, 3))), CRITERION),
        (replaced_forward(), CRITERION),
        (nn.Sequential(nn.Flatten(0), nn.Linear(7, 3)), CRITERION),
        (nn.Sequential(TIED, nn.ReLU(), TIED), CRITERION),
        (nn.Linear(7, 3), nn.CrossEntropyLoss(ignore_index=1)),
        (nn.Linear(7, 3), doubled(nn.CrossEntropyLoss())),
        (nn.Sequential(nn.Linear(7, 3), nn.ReLU()), CRITERION),
        (nn.Sequential(nn.ReLU(), nn.Linear(7, 3)), CRITERION),
        (nn.Sequential(nn.Linear(7, 3), nn.Dropout(), nn.Linear(3, 3)), CRITERION),
        (nn.Linear(7, 3), nn.CrossEntropyLoss(label_smoothing=0.1)),
        (nn.Linear(7, 3), nn.CrossEntropyLoss(reduction="sum")),
    ],
)
def test_other_models_and_losses_take_the_loop(model: nn.Module, criterion: nn.Module) -> None:
    assert isinstance(local_training(model, criterion), Loop)


def convolutional() -> nn.Sequential:
    torch.manual_seed(0)
    first = (nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False), nn.ReLU(), nn.Flatten())
    wide = (nn.Linear(16, 150), nn.ReLU(), nn.Linear(150, 3))  # more than two strips, the last one shorter
    return nn.Sequential(*first, *second, *wide).double()


@pytest.mark.parametrize(
    "recipe", [LocalRecipe(2, 4, 0.3, proximal=0.5), LocalRecipe(1, None, 0.3), LocalRecipe(1, 5, 0.1)]
)
def test_convolutions_without_a_graph_train_like_a_loop(recipe: LocalRecipe) -> None:
    model, draw = convolutional(), torch.Generator().manual_seed(1)
    clients = [
        Pupil(torch.randn(n, 2, 8, 8, generator=draw).double(), torch.randint(0, 3, (n,), generator=draw), n)
        for n in (5, 0, 12)
    ]
    chain = Convolutional.from_model(model, CRITERION)
    assert chain is not None
    one_by_one = trained(Loop(model, CRITERION), model, clients, recipe)
    for mine, other in zip(trained(chain, model, clients, recipe), one_by_one, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-13)


def test_chains_are_recognised() -> None:
    assert isinstance(local_training(dense(), CRITERION), Stacked)
    assert isinstance(local_training(convolutional(), CRITERION), Convolutional)


class Remembering(nn.Module):
    """Keeps what it saw last, as a recurrent net may that carries its state over."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(7, 3)
        self.last: Tensor | float = 0.0

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x + self.last)
        self.last = x.mean().detach()
        return out


@pytest.mark.parametrize(
    "model",
    [nn.Sequential(nn.Linear(7, 5), nn.Dropout(0.5), nn.Linear(5, 3)), Remembering()],
    ids=["dropout", "state"],
)
def test_a_loop_keeps_nothing_of_one_client_for_the_next(model: nn.Module) -> None:
    """Whoever knows torch's seed would else read the number of a client's rows off the others' updates."""
    model, recipe = model.double(), LocalRecipe(1, 4, 0.3)
    training = local_training(model, CRITERION)
    assert isinstance(training, Loop)
    few, many, companion = pupils([4, 40, 9])
    before = torch.random.get_rng_state()
    alone = trained(training, model, [companion], recipe)[0]
    for neighbour in (few, many):
        assert torch.equal(trained(training, model, [neighbour, companion], recipe)[1], alone)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_clients_trained_at_the_same_time_draw_from_streams_of_their_own(busy_threads: None) -> None:
    """Devices in one process: torch has one generator for all threads."""
    model = nn.Sequential(nn.Linear(7, 5), nn.Dropout(0.5), nn.Linear(5, 3)).double()
    training, recipe, clients = local_training(model, CRITERION), LocalRecipe(1, 1, 0.3), pupils([60, 40, 50])
    alone = [trained(training, model, [client], recipe)[0] for client in clients]
    together: dict[int, Tensor] = {}

    def train(place: int) -> None:
        together[place] = trained(training, model, [clients[place]], recipe)[0]

    threads = [threading.Thread(target=train, args=(place,)) for place in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(together[place], update) for place, update in enumerate(alone))


def overflowing() -> nn.Sequential:
    """One step on a row of large numbers leaves it with weights that are numbers, whose product is none."""
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 2))
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(1.0)
        model[1].weight[1] = -1.0
    return model


@pytest.mark.parametrize("companion", [0, 1, 2, 40])
def test_rows_of_a_companion_do_not_turn_an_update_into_no_number(companion: int) -> None:
    """Whoever has used up its rows takes no more steps, not even steps of weight zero: zero times a number
    that overflows is no number, and a client that is heard beside few rows would be silent beside many."""
    model, recipe = overflowing(), LocalRecipe(1, 1, 1e5)
    stacked = Stacked.from_model(model, CRITERION)
    assert stacked is not None
    client = Pupil(torch.full((1, 1), 1e30), torch.tensor([1]), 3)
    other = Pupil(torch.ones(companion, 1), torch.zeros(companion, dtype=torch.int64), 4)
    alone = trained(stacked, model, [client], recipe)[0]
    assert alone.isfinite().all()
    assert torch.equal(trained(stacked, model, [client, other], recipe)[0], alone)
    assert torch.equal(trained(stacked, model, [other, client], recipe)[1], alone)
