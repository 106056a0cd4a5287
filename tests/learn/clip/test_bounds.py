"""No example adds more than its clip, whatever its numbers are."""

from __future__ import annotations

import gc
import math
import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from deniable.learn.clip import Batch, PerExample, rounding
from deniable.learn.clip.closed_forms.terms import (
    GradientRows,
    Lookup,
    Mixed,
    Outer,
    Single,
    TiedTable,
    combined,
    outer,
)
from deniable.learn.clip.objective import objective
from deniable.learn.clip.passes import Task, chained, closed
from deniable.learn.clip.workspace import Workspace
from tests.learn.clip import models

SCALES = (1e-30, 1e-20, 1e-7, 1.0, 1e3, 1e9, 1e15, 1e17, 1e20, 1e30, 3e38)


def contribution(clipper: PerExample, x: Tensor, y: Tensor, clip: float) -> float:
    """The norm, in float64, of what one example added."""
    sums = clipper(x, y, clip=clip).sums
    return math.sqrt(sum(float(total.double().square().sum()) for total in sums.values()))


@pytest.mark.sampled
@pytest.mark.parametrize("clip", [1e-9, 0.1, 1.0, 1e6])
@pytest.mark.parametrize(
    ("model", "shape", "width"),
    [
        (nn.Linear(300, 7), (300,), 7),
        (nn.Linear(40, 30), (3, 40), 30),
        (nn.Sequential(nn.Conv1d(8, 16, 3), nn.Flatten()), (8, 20), 288),
        (models.Reused(), (5,), 5),
    ],
    ids=["linear", "sequence", "convolution", "reused"],
)
def test_no_example_adds_more_than_the_clip(
    model: nn.Module, shape: tuple[int, ...], width: int, clip: float
) -> None:
    torch.manual_seed(0)
    target = (1, width) if len(shape) == 1 or width == 288 else (1, shape[0], width)
    clipper, added = PerExample(model, nn.MSELoss(reduction="sum")), 0.0
    for scale in SCALES:
        for other in SCALES:
            x, y = torch.randn(1, *shape) * scale, torch.randn(target) * other
            length = contribution(clipper, x, y, clip)
            # What is added once to zeros is rounded by float32's u per entry; nothing else may exceed the
            # clip.
            assert length <= clip * (1 + 2.0**-23)
            added = max(added, length)
    assert added >= clip * (1 - 1e-3)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), spread=st.floats(0, 12), t=st.integers(1, 9), cancel=st.booleans())
def test_norms_are_rounded_up(seed: int, spread: float, t: int, cancel: bool) -> None:
    """Also where the positions of an example cancel, and for entries of very different sizes."""
    random = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random) * 10 ** (
            spread * torch.rand(shape, generator=random) - spread / 2
        )

    rows, cols, ids = draw(4, t, 6), draw(4, t, 5), torch.randint(0, 6, (4, t), generator=random)
    if cancel:
        rows, cols, ids = torch.cat([rows, -rows], 1), torch.cat([cols, cols], 1), torch.cat([ids, ids], 1)
        rows[:, 0] += 1e-6 * rows[:, 0].abs()
    like = torch.empty(6, 5)
    tied = combined([Outer(rows, cols), Lookup(ids, cols)], like, Workspace())
    single = Single(rows[:, 0], cols[:, 0], rounding.row_squares(rows[:, 0]))
    for term in (
        Outer(rows, cols),
        Lookup(ids, cols),
        outer(rows, cols, Workspace()),
        GradientRows(rows.flatten(1)),
        single,
        tied,
        combined([GradientRows(torch.bmm(rows.mT, cols).flatten(1)), Lookup(ids, cols)], like, Workspace()),
        Mixed((Outer(rows, cols), Lookup(ids, cols)), like),
    ):
        upper = term.squares().sqrt()
        for i, w in enumerate((1.0, 0.3, 1e-3, 1 / 3)):
            weights = torch.zeros(4)
            weights[i] = w
            shape = (6, 5) if not isinstance(term, GradientRows) else (term.grads.shape[1], 1)
            total = torch.zeros(shape, dtype=torch.float64)
            exact = _doubled(term)
            exact.add(total, weights.double()) if isinstance(term, GradientRows) else _weighted(
                term, total, weights
            )
            assert float(total.norm()) <= float(upper[i]) * float(weights[i]) * (1 + 1e-15) + 1e-300


def test_a_tied_table_is_measured_without_forming_it() -> None:
    torch.manual_seed(0)
    rows, cols, own = torch.randn(4, 7, 11), torch.randn(4, 7, 5), torch.randn(4, 9, 5)
    lookup, head = Lookup(torch.randint(0, 11, (4, 9)), own), Outer(rows, cols)
    tied = combined([lookup, head], torch.empty(11, 5), Workspace())
    assert isinstance(tied, TiedTable)
    formed = Mixed((lookup, head), torch.empty(11, 5))
    assert torch.allclose(tied.squares(), formed.squares(), rtol=1e-4)
    totals = torch.full((2, 11, 5), torch.nan)
    weights = torch.rand(4)
    tied.add(totals[0], weights, beta=0)
    formed.add(totals[1], weights, beta=0)
    assert torch.allclose(*totals, atol=1e-5)


def test_lookups_of_a_table_are_added_to_gradients_that_are_held() -> None:
    torch.manual_seed(0)
    grads, ids, cols = torch.randn(4, 55), torch.randint(0, 11, (4, 9)), torch.randn(4, 9, 5)
    before = grads.clone()
    parts = (GradientRows(grads), Lookup(ids, cols))
    joint, formed = combined(parts, torch.empty(11, 5), Workspace()), Mixed(parts, torch.empty(11, 5))
    assert isinstance(joint, GradientRows)
    assert torch.allclose(joint.squares(), formed.squares(), rtol=1e-4)
    totals, weights = torch.full((2, 11, 5), torch.nan), torch.rand(4)
    joint.add(totals[0], weights, beta=0)
    formed.add(totals[1], weights, beta=0)
    assert torch.allclose(*totals, atol=1e-5)
    assert torch.equal(grads, before)


def _doubled(term: GradientRows | Outer | Lookup | object) -> GradientRows:
    return (
        GradientRows(term.grads.double())
        if isinstance(term, GradientRows)
        else GradientRows(torch.zeros(1, 1))
    )


def _weighted(term: object, total: Tensor, weights: Tensor) -> None:
    """What `add` adds, with its factors rounded as it rounds them and the additions made in float64."""
    if isinstance(term, Single):
        _weighted(term.wide(), total, weights)
    elif isinstance(term, Outer):
        small = term.rows.shape[2] <= term.cols.shape[2]
        rows = term.rows * weights[:, None, None] if small else term.rows
        cols = term.cols if small else term.cols * weights[:, None, None]
        Outer(rows.double(), cols.double()).add(total, torch.ones(len(rows), dtype=torch.float64))
    elif isinstance(term, Lookup):
        cols = term.cols * weights[:, None, None]
        Lookup(term.ids, cols.double()).add(total, torch.ones(len(cols), dtype=torch.float64))
    else:
        for part in term.terms:  # type: ignore[attr-defined]
            _weighted(part, total, weights)


def test_squares_are_upper_bounds_and_close() -> None:
    torch.manual_seed(0)
    for d in (1, 7, 1024, 1025, 5000):
        for scale in (1e-25, 1e-15, 1.0, 1e15):
            x = torch.randn(3, d) * scale
            true, upper = x.double().square().sum(1), rounding.row_squares(x)
            assert bool((upper >= true).all())
            assert bool((upper <= true * (1 + 2e-4) + d * 1.2e-38).all())
    odd = rounding.row_squares(torch.tensor([[1.0, math.nan], [math.inf, 0], [1e30, 0], [2.0**60, 1]]))
    assert rounding.bounded(odd).isinf().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_are_rounded_down(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    norms = 10 ** (18 * torch.rand(10_000, dtype=torch.float64) - 3)
    for clip in (1e-9, 1 / 3, 1.0, 7.7):
        found = rounding.weights(norms, clip, dtype).double()
        assert bool((found * norms <= clip).all())
        assert bool((found[norms <= clip] == 1).all())
        assert bool((found * norms >= torch.minimum(norms, torch.tensor(clip)) * (1 - 1e-6)).all())
    assert float(rounding.weights(torch.tensor([math.inf], dtype=torch.float64), 1.0, dtype)) == 0


BAD = (math.nan, math.inf, -math.inf, 3e38, 1e30)


@pytest.mark.sampled
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)), (5,)),
        (nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)), (2, 4, 4)),
        (models.Recurrent(nn.GRU, batch_first=True), (6, 5)),
        (models.Attention(), (4, 6)),
        (models.Odd(), (5,)),
        (models.Branching(), (5,)),
    ],
    ids=["linear", "convolution", "recurrent", "attention", "vmap", "one by one"],
)
def test_a_row_that_is_not_finite_adds_exactly_zero_and_spoils_no_other(
    model: nn.Module, shape: tuple[int, ...], bad: float
) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(8, *shape), torch.randint(0, 3, (8,))
    x[3].view(-1)[1] = bad
    clipper = PerExample(model, nn.CrossEntropyLoss())
    got = clipper(x, y, clip=0.5)
    others = torch.arange(8) != 3
    right = clipper(x[others], y[others], clip=0.5)
    assert got.norms["all"][others].isfinite().all()
    same = (
        2e-6 if got.norms["all"][3].isinf() else 0.5 * (1 + 1e-6)
    )  # a saturated unit may hide the number: then it is clipped
    difference = sum(float((got.sums[n] - right.sums[n]).double().square().sum()) for n in right.sums)
    assert math.sqrt(difference) <= same
    if math.isnan(bad):
        assert got.norms["all"][3].isinf()


def test_only_a_bad_row_gives_exact_zeros() -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    got = PerExample(model, nn.CrossEntropyLoss())(
        torch.full((1, 5), math.nan), torch.zeros(1, dtype=torch.long), clip=1.0
    )
    assert all(int(total.count_nonzero()) == 0 for total in got.sums.values())
    assert got.norms["all"].tolist() == [math.inf]


def test_rows_on_which_the_model_raises_add_nothing() -> None:
    """A class or a word out of range must not be seen from outside."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(8, 3))
    x, y = torch.randint(0, 5, (8, 2)), torch.randint(0, 3, (8,))
    x[2, 0], y[5] = 17, 99
    clipper = PerExample(model, nn.CrossEntropyLoss())
    got = clipper(x, y, clip=0.5)
    others = torch.tensor([0, 1, 3, 4, 6, 7])
    right = clipper(x[others], y[others], clip=0.5)
    assert got.norms["all"].isinf().nonzero().flatten().tolist() == [2, 5]
    assert got.losses.isnan().nonzero().flatten().tolist() == [2, 5]
    for name in right.sums:
        torch.testing.assert_close(got.sums[name], right.sums[name], rtol=0, atol=1e-6)


def test_a_loss_that_is_not_finite_adds_nothing_though_its_gradient_is() -> None:
    def steep(output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(output, target, reduction="none") + torch.where(target == 2, math.inf, 0.0)

    torch.manual_seed(0)
    clipper = PerExample(nn.Linear(5, 3), steep)
    got = clipper(torch.randn(2, 5), torch.tensor([2, 2]), clip=1.0)
    assert got.norms["all"].tolist() == [math.inf, math.inf]
    assert all(int(total.count_nonzero()) == 0 for total in got.sums.values())


def test_finite_losses_whose_sum_is_not_are_all_kept() -> None:
    def high(output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(output, target, reduction="none") + 3e38

    got = PerExample(nn.Linear(5, 3), high)(torch.randn(3, 5), torch.tensor([0, 1, 2]), clip=1.0)
    assert got.losses.sum().isinf()
    assert got.norms["all"].isfinite().all()
    assert float(got.vectors["all"].norm()) > 0


def test_an_empty_lot_gives_zeros() -> None:
    got = PerExample(nn.Linear(5, 3), nn.CrossEntropyLoss())(
        torch.zeros(0, 5), torch.zeros(0, dtype=torch.long), clip=1.0
    )
    assert {name: total.shape for name, total in got.sums.items()} == {"weight": (3, 5), "bias": (3,)}
    assert all(int(total.count_nonzero()) == 0 for total in got.sums.values())
    assert len(got.norms["all"]) == len(got.losses) == 0


def test_nothing_of_the_users_is_touched() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Dropout(0.5), nn.Flatten(), nn.Linear(18, 3))
    x, y = torch.randn(4, 1, 5, 5), torch.randint(0, 3, (4,))
    nn.functional.cross_entropy(model(x), y).backward()
    before = [
        (p.detach().clone(), p.grad.clone(), p.stride()) for p in model.parameters() if p.grad is not None
    ]
    state, attributes = torch.get_rng_state(), [set(vars(m)) for m in model.modules()]
    PerExample(model, nn.CrossEntropyLoss()).check(x, y)
    assert torch.equal(torch.get_rng_state(), state)
    PerExample(model, nn.CrossEntropyLoss())(x, y, clip=1.0)
    for p, (value, grad, stride) in zip(model.parameters(), before, strict=True):
        assert torch.equal(p, value)
        assert p.grad is not None
        assert torch.equal(p.grad, grad)
        assert p.stride() == stride
    assert [set(vars(m)) for m in model.modules()] == attributes
    assert not any(m._forward_hooks for m in model.modules())


def test_no_gradient_of_a_linear_layer_is_held() -> None:
    model = nn.Sequential(nn.Linear(50, 60), nn.Tanh(), nn.Linear(60, 3))
    task = Task(model, objective(nn.CrossEntropyLoss()), dict(model.named_parameters()))
    for run in (chained, closed):
        terms, _ = run(task, Batch((torch.randn(4, 50), torch.zeros(4, dtype=torch.long))))
        weights = [term for key, term in terms.items() if key.name.endswith("weight")]
        assert all(isinstance(term, Single) for term in weights)


def test_a_pass_keeps_nothing_of_the_examples() -> None:
    """A circle of graph and tape once kept every lot: training grew by megabytes a step."""
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    clipper = PerExample(model, nn.CrossEntropyLoss())
    x, y = torch.randn(5, 6), torch.randint(0, 3, (5,))
    clipper(x, y, clip=1.0)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None
