"""Memory that passes share: one after the other, never two at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from deniable.learn.clip import Batch, PerExample
from deniable.learn.clip.closed_forms import terms
from deniable.learn.clip.closed_forms.tape import Uncovered
from deniable.learn.clip.passes import Passed, Task, chained
from deniable.learn.clip.per_example import LEAST, MOST
from deniable.learn.clip.trials.probe import Found
from deniable.learn.clip.workspace import ALIGNED, Workspace, large


def _overlap(a: Tensor, b: Tensor) -> bool:
    first, last = sorted((a, b), key=lambda x: x.data_ptr())
    return first.data_ptr() + first.numel() * first.element_size() > last.data_ptr()


def test_what_one_pass_takes_lies_apart_and_the_next_pass_takes_the_same() -> None:
    room, like = Workspace(), torch.zeros(0)
    fresh = [room.take((3, 5), like), room.take((7,), like)]
    room.begin()
    first = [
        room.take((3, 5), like),
        room.take((7,), like),
        room.take((2,), torch.zeros(0, dtype=torch.float64)),
    ]
    assert not any(_overlap(a, b) for i, a in enumerate(first) for b in first[:i])
    assert not any(_overlap(a, b) for a in first for b in fresh)
    assert [x.shape for x in first] == [(3, 5), (7,), (2,)]
    assert all(x.data_ptr() % ALIGNED == 0 for x in first)
    room.begin()
    assert room.take((3, 5), like).data_ptr() != fresh[0].data_ptr()
    again = [room.take((n,), like) for n in (1, 1, 1)]
    assert not any(_overlap(a, b) for i, a in enumerate(again) for b in again[:i])


def test_before_it_begins_all_memory_is_new() -> None:
    """Trials compare the terms of two passes."""
    room, like = Workspace(), torch.zeros(0)
    parts = [room.take((64,), like) for _ in range(5)]
    assert not any(_overlap(a, b) for i, a in enumerate(parts) for b in parts[:i])


@pytest.mark.parametrize("size", [0, 1, 1000, 3_000_000])
def test_large_memory_is_aligned_as_that_of_torch_is(size: int) -> None:
    for like in (torch.zeros(1), torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.uint8)):
        numbers = large(size, like)
        assert numbers.shape == (size,)
        assert numbers.dtype is like.dtype
        assert numbers.data_ptr() % ALIGNED == 0 or not size


def _model() -> nn.Module:
    torch.manual_seed(0)
    convolution = nn.Conv2d(2, 6, 3, padding=1)
    return nn.Sequential(
        convolution, nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 20), nn.Tanh(), nn.Linear(20, 3)
    )


def test_lots_of_all_sizes_in_turn_are_clipped_as_by_a_new_clipper() -> None:
    """What an earlier, larger lot left in memory is in nobody's gradient."""
    model, sizes = _model(), (40, 3, 17, 1, 40, 2)
    clipper = PerExample(model, nn.CrossEntropyLoss(), microbatch=16)
    for seed, size in enumerate(sizes):
        torch.manual_seed(seed)
        x, y = torch.randn(size, 2, 6, 6), torch.randint(0, 3, (size,))
        ours = clipper(x, y, clip=0.5)
        right = PerExample(model, nn.CrossEntropyLoss(), microbatch=16)(x, y, clip=0.5)
        for name, total in right.sums.items():
            assert torch.equal(ours.sums[name], total), (size, name)


def test_sums_that_were_given_out_do_not_change_with_the_next_lot() -> None:
    model = _model()
    clipper = PerExample(model, nn.CrossEntropyLoss())
    lots = [(torch.randn(8, 2, 6, 6), torch.randint(0, 3, (8,))) for _ in range(3)]
    first = clipper(*lots[0], clip=1.0)
    before = {name: total.clone() for name, total in first.sums.items()}
    for lot in lots[1:]:
        clipper(*lot, clip=1.0)
    assert all(torch.equal(first.sums[name], total) for name, total in before.items())


@pytest.mark.parametrize("turn", [0, 1])
def test_a_convolution_is_summed_in_place_and_beside_rows_that_run_alone(turn: int) -> None:
    """Its sum is laid out anew where it was added up; what another pass summed in another layout is added."""
    torch.manual_seed(1)
    model, x, y = _model(), torch.randn(12, 2, 6, 6), torch.randint(0, 3, (12,))
    clipper = PerExample(model, nn.CrossEntropyLoss(), microbatch=6)
    right = clipper(x, y, clip=0.5)
    calls: list[int] = []

    def sometimes(task: Task, batch: Batch) -> Passed:
        calls.append(batch.examples)
        if len(calls) == turn + 1:
            raise Uncovered("this once")
        return chained(task, batch)

    clipper.ways = {shape: replace(way, run=sometimes) for shape, way in clipper.ways.items()}
    mixed = clipper(x, y, clip=0.5)
    assert calls == [6, 6]
    for name, total in right.sums.items():
        torch.testing.assert_close(mixed.sums[name], total, rtol=1e-4, atol=1e-6)


def test_many_examples_of_a_large_model_are_not_held_at_once() -> None:
    """The terms of one microbatch hold no more than a fixed number of numbers."""
    clipper = PerExample(_model(), nn.CrossEntropyLoss())
    for held, size in ((MOST // LEAST, LEAST), (MOST // 4, 4), (MOST, 1), (2 * MOST, 1)):
        assert clipper._size(Found(chained, "", held), 64) == size


def test_products_that_leave_the_cache_are_measured_by_their_factors() -> None:
    assert terms.is_product_cheaper((8, 64, 256), 256)
    assert not terms.is_product_cheaper((64, 64, 256), 1152)
    assert terms.is_product_cheaper((64, 1024, 64), 576)  # so many positions that their pairs cost more


def _hold_graph(piece: Tensor) -> object:
    """What autograd saves for its way back."""
    return nn.functional.gelu(piece.requires_grad_())


@pytest.mark.parametrize(
    "hold",
    [lambda piece: piece, lambda piece: piece.detach()[1:, :2], _hold_graph, lambda piece: piece.numpy()],
)
def test_what_somebody_holds_is_not_written_again(hold: Callable[[Tensor], object]) -> None:
    room, like = Workspace(), torch.zeros(0)
    for _ in range(2):
        room.begin()
        room.take((4, 8), like)
        room.take((3,), like)
    room.begin()
    piece = room.take((4, 8), like).fill_(1.0)
    place, holder = piece.data_ptr(), hold(piece)
    numbers = torch.from_dlpack(piece.detach())
    del piece
    for _ in range(3):
        room.begin()
        room.take((4, 8), like).fill_(2.0)
        room.take((3,), like).fill_(2.0)
        assert bool((numbers == 1).all())
    del holder, numbers
    room.begin()
    assert room.take((4, 8), like).data_ptr() == place, "what was let go is lent again"


def test_a_change_of_one_piece_is_none_of_another() -> None:
    """Autograd counts changes by storage, and refuses to go back through what was changed."""
    room, like = Workspace(), torch.zeros(0)
    room.take((64,), like)
    room.begin()
    first, second = room.take((4,), like), room.take((4,), like)
    first.zero_()
    before = first._version
    second.zero_()
    assert first._version == before


def test_what_is_held_for_good_costs_its_own_memory() -> None:
    """Whoever keeps a small piece of every pass keeps no block of every pass."""
    room, like, kept = Workspace(), torch.zeros(0), list[Tensor]()
    for _ in range(20):
        room.begin()
        room.take((1000, 1000), like)
        kept.append(room.take((10,), like))
    storages = {piece.untyped_storage().data_ptr(): piece.untyped_storage().nbytes() for piece in kept}
    assert len(storages) == 20
    assert sum(storages.values()) == 20 * 40
