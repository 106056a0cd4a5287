"""Generated inputs on which a model shows how its examples can be clipped, before it sees any data.

Closed forms are proofs about layers; what a user's code does between layers only a trial can show. A batch of two and a
batch of three generated examples are compared with the same examples run one after the other:

- a loss whose gradient reaches into another example's input, by however little, mixes examples;
- a loss that changes when the example is alone, or when the others are replaced, mixes examples without a gradient;
- a parameter or buffer that has changed after the forward passes, be it the first alone, would carry data out without noise;
- a model or criterion that gives two answers to one batch from one seed remembers what it saw;
- a closed form, and vmap(grad), is used only if it gives the gradients of the examples alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from deniable.errors import DeniableError, InvalidParameter
from deniable.learn.clip.passes import Pass, Passed, Task, alone, chained, closed, vectorized
from deniable.learn.clip.tape import Key, Uncovered
from deniable.learn.clip.terms import Lookup, Mixed, Outer, Rows, Single, Term

SIZES = (2, 3)
LARGE, WIDE = 33, (30.0, 1.0)
"""Examples of a batch whose rows are replaced, and the spread about 0 of the numbers that replace them."""
EXCHANGED = 1e-6
"""By how much a loss may change then: its own arithmetic has the same shapes."""
DRAWS = 3
"""Gradients may differ at a near-tie of a maximum; only what differs in every draw is a difference."""
TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-8}
PART = 2**16
"""Numbers that are compared at once."""
UNREACHED = (
    "The loss has no gradient in any trainable parameter: it was detached, is computed from the weights of another model, or "
    "this runs inside torch.inference_mode; nothing was trained. Compute it from what the model gives, with gradients on."
)
DROPOUTS = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout)


@dataclass(frozen=True)
class Found:
    """How a model is to be clipped, why not faster, and numbers held per example on the way."""

    run: Pass
    why: str
    held: int


def probe(task: Task, x: Tensor, y: Tensor) -> Found:
    """The fastest exact way for batches like x and y, of which only shapes and types are read."""
    with restored(task.model), torch.random.fork_rng(devices=[]), still(task.model):
        before = _digests(task.model)
        batches = [[made_batch(task, x, y, size, seed) for size in SIZES] for seed in range(DRAWS)]
        _refuse_changes(task, before)
        _refuse_ungraded(task, *batches[0][0])
        if _random(task, *batches[0][0]):
            return Found(alone, "the model draws random numbers of its own", _held(alone(task, *batches[0][0])))
        _refuse_mixing(task, batches)
        _refuse_exchange(task, x, y)
        reasons: list[str] = []
        for run in (chained, closed, vectorized):
            reason = _difference(task, run, batches)
            if not reason:
                return Found(run, "; ".join(reasons), _held(run(task, *batches[0][0])))
            if run is not chained:  # one closed form is as fast as the other, about
                reasons.append(reason)
        return Found(alone, "; ".join(reasons), _held(alone(task, *batches[0][0])))


def made_batch(task: Task, x: Tensor, y: Tensor, size: int, seed: int) -> tuple[Tensor, Tensor]:
    """Generated rows of the shape and type of x and y; a class is 0 or 1, a word any that every table has."""
    inputs, targets = generated(task, x, y, size, seed)
    try:
        task.losses(inputs, targets)
    except DeniableError:
        raise
    except Exception:
        # One output only: every class but 0 is out of range. If 0 fails as well, the model or its shapes are wrong.
        targets = torch.zeros_like(targets)
        _tried(task, inputs, targets)
    return inputs, targets


def generated(
    task: Task, x: Tensor, y: Tensor, size: int, seed: int, wide: float | None = None
) -> tuple[Tensor, Tensor]:
    """Inputs in [0, 1], or normal ones of the deviation `wide`; targets in [0, 1]."""
    random = torch.Generator().manual_seed(seed)
    tables = [m.num_embeddings for m in task.model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)]

    def like(sample: Tensor, most: int, wide: float | None = None) -> Tensor:
        shape = (size * task.multiplicity, *sample.shape[1:])
        if not sample.is_floating_point():
            return torch.randint(0, most, shape, generator=random).to(sample.device, sample.dtype)
        draw = torch.rand if wide is None else torch.randn
        return draw(shape, generator=random, dtype=sample.dtype).mul_(wide or 1.0).to(sample.device)

    return like(x, min(tables, default=2), wide), like(y, 2)


def _tried(task: Task, x: Tensor, y: Tensor) -> None:
    try:
        task.losses(x, y)
    except DeniableError:
        raise
    except Exception as error:
        raise InvalidParameter(
            f"The model or the criterion fails on generated rows of the shapes {tuple(x.shape)} and {tuple(y.shape)}: "
            f"{error}. Nothing was trained. Check the shapes, types and the batch axis, which must come first."
        ) from error


def _refuse_changes(task: Task, before: Mapping[str, bytes]) -> None:
    """Whatever a forward pass changes in the model carries its data out, also if only the first one does (ActNorm)."""
    now = _digests(task.model)
    for name, digest in before.items():
        if now.get(name) != digest:
            raise InvalidParameter(
                f'A forward pass changes "{name}" of the model, which would carry data out without noise; nothing was trained. '
                "Remove running statistics and the like, or put that layer in eval mode."
            )


def _digests(model: nn.Module) -> dict[str, bytes]:
    """What buffers and parameters hold, in little memory."""
    tensors = {**dict(model.named_buffers()), **dict(model.named_parameters())}
    return {name: _digest(value.detach()) for name, value in tensors.items()}


def _digest(value: Tensor) -> bytes:
    flat = value.cpu().contiguous().view(-1).view(torch.uint8)
    return blake2b(flat.numpy().data, person=str(value.shape).encode()[:16]).digest()


def _random(task: Task, x: Tensor, y: Tensor) -> bool:
    """Whether two passes over the same batch differ, dropout aside; with the same seed they may not."""
    first, second = (_seeded(task, x, y, seed) for seed in (0, 0))
    if not torch.equal(first, second):
        raise InvalidParameter(
            "The model or the criterion gives two answers to one batch from one seed: it keeps something of what it saw, which "
            "would tie examples of different lots together, or has a generator of its own; nothing was trained. Keep nothing "
            "in forward, and draw from torch's default generator."
        )
    return not torch.equal(first, _seeded(task, x, y, 1))


def _seeded(task: Task, x: Tensor, y: Tensor, seed: int) -> Tensor:
    torch.manual_seed(seed)
    return task.losses(x, y).detach()


def _refuse_ungraded(task: Task, x: Tensor, y: Tensor) -> None:
    """A model that runs and cannot be differentiated would fail at the first lot."""
    try:
        with torch.enable_grad():
            inputs = x.clone().requires_grad_(x.is_floating_point())
            losses = task.losses(inputs, y)
        reached: tuple[Tensor | None, ...] = ()
        if losses.requires_grad:
            parameters = [*task.parameters.values()]
            wanted = [inputs] * inputs.requires_grad + parameters
            reached = torch.autograd.grad(losses.sum(), wanted, allow_unused=True)[-len(parameters) :]
        if all(part is None for part in reached):
            raise InvalidParameter(UNREACHED)
    except DeniableError:
        raise
    except Exception as error:
        raise InvalidParameter(
            f"The model's gradient fails on generated rows: {error} Nothing was trained. Where it is "
            "torch.utils.checkpoint, pass use_reentrant=False."
        ) from error


def _refuse_mixing(task: Task, batches: list[list[tuple[Tensor, Tensor]]]) -> None:
    for x, y in batches[0]:
        if x.is_floating_point() and _reaches(task, x, y):
            raise InvalidParameter(_mixing(task, x))
    if all(any(_depends(task, x, y) for x, y in draw) for draw in batches):
        raise InvalidParameter(_mixing(task, batches[0][-1][0]))


@torch.no_grad()
def _refuse_exchange(task: Task, x: Tensor, y: Tensor) -> None:
    """Refuse if the loss of a row changes when all others of a larger batch are replaced, by numbers near or far from 0."""
    near = made_batch(task, x, y, LARGE, seed=0)
    here = task.split(task.losses(*near))
    ones = torch.ones_like(near[1]) if near[1].any() else near[1]  # targets that are all 0 are so because others fail
    for wide in WIDE:
        others = generated(task, x, y, LARGE, 1, wide)[0], ones
        for i in (0, LARGE - 1):
            mixed = (_exchanged(task, own, other, i) for own, other in zip(near, others, strict=True))
            try:
                there = task.split(task.losses(*mixed))
            except Exception:  # the model takes no such numbers
                continue
            if not torch.allclose(here[i], there[i], rtol=EXCHANGED, atol=0.0, equal_nan=True):
                raise InvalidParameter(_mixing(task, near[0]))


def _exchanged(task: Task, own: Tensor, other: Tensor, i: int) -> Tensor:
    """The rows of `other`, but for the i-th example, which is that of `own`."""
    mixed = other.clone()
    task.split(mixed)[i] = task.split(own)[i]
    return mixed


def _reaches(task: Task, x: Tensor, y: Tensor) -> bool:
    """Whether the loss of one example has a gradient, however small, in another's rows."""
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        losses = task.split(task.losses(x, y)).sum(1)
        for i, loss in enumerate(losses):
            if loss.requires_grad:
                (g,) = torch.autograd.grad(loss, x, retain_graph=True, allow_unused=True)
                if g is not None and torch.cat([task.split(g)[:i], task.split(g)[i + 1 :]]).count_nonzero():
                    return True
    return False


def _depends(task: Task, x: Tensor, y: Tensor) -> bool:
    """Whether the loss of an example changes, or cannot be had, when it is alone."""
    together = task.split(task.losses(x, y).detach())
    pairs = zip(task.split(x), task.split(y), strict=True)
    try:
        apart = torch.stack([task.losses(own, target).detach() for own, target in pairs])
    except Exception:
        return True
    return not close(together, apart)


def _mixing(task: Task, x: Tensor) -> str:
    name = _first_mixing(task, x)
    where = (
        f'The layer "{name}" ({type(task.model.get_submodule(name)).__name__})'
        if name
        else "The model or the criterion"
    )
    return (
        f"{where} lets one example of a lot change what another one gives, so no bound on one example's contribution exists; "
        "nothing was trained. Compute it from the example's own row, along other axes than the first."
    )


def _first_mixing(task: Task, x: Tensor) -> str:
    """The first module, innermost first, whose output for an example changes when the example is alone."""
    together = _outputs(task.model, x)
    k = task.multiplicity
    for i in range(len(x) // k):
        own = slice(i * k, (i + 1) * k)
        for (name, a), (_, b) in zip(together, _outputs(task.model, x[own]), strict=False):
            if a.shape[0] == len(x) and b.shape[0] == k and not close(a[own], b):
                return name
    return ""


def _outputs(model: nn.Module, x: Tensor) -> list[tuple[str, Tensor]]:
    """What each module gave, in the order of finishing."""
    seen: list[tuple[str, Tensor]] = []

    def note(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            first = output[0] if isinstance(output, tuple) else output
            if isinstance(first, Tensor) and first.dim():
                seen.append((name, first.detach().clone()))

        return hook

    handles = [module.register_forward_hook(note(name)) for name, module in model.named_modules()]
    try:
        with suppress(Exception):  # what fails for one example alone has been seen up to there
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _difference(task: Task, run: Pass, batches: list[list[tuple[Tensor, Tensor]]]) -> str:
    """Why a way through the model is not exact, or nothing."""
    reason = ""
    for draw in batches:
        try:
            reason = next(filter(None, (_unlike(task, run, x, y) for x, y in draw)), "")
        except Uncovered as error:
            return str(error)
        except DeniableError:
            raise
        except Exception as error:
            return f"{run.__name__}: {type(error).__name__}"
        if not reason:
            return ""
    return reason


def _unlike(task: Task, run: Pass, x: Tensor, y: Tensor) -> str:
    """The first parameter whose per-example gradients are not those of the examples alone.

    One example's gradient is held at a time, so the trial needs no more memory than a step. Hence two rounds: the first finds the
    largest entries, by which differences are measured.
    """
    found, examples = run(task, x, y), len(x) // task.multiplicity
    sizes = dict.fromkeys(task.parameters, 0.0)
    for i in range(examples):
        sizes = {name: max(sizes[name], _largest(right)) for name, right in row_gradients(task, x, y, i).items()}
    least = 1e-3 * max(sizes.values())
    for i in range(examples):
        for name, right in row_gradients(task, x, y, i).items():
            if not close(gradient(task, found, name, i), right, scale=max(sizes[name], least)):
                return f"{run.__name__}: the gradient of {name} is not that of the examples alone"
    return ""


def row_gradients(task: Task, x: Tensor, y: Tensor, i: int) -> dict[str, Tensor]:
    """The gradient of the i-th example, run by itself."""
    own = slice(i * task.multiplicity, (i + 1) * task.multiplicity)
    terms, _ = alone(task, x[own], y[own])
    rows = ((key.name, term.grads) for key, term in terms.items() if isinstance(term, Rows))
    return {name: grads.view_as(task.parameters[name]) for name, grads in rows}


def gradient(task: Task, passed: Passed, name: str, i: int) -> Tensor:
    """The i-th example's gradient of one parameter."""
    terms, losses = passed
    found = torch.zeros_like(task.parameters[name], requires_grad=False)
    one = torch.zeros(len(losses), dtype=found.dtype, device=found.device)
    one[i] = 1
    for key, term in terms.items():
        if key == Key(name):
            term.add(found.view(key.shape(found)), one)
        elif key.name == name:
            total = found.new_zeros(key.shape(found))
            term.add(total, one)
            key.place(total, found)
    return found.detach()


def _largest(gradient: Tensor) -> float:
    low, high = torch.aminmax(gradient)
    return float(torch.maximum(-low, high))


def close(a: Tensor, b: Tensor, scale: float | None = None) -> bool:
    """Equal up to rounding; where both are not finite they count as equal. Compared by parts, for memory."""
    if not a.is_floating_point():
        return torch.equal(a, b)
    size = float(b[torch.isfinite(b)].abs().max()) if scale is None and torch.isfinite(b).any() else scale or 0.0
    near = TOLERANCE.get(b.dtype, 1e-3) * size
    parts = zip(torch.split(a.reshape(-1), PART), torch.split(b.reshape(-1), PART), strict=True)
    return all(torch.allclose(p, q, rtol=0.0, atol=near, equal_nan=True) for p, q in parts)


def _held(passed: Passed) -> int:
    """Numbers held for one example by terms with a gradient or several positions per example."""
    terms, losses = passed
    return sum(_numbers(term) for term in terms.values()) // max(len(losses), 1)


def _numbers(term: Term) -> int:
    match term:
        case Rows():
            return term.grads.numel()
        case Single():
            return 0
        case Outer():
            return term.rows.numel() + term.cols.numel()
        case Lookup():
            return term.cols.numel()
        case Mixed():
            return sum(map(_numbers, term.terms))


class _Still(TorchFunctionMode):
    """No dropout: its masks differ between a batch and its examples alone, and are no mixing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func in DROPOUTS:
            return args[0] if args else (kwargs or {})["input"]
        return func(*args, **(kwargs or {}))


@contextmanager
def still(model: nn.Module) -> Iterator[None]:
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
def restored(model: nn.Module) -> Iterator[None]:
    """Parameters and buffers are afterwards what they were, whatever a forward pass does to them."""
    tensors = [*model.buffers(), *model.parameters()]
    before = [value.detach().clone() for value in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for value, old in zip(tensors, before, strict=True):
                if not torch.equal(value, old):
                    value.copy_(old)
