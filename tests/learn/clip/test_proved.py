"""How it is known that rows are kept apart: what runs under vmap, what sees the whole batch there all the same and so
goes one by one, and what the certificate says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._C import _functorch
from torch.nn import functional as F

from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.learn.clip import BatchLoss, PerExample
from deniable.learn.clip.passes import Apart
from deniable.learn.sgd import DPSGD, Execution, Learning, Lots, Privacy, make_private
from deniable.learn.sgd.training.trainer import Trainer
from deniable.ledger import Ledger
from deniable.randomness import SeededRandom
from deniable.units import Unit
from tests.learn.clip import models

LOSS = nn.CrossEntropyLoss()
ROWS = (torch.linspace(-1, 1, 45).view(9, 5), torch.arange(9) % 3)


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


class Net(nn.Module):
    """Two layers, and a function of what is between them."""

    def __init__(self, between: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last, self.between = nn.Linear(5, 4), nn.Linear(4, 3), between

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.between(torch.tanh(self.first(x))))
        return out


def branches(h: Tensor) -> Tensor:
    """vmap cannot follow a branch that the numbers decide."""
    return h * 2 if h[0, 0] > 5 else h


def smooth_loss(out: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(out, y, reduction="none", label_smoothing=0.1)


def words() -> tuple[Tensor, Tensor]:
    return torch.arange(54).view(9, 6) % 7, torch.arange(9) % 3


CASES: dict[str, tuple[Callable[[], nn.Module], Any, Any, Apart]] = {
    "a chain": (lambda: nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)), LOSS, ROWS, Apart.LAYERS),
    "a chain and a loss of one's own": (
        lambda: nn.Sequential(nn.Linear(5, 3)),
        smooth_loss,
        ROWS,
        Apart.LAYERS,
    ),
    "a function between layers": (lambda: Net(torch.sin), LOSS, ROWS, Apart.VMAP),
    "a function of the batch": (
        lambda: Net(torch.sin),
        BatchLoss(lambda model, rows: F.cross_entropy(model(rows[0]), rows[1], reduction="none")),
        ROWS,
        Apart.VMAP,
    ),
    "a recurrent layer": (
        lambda: nn.Sequential(nn.Embedding(7, 5), models.Recurrent(nn.LSTM, bidirectional=True)),
        LOSS,
        words(),
        Apart.VMAP,
    ),
    "a tied table": (lambda: models.Tied(), nn.CrossEntropyLoss(), words(), Apart.VMAP),
    "a bag of words": (
        lambda: nn.Sequential(nn.EmbeddingBag(7, 4), nn.Linear(4, 3)),
        LOSS,
        words(),
        Apart.VMAP,
    ),
    "gates": (
        lambda: nn.Sequential(nn.Embedding(7, 5), models.Recurrent(nn.GRU, batch_first=True)),
        LOSS,
        words(),
        Apart.VMAP,
    ),
    "a branch": (lambda: Net(branches), LOSS, ROWS, Apart.TRIED),
    "random numbers of its own": (lambda: Net(lambda h: h + torch.randn_like(h)), LOSS, ROWS, Apart.ALONE),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_told_how_rows_are_kept_apart(name: str) -> None:
    make, criterion, rows, apart = CASES[name]
    assert PerExample(make(), criterion).apart(*rows) == apart


# ------------------------------------------------------------------ what would see the whole batch under vmap as well


class ByLargest(torch.autograd.Function):
    """A rule of its own for vmap: gradients are divided by the largest of the batch."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is saved."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] / torch.clamp(grads[0].abs().max() / 100, min=1.0)

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor) -> tuple[Tensor, int]:
        return ByLargest.apply(x), in_dims[0]  # type: ignore[no-untyped-call]


@torch.library.custom_op("deniable_tests::shifted", mutates_args=())
def shifted(x: Tensor) -> Tensor:
    return x.clone()


def _shifted_rule(info: Any, in_dims: Any, x: Tensor) -> tuple[Tensor, int]:
    return x + (x.abs().max() > 1e3).to(x), in_dims[0]


shifted.register_vmap(_shifted_rule)
shifted.register_autograd(lambda ctx, g: g)


def by_saved_tensors(h: Tensor) -> Tensor:
    def pack(x: Tensor) -> Tensor:
        return x / torch.clamp(x.abs().max() / 100, min=1.0)

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        return torch.sin(h)


def by_unwrapping(h: Tensor) -> Tensor:
    if _functorch.is_batchedtensor(h):
        return h / torch.clamp(_functorch.get_unwrapped(h).abs().max() / 100, min=1.0)
    return h


def by_text(h: Tensor) -> Tensor:
    return h * (2 if "nan" in repr(h) else 1)


def hooked() -> Net:
    model = Net(torch.sin)
    model.first.register_full_backward_hook(lambda module, into, out: None)
    return model


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize(
    "make",
    [
        lambda: Net(lambda h: ByLargest.apply(h)),  # type: ignore[no-untyped-call]
        lambda: Net(shifted),
        lambda: Net(by_saved_tensors),
        lambda: Net(by_unwrapping),
        lambda: Net(by_text),
        hooked,
    ],
    ids=["a Function", "an operator", "saved tensors", "functorch's own", "a text", "a hook of a module"],
)
def test_what_sees_the_whole_batch_under_vmap_goes_one_by_one(make: Callable[[], nn.Module]) -> None:
    clipper = PerExample(make(), LOSS)
    assert clipper.apart(*ROWS) == Apart.ALONE, clipper.method(*ROWS)


def test_a_function_that_pytorch_maps_itself_is_proved() -> None:
    class Doubled(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return 2 * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            """Nothing is saved."""

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Tensor:
            return 2 * grads[0]

    clipper = PerExample(Net(lambda h: Doubled.apply(h)), LOSS)  # type: ignore[no-untyped-call]
    assert clipper.apart(*ROWS) == Apart.VMAP


def test_a_layer_that_sums_over_rows_is_still_refused() -> None:
    """Under vmap it would be another function than the one that was written: that of one row."""
    clipper = PerExample(Net(lambda h: h - h.mean(0)), LOSS)
    with pytest.raises(InvalidParameter, match="lets one example of a lot change"):
        clipper.check(*ROWS)


# ------------------------------------------------------------------------------------------ what users hold


def run_of(model: nn.Module, **options: Any) -> DPSGD:
    privacy = Privacy(noise_multiplier=1.0, **options.pop("privacy", {}))
    lots = Lots(n=9, lot=3, steps=1)
    return DPSGD(model, LOSS, lots=lots, privacy=privacy, learning=Learning(learning_rate=0.1), **options)


@pytest.mark.parametrize(
    ("between", "words"), [(torch.sin, "proved (vmap)"), (branches, "tried")], ids=["proved", "tried"]
)
def test_the_certificate_says_how_rows_are_kept_apart(between: Any, words: str) -> None:
    with Ledger.open("sqlite://") as ledger:
        account = ledger.create("rows", Unit.row(), limit=Budget(1000, 1e-3))
        release = account.run(run_of(Net(between)), ROWS)
        assert f"Rows apart: {words}." in account.certificate(release, delta=1e-5).assumptions
        model = Net(between)
        run = DPSGD(model, LOSS, lots=Lots(n=9, lot=3, steps=1), privacy=Privacy(noise_multiplier=1.0))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with make_private(run, optimizer, ROWS, account=account) as private:
            for _ in private.lots():
                step = private.step()
        assert f"Rows apart: {words}." in account.certificate(step, delta=1e-5).assumptions


def test_a_proof_can_be_asked_for() -> None:
    proved = run_of(Net(torch.sin), privacy={"rows": "proved"})
    proved.check(ROWS)
    assert proved.rows_apart == "proved (vmap)"
    with pytest.raises(
        InvalidParameter, match=r"and not proved, that this model keeps rows apart.*data-dependent"
    ):
        run_of(Net(branches), privacy={"rows": "proved"}).check(ROWS)
    alone = run_of(Net(branches), privacy={"rows": "proved"}, how=Execution(microbatch=1))
    alone.check(ROWS)
    assert alone.rows_apart == "proved (alone)"
    with pytest.raises(InvalidParameter, match='Expected rows="proved" or rows="tried", got \'all\''):
        run_of(Net(torch.sin), privacy={"rows": "all"})


def test_what_is_proved_is_tried_no_more_in_the_middle_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []
    monkeypatch.setattr(PerExample, "again", lambda *_, **__: tries.append(1))
    for between, count in ((torch.sin, 1), (branches, 2)):
        tries.clear()
        run = run_of(Net(between))
        run.check(ROWS)
        trainer = Trainer.with_copy(run, SeededRandom(0))  # whose clipper is tried once
        trainer.next_trial = 1
        trainer.step([])
        assert len(tries) == count
