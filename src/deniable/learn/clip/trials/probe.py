"""Generated inputs on which a model shows how its examples can be clipped, before it sees any data.

Closed forms are proofs about layers; what a user's code does between layers only a trial can show. A batch of
two and a batch of three generated examples are compared with the same examples run one after the other:

- a loss whose gradient reaches into another example's input, by however little, mixes examples;
- a loss that changes when the example is alone, or when the others are replaced, mixes
  examples without a gradient;
- a parameter or buffer that has changed after the forward passes, be it the first alone,
  would carry data out without noise;
- a model or criterion that gives two answers to one batch from one seed remembers what it saw;
- a closed form, and vmap(grad), is used only if it gives the gradients of the examples alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from deniable.errors import DeniableError, InvalidParameter
from deniable.learn.clip.attributes import Attributes
from deniable.learn.clip.batch import Batch
from deniable.learn.clip.closed_forms.tape import ParameterKey, Reordered, Uncovered
from deniable.learn.clip.closed_forms.terms import GradientRows, Lookup, Mixed, Outer, Single, Term, TiedTable
from deniable.learn.clip.passes import (
    APART,
    Apart,
    Pass,
    Passed,
    Task,
    alone,
    chained,
    closed,
    mapped,
    vectorized,
)
from deniable.learn.clip.rounding import summing
from deniable.learn.clip.trials.generated import (
    WIDE,
    draw_batch,
    exchange,
    made_batch,
    odd_rows,
    with_targets_of,
)
from deniable.learn.nests import take_apart

SIZES = (2, 3)
LARGE = 33
"""Examples whose rows are replaced, in one batch or, where no batch of a run has so many, in several."""
EXCHANGED = 1e-6
"""By how much a loss may change then: its own arithmetic has the same shapes."""
DRAWS = 3
"""Gradients may differ at a near-tie of a maximum; only what differs in every draw is a difference."""
TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-8, torch.bfloat16: 3e-2}
PART = 2**16
"""Numbers that are compared at once."""
UNREACHED = (
    "The loss has no gradient in any trainable parameter: it was detached, is computed from the weights of "
    "another model, or this runs inside torch.inference_mode; nothing was trained. Compute it from what the "
    "model gives, with gradients on."
)
DROPOUTS = (
    F.dropout,
    F.dropout1d,
    F.dropout2d,
    F.dropout3d,
    F.alpha_dropout,
    F.feature_alpha_dropout,
    torch.dropout,
)


@dataclass(frozen=True)
class Found:
    """How a model is to be clipped, why not faster, and numbers held per example on the way."""

    run: Pass
    reason: str
    memory: int
    example: Any = None
    """The rows of a made-up example, which fill up a block."""
    shared_tables: frozenset[str] = frozenset()
    """Tables that are looked up for all examples at once."""

    @property
    def apart(self) -> Apart:
        """How it is known that rows are kept apart on this way."""
        return APART[self.run]


def probe(task: Task, sample: Batch, limit: int = LARGE) -> Found:
    """The fastest exact way for batches like this one, of which only shapes and types are read. No trial is
    on more than `limit` examples at once, so that it needs no more memory than a step."""
    with model_backup(task.model), fork_generators(sample), no_dropout(task.model):
        # Before the first pass of all: a layer that sets itself up by its first batch (ActNorm) changes only
        # then.
        before = _digests(task.model)
        batches = [[made_batch(task, sample, size, seed)[0] for size in SIZES] for seed in range(DRAWS)]
        _refuse_changes(task, before)
        _refuse_ungraded(task, batches[0][0])
        if _random(task, batches[0][0]):
            return Found(
                alone, "the model draws random numbers of its own", _numbers_held(alone(task, batches[0][0]))
            )
        _refuse_mixing(task, batches)
        # Small lots have few others to be changed by: as many batches as make LARGE of them.
        for seed in range(batches_for(limit)):
            _refuse_exchange(task, sample, limit, seed)
        reasons: list[str] = []
        for run in (chained, mapped, closed, vectorized):
            reason = _difference(task, run, batches)
            if not reason:
                numbers, example = _memory_of_run(task, run, batches), batches[0][0].part(0, 1).rows
                return Found(run, "; ".join(reasons), numbers, example, frozenset(task.shared_tables))
            if run is not chained:  # one closed form is as fast as the other, about
                reasons.append(reason)
        return Found(alone, "; ".join(reasons), _numbers_held(alone(task, batches[0][0])))


def _refuse_changes(task: Task, digests: Mapping[str, bytes]) -> None:
    """Whatever a forward pass changes in the model carries its data out, also if only
    the first one does (ActNorm)."""
    now = _digests(task.model)
    for name, digest in digests.items():
        if now.get(name) != digest:
            raise InvalidParameter(
                f'A forward pass changes "{name}" of the model, which would carry data out without noise; '
                "nothing was trained. Remove running statistics and the like, or put that layer in eval mode."
            )


def _digests(model: nn.Module) -> dict[str, bytes]:
    """What buffers and parameters hold, in little memory."""
    tensors = {**dict(model.named_buffers()), **dict(model.named_parameters())}
    return {name: _digest(value.detach()) for name, value in tensors.items()}


def _digest(value: Tensor) -> bytes:
    flat = value.cpu().contiguous().view(-1).view(torch.uint8)
    return blake2b(flat.numpy().data, person=str(value.shape).encode()[:16]).digest()


def _random(task: Task, batch: Batch) -> bool:
    """Whether the model draws random numbers, dropout aside: by the generator's place after a pass, for what
    is drawn may be the same by chance. Two passes from one seed may not differ."""
    # One seed for both: what still differs was kept from the pass before.
    first, second = (_seeded_losses(task, batch, seed) for seed in (0, 0))
    if not torch.equal(first, second):
        raise InvalidParameter(
            "The model or the criterion gives two answers to one batch from one seed: it keeps something of "
            "what it saw, which would tie examples of different lots together, or has a generator of its "
            "own; nothing was trained. Keep nothing in forward, and draw from torch's default generator."
        )
    torch.manual_seed(0)
    # Where the generator stands, not what it gave: two draws may be equal by chance, two places are not.
    start = _places(batch.device)
    task.losses(batch)
    return any(not torch.equal(*pair) for pair in zip(start, _places(batch.device), strict=True))


def _places(device: torch.device) -> list[Tensor]:
    """Where torch's generators are: that of the CPU, and that of the device."""
    if device.type == "cpu":
        return [torch.get_rng_state()]
    return [torch.get_rng_state(), torch.get_device_module(device).get_rng_state(device)]


def fork_generators(batch: Batch) -> AbstractContextManager[None]:
    """Torch's generators are afterwards where they were, that of the batch's device too."""
    device = batch.device
    if device.type == "cpu":
        return torch.random.fork_rng(devices=[])
    return torch.random.fork_rng([device], device_type=device.type)


def _seeded_losses(task: Task, batch: Batch, seed: int) -> Tensor:
    torch.manual_seed(seed)
    return task.losses(batch).detach()


def _refuse_ungraded(task: Task, batch: Batch) -> None:
    """A model that runs and cannot be differentiated would fail at the first lot."""
    parameters = [*task.parameters.values()]
    gradients: tuple[Tensor | None, ...] = ()
    try:
        with torch.enable_grad():
            losses, inputs = _follow(task, batch)
            if losses.requires_grad:
                gradients = torch.autograd.grad(losses.sum(), [*inputs, *parameters], allow_unused=True)
        if all(part is None for part in gradients[-len(parameters) :]):
            raise InvalidParameter(UNREACHED)
    except DeniableError:
        raise
    except Exception as error:  # generated rows, so no private row is quoted
        raise InvalidParameter(
            f"The model's gradient fails on generated rows: {error} Nothing was trained. Where it is "
            "torch.utils.checkpoint, pass use_reentrant=False."
        ) from error


def _follow(task: Task, batch: Batch) -> tuple[Tensor, list[Tensor]]:
    """The losses, and the parts of the rows that can have a gradient; inside `enable_grad`."""
    structure, parts = take_apart(batch.rows)
    # Words and classes have no gradient; that they mix is seen by exchanging rows (`_refuse_exchange`).
    fresh = [part.clone().requires_grad_(part.is_floating_point()) for part in parts]
    losses = task.losses(batch.with_rows(structure.build(fresh)))
    return losses, [part for part in fresh if part.requires_grad]


def _refuse_mixing(task: Task, batches: list[list[Batch]]) -> None:
    for batch in batches[0]:
        if _reaches(task, batch):
            raise InvalidParameter(_mixing(task, batch))
    # In every draw: a near-tie of a maximum may go two ways by rounding, and would refuse an honest model.
    if all(any(_depends(task, batch) for batch in draw) for draw in batches):
        raise InvalidParameter(_mixing(task, batches[0][-1]))


def batches_for(size: int) -> int:
    """How many batches of this size have LARGE examples together."""
    return max(1, -(-LARGE // size))


@torch.enable_grad()
def _refuse_exchange(task: Task, sample: Batch, size: int, seed: int) -> None:
    """Refuse if the loss of a row changes when all others of a larger batch are
    replaced, by numbers near or far from 0 and by such as no draw has. With gradients on: a model may take
    some of its own."""
    near, draw = made_batch(task, sample, size, 2 * seed)
    attributes = Attributes.snapshot(task.model)
    here = near.split(task.losses(near).detach())
    far = (
        _ones_for_targets(task, draw_batch(task, sample, size, 2 * seed + 1, draw, wide), near)
        for wide in WIDE
    )
    for others in itertools.chain(far, odd_rows(task, near, draw)):
        # The ends: what leaks along a batch (a running sum, a shift) reaches the last row from the first, or
        # back.
        for i in (0, size - 1):
            try:
                there = near.split(task.losses(exchange(near, others, [i])).detach())
            except Exception:  # the model takes no such numbers
                attributes.restore()
                continue
            if not torch.allclose(here[i], there[i], rtol=EXCHANGED, atol=0.0, equal_nan=True):
                raise InvalidParameter(_mixing(task, near))


def _ones_for_targets(task: Task, company: Batch, base: Batch) -> Batch:
    """Targets of 1 where the model takes them: those of `base` that are all 0 are so because others fail."""
    structure, parts = take_apart(base.rows)
    ones = base.with_rows(structure.build([torch.ones_like(part) if part.any() else part for part in parts]))
    return with_targets_of(task, ones, company)


def _reaches(task: Task, batch: Batch) -> bool:
    """Whether the loss of one example has a gradient, however small, in another's rows."""
    with torch.enable_grad():
        losses, inputs = _follow(task, batch)
        if not inputs:
            return False
        for i, loss in enumerate(batch.split(losses).sum(1)):
            if loss.requires_grad:
                for g in torch.autograd.grad(loss, inputs, retain_graph=True, allow_unused=True):
                    if (
                        g is not None
                        and torch.cat([batch.split(g)[:i], batch.split(g)[i + 1 :]]).count_nonzero()
                    ):
                        return True
    return False


def _depends(task: Task, batch: Batch) -> bool:
    """Whether the loss of an example changes, or cannot be had, when it is alone."""
    together = batch.split(task.losses(batch).detach())
    try:
        own = [task.losses(batch.part(i, i + 1)).detach() for i in range(batch.examples)]
    except Exception:  # generated rows: an example that fails alone depends on others
        return True
    return not close(together, torch.stack(own))


def _mixing(task: Task, batch: Batch) -> str:
    name = _first_mixing(task, batch)
    where = (
        f'The layer "{name}" ({type(task.model.get_submodule(name)).__name__})'
        if name
        else "The model or the criterion"
    )
    return (
        f"{where} lets one example of a lot change what another one gives, so no bound on one example's "
        "contribution exists; nothing was trained. Compute it from the example's own row, along other axes "
        "than the first."
    )


def _first_mixing(task: Task, batch: Batch) -> str:
    """The first module, innermost first, whose output for an example changes when the example is alone."""
    together = _outputs(task, batch)
    k = batch.multiplicity
    for i in range(batch.examples):
        own = slice(i * k, (i + 1) * k)
        for (name, a), (_, b) in zip(together, _outputs(task, batch.part(i, i + 1)), strict=False):
            if a.shape[0] == batch.examples * k and b.shape[0] == k and not close(a[own], b):
                return name
    return ""


def _outputs(task: Task, batch: Batch) -> list[tuple[str, Tensor]]:
    """What each module gave, in the order of finishing."""
    outputs: list[tuple[str, Tensor]] = []

    def note(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            first = output[0] if isinstance(output, tuple) else output
            if isinstance(first, Tensor) and first.dim():
                outputs.append((name, first.detach().clone()))

        return hook

    handles = [module.register_forward_hook(note(name)) for name, module in task.model.named_modules()]
    try:
        with suppress(Exception):  # what fails for one example alone has been seen up to there
            task.losses(batch)
    finally:
        for handle in handles:
            handle.remove()
    return outputs


def _difference(task: Task, run: Pass, batches: list[list[Batch]]) -> str:
    """Why a way through the model is not exact, or nothing."""
    reason = ""
    for draw in batches:
        try:
            reason = next(filter(None, (_unlike(task, run, batch) for batch in draw)), "")
        except Reordered as error:  # by chance, perhaps: few examples, few positions for an expert
            reason = str(error)
        except Uncovered as error:
            return str(error)
        except DeniableError:
            raise
        except Exception as error:  # generated rows: a way that fails on them is not taken
            sentence = str(error).split(". ")[0].split("\n")[0][:160]
            return f"{run.__name__}: {sentence or type(error).__name__}"
        if not reason:
            return ""
    return reason


def _unlike(task: Task, run: Pass, batch: Batch) -> str:
    """The first parameter whose per-example gradients are not those of the examples alone.

    One example's gradient is held at a time, so the trial needs no more memory than a step. Hence two rounds:
    the first finds the largest entries, by which differences are measured.
    """
    outcome, examples = run(task, batch), batch.examples
    sizes = dict.fromkeys(task.parameters, 0.0)
    for i in range(examples):
        sizes = {
            name: max(sizes[name], largest(right)) for name, right in row_gradients(task, batch, i).items()
        }
    # A parameter whose gradient is nearly nothing has no scale of its own: rounding alone would fail it.
    least = 1e-3 * max(sizes.values())
    for i in range(examples):
        for name, right in row_gradients(task, batch, i).items():
            if not close(gradient(task, outcome, name, i), right, scale=max(sizes[name], least)):
                return f"{run.__name__}: the gradient of {name} is not that of the examples alone"
    return ""


def row_gradients(task: Task, batch: Batch, i: int) -> dict[str, Tensor]:
    """The gradient of the i-th example, run by itself."""
    terms, _ = alone(task, batch.part(i, i + 1))
    rows = ((key.name, term.grads) for key, term in terms.items() if isinstance(term, GradientRows))
    return {
        name: grads.view_as(task.parameters[name]).to(task.parameters[name].dtype) for name, grads in rows
    }


def gradient(task: Task, outcome: Passed, name: str, i: int) -> Tensor:
    """The i-th example's gradient of one parameter."""
    terms, losses = outcome
    slope = _zeros(task.parameters[name])
    indicator = torch.zeros(len(losses), dtype=slope.dtype, device=slope.device)
    indicator[i] = 1
    for key, term in ((key, term.masked(indicator > 0)) for key, term in terms.items()):  # 0·∞ is not 0
        if key == ParameterKey(name):
            term.add(slope.view(key.shape(slope)), indicator)
        elif key.name == name:
            total = slope.new_zeros(key.shape(slope))
            term.add(total, indicator)
            key.place(total, slope)
    return slope.detach()


def own_gradient(task: Task, outcome: Passed, name: str, i: int) -> Tensor:
    """The same from the i-th example's part of each term alone: quick where there are many examples."""
    terms, _ = outcome
    slope = _zeros(task.parameters[name])
    for key, term in terms.items():
        if key.name == name:
            for part in term.terms if isinstance(term, Mixed | TiedTable) else (term,):
                like = slope.new_empty(()).expand(key.shape(slope))  # a shape that takes no memory
                key.place(part.dense(slice(i, i + 1), like)[0].to(slope.dtype), slope)
    return slope.detach()


def _zeros(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter, dtype=summing(parameter.dtype), requires_grad=False)


def largest(gradient: Tensor) -> float:
    low, high = torch.aminmax(gradient)
    return float(torch.maximum(-low, high))


def close(a: Tensor, b: Tensor, scale: float | None = None) -> bool:
    """Equal up to rounding; where both are not finite they count as equal. Compared by parts, for memory."""
    if not a.is_floating_point():
        return torch.equal(a, b)
    size = (
        float(b[torch.isfinite(b)].abs().max()) if scale is None and torch.isfinite(b).any() else scale or 0.0
    )
    near, a = TOLERANCE.get(b.dtype, 1e-3) * size, a.to(b.dtype)
    parts = zip(torch.split(a.reshape(-1), PART), torch.split(b.reshape(-1), PART), strict=True)
    return all(torch.allclose(p, q, rtol=0.0, atol=near, equal_nan=True) for p, q in parts)


def _memory_of_run(task: Task, run: Pass, batches: list[list[Batch]]) -> int:
    """The numbers held in the first draw whose rows stay in their order; one of them does."""
    for batch, *_ in batches:
        with suppress(Reordered):
            return _numbers_held(run(task, batch))
    raise AssertionError("a way was found on none of the draws")


def _numbers_held(outcome: Passed) -> int:
    """Numbers held for one example by terms with a gradient or several positions per example."""
    terms, losses = outcome
    return sum(_numbers(term) for term in terms.values()) // max(len(losses), 1)


def _numbers(term: Term) -> int:
    match term:
        case GradientRows():
            return term.grads.numel()
        case Single():
            return 0
        case Outer():
            return term.rows.numel() + term.cols.numel()
        case Lookup():
            return term.cols.numel()
        case Mixed() | TiedTable():
            return sum(map(_numbers, term.terms))


class _Still(TorchFunctionMode):
    """No dropout: its masks differ between a batch and its examples alone, and are no mixing."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        if func in DROPOUTS:
            return args[0] if args else options["input"]
        if func is F.scaled_dot_product_attention:
            args, options = _without_dropout(args, options)
        return func(*args, **options)


def _without_dropout(
    args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Attention's arguments with a `dropout_p` of 0, the fifth of them."""
    if len(args) > 4:
        return (*args[:4], 0.0, *args[5:]), options
    return args, options | {"dropout_p": 0.0}


@contextmanager
def no_dropout(model: nn.Module) -> Iterator[None]:
    """Dropout off, in modules that carry their own rate as well."""
    rates = [
        (module, module.dropout)
        for module in model.modules()
        if isinstance(module, nn.MultiheadAttention | nn.RNNBase) and isinstance(module.dropout, float)
    ]
    try:
        for module, _ in rates:
            module.dropout = 0.0
        with _Still():
            yield
    finally:
        for module, rate in rates:
            module.dropout = rate


@contextmanager
def model_backup(model: nn.Module) -> Iterator[None]:
    """Parameters, buffers and attributes are afterwards what they were, whatever a forward pass does to
    them."""
    tensors, attributes = [*model.parameters()], Attributes.snapshot(model)
    before = [value.detach().clone() for value in tensors]
    try:
        yield
    finally:
        attributes.restore()
        with torch.no_grad():
            for value, old in zip(tensors, before, strict=True):
                if not torch.equal(value, old):
                    value.copy_(old)
