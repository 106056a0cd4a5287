"""What is found before the charge: from the parameters alone, and on made-up rows of the declared form."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from deniable import checks
from deniable.errors import DeniableError, InvalidParameter
from deniable.learn.clip import PerExample, structure
from deniable.learn.clip.batch import Batch, shape_of
from deniable.learn.clip.objective import objective
from deniable.learn.clip.passes import Apart
from deniable.learn.clip.per_example import Shape
from deniable.learn.clip.trials.probe import Found, fork_generators
from deniable.learn.sgd.clipping import ALL, Adaptive
from deniable.learn.sgd.data import views
from deniable.learn.sgd.data.forms import RowForm
from deniable.learn.sgd.data.rows import UNDECLARED
from deniable.learn.sgd.data.users import sizes
from deniable.learn.sgd.settings import PROVED

if TYPE_CHECKING:
    from deniable.learn.sgd.dpsgd import DPSGD

Copied = TypeVar("Copied")
PRECISIONS = (torch.float32, torch.float64, torch.bfloat16)


@dataclass(frozen=True)
class Checked:
    """What was found on made-up rows before the charge: the shapes that rows may have in
    a batch, and the ways to clip them."""

    shapes: frozenset[tuple[object, ...]] = frozenset()
    ways: Mapping[Shape, Found] = field(default_factory=dict)
    made: tuple[Batch, ...] = ()
    """Made-up rows as the model sees them, one batch for each number of rows that an example may have."""

    def apart(self, run: DPSGD) -> Apart:
        """How it is known that no row bears on another one's gradient: what is known of all shapes of
        rows."""
        if run.how.microbatch == 1 or run.privacy.grid:
            return Apart.ALONE
        words = {way.apart for way in self.ways.values()}
        return next(word for word in (Apart.TRIED, Apart.VMAP, Apart.LAYERS, Apart.ALONE) if word in words)


# -------------------------------------------------------------------------------------------- on made-up rows


def try_run(run: DPSGD, data: Any, model: nn.Module | None) -> Checked:
    """Whether made-up rows of the declared form can be trained on, in a copy of the
    run's model or in `model` itself."""
    if model is None and run.learning.optimizer is None and run.learning.learning_rate is None:
        raise InvalidParameter(
            "Expected a learning_rate, or an optimizer that has its own. Nothing was charged."
        )
    form = _form(run, data)
    _refuse_hooks(run.model, is_copy=model is None)
    network = structure.in_training(copy_model(run.model)).to(run.device) if model is None else model
    clipper = run.clipper(network)
    shapes, batches = set(), []
    for size in [1] if run.privacy.max_rows is None else sizes(run.privacy.max_rows):
        batch = Batch(form.repeat(2 * size), size, public=True).to(run.device)
        shapes.add(shape_of(batch))
        batches.append(_view(run, batch))
        clipper.check(batches[-1], lot=run.plan.lot)
    if model is None:
        _refuse_own_weights(run, network, batches[0])
    if run.example is not None:
        _refuse_example(run, clipper, form)
    outcome = Checked(frozenset(shapes), clipper.ways, tuple(batches))
    _refuse_tried(run, outcome)
    _refuse_unused(run, run.training_clipper(network, clipper.ways), batches)
    return outcome


def _refuse_tried(run: DPSGD, outcome: Checked) -> None:
    if run.privacy.rows == PROVED and outcome.apart(run) is Apart.TRIED:
        reason = next(way.reason for way in outcome.ways.values() if way.apart is Apart.TRIED)
        raise InvalidParameter(
            "It is tried on made-up rows, and not proved, that this model keeps rows apart, and "
            'rows="proved" asks '
            f"for a proof. Its code does not run under vmap: {reason}. Nothing was charged. Change that "
            "code, or "
            "set Execution(microbatch=1): then rows go through the model one by one, which proves it."
        )


def copy_model(value: Copied) -> Copied:
    """A copy, or a refusal before anything is charged."""
    try:
        return copy.deepcopy(value)
    except Exception as error:  # the owner's model, before a row is read
        old = "weight_norm" in str(error)
        way = "Use torch.nn.utils.parametrizations.weight_norm." if old else "Keep no such thing in it."
        raise InvalidParameter(
            f"The model cannot be copied, and a copy of it is tried or trained: {str(error)[:120]}… Nothing "
            f"was charged. {way}"
        ) from None


def _refuse_hooks(model: nn.Module, *, is_copy: bool) -> None:
    """Hooks on parameters act on nothing: a copy of a parameter has none, and gradients that are accumulated
    are not what is trained on."""
    for name, parameter in model.named_parameters():
        after = getattr(parameter, "_post_accumulate_grad_hooks", None)
        if after or (is_copy and parameter._backward_hooks):
            raise InvalidParameter(
                f"The parameter {name!r} has a hook, which would act on nothing: "
                + ("a copy of the model is trained. " if not after else "no gradient is accumulated. ")
                + "Nothing was charged. Change the gradient that private.step() of make_private releases, or "
                "freeze what shall not move."
            )


def _form(run: DPSGD, data: Any) -> RowForm:
    if data is not None:
        return run.rows(data).form(run.dtype)
    if run.example is None:
        raise InvalidParameter(UNDECLARED)
    return RowForm.from_row(run.example, run.dtype)


def _view(run: DPSGD, batch: Batch) -> Batch:
    """What the model sees of public rows: `augment` may change their shape."""
    augment = run.learning.augment
    views.refuse_mixing(augment, views.inputs(batch.rows, run.criterion))
    with fork_generators(batch):
        return views.view_rows(augment, batch, run.learning.multiplicity, run.criterion)


def _refuse_own_weights(run: DPSGD, twin: nn.Module, batch: Batch) -> None:
    """A criterion that uses the weights of the model that was given acts on nothing: a copy is trained."""
    weights = [p for p in run.model.parameters() if p.requires_grad]
    gradients: tuple[Tensor | None, ...] = ()
    with (
        torch.enable_grad(),
        fork_generators(batch),
        suppress(Exception),
    ):  # zeros may be no rows for it
        losses = objective(run.criterion)(twin, batch.rows)
        gradients = (
            torch.autograd.grad(losses.sum(), weights, allow_unused=True) if losses.requires_grad else ()
        )
    if any(part is not None for part in gradients):
        raise InvalidParameter(
            "The criterion uses the weights of the model that was given, and a copy of it is trained, on "
            "which that does not act. Nothing was charged. Take weight_decay of the optimizer for a penalty, "
            "or train the model itself by make_private."
        )


def _refuse_example(run: DPSGD, clipper: PerExample, form: RowForm) -> None:
    """The example itself, with the values it has: its label is one of the classes, its
    words are in the table."""
    try:
        own = Batch(form.repeat(1)).to(run.device)
        with fork_generators(own):
            batch = views.view_rows(
                run.learning.augment,
                own,
                run.learning.multiplicity,
                run.criterion,
            )
        norms = clipper(batch, clip=dict(run.rule.bounds)).norms.values()
        usable = all(bool(torch.isfinite(each).all()) for each in norms)
    except DeniableError:
        raise
    except Exception:  # the example is public or made up
        usable = False
    if not usable:
        raise InvalidParameter(
            "The model or the criterion fails on the example, or its loss or gradient there is no finite "
            "number: rows like it would add nothing. Nothing was charged. Check the label, the words and the "
            "criterion."
        )


def _refuse_unused(run: DPSGD, clipper: PerExample, batches: list[Batch]) -> None:
    """A clipper such as training has must use every made-up row, pass after pass: a fault of ours, or of the
    model's code, would be charged in full and train on noise."""
    bounds = dict(run.rule.bounds)
    if any(clipper.rehearse(batch, lot=run.lot_of(), clip=bounds).raised for batch in batches):
        raise InvalidParameter(
            "Made-up rows of the declared form cannot be used in training, though the model takes them when "
            "they are tried. Nothing was charged. If the model's own code raises nothing, please report this."
        )


# -------------------------------------------------------------------------------------- from parameters alone


def refuse_settings(run: DPSGD) -> None:
    privacy, learning = run.privacy, run.learning
    factors = tuple(checks.number("noise_schedule", f, above=0) for f in privacy.noise_schedule)
    if not factors or len(factors) > run.plan.steps:
        raise InvalidParameter(
            f"Expected 1 to {run.plan.steps} factors in noise_schedule, got {len(factors)}."
        )
    checks.whole("multiplicity", learning.multiplicity, at_least=1)
    if learning.average is not None:
        checks.number("average", learning.average, above=0, below=1)
    if run.how.microbatch is not None:
        checks.whole("microbatch", run.how.microbatch, at_least=1)
    privacy.refuse_units()
    privacy.refuse_rows()
    if checks.flag("grid", privacy.grid) and isinstance(run.rule, Adaptive):
        raise InvalidParameter("Expected a fixed clip with grid=True: a bound that moves has no fixed grid.")
    _refuse_drawn(run)


def _refuse_drawn(run: DPSGD) -> None:
    if run.plan.passes and len(run.privacy.noise_schedule) > 1:
        raise InvalidParameter("Expected one noise for all steps with allocated=True. Nothing was charged.")
    is_correlated = run.plan.correlation is not None
    is_simple = (
        len(run.privacy.noise_schedule) == 1 and not run.privacy.grid and not isinstance(run.rule, Adaptive)
    )
    if is_correlated and not is_simple:
        raise InvalidParameter(
            "Expected one noise for all steps, a fixed clip and grid=False with FixedLots: what a step takes "
            "back of earlier noise is of the same size and no whole number. Nothing was charged."
        )
    if (run.plan.passes or run.plan.cap is not None or is_correlated) and run.unit.replace:
        raise InvalidParameter(
            "Expected a unit that is added or removed with cap, allocated=True or FixedLots, got "
            f"{run.unit}. Nothing was charged."
        )


def refuse_model(run: DPSGD) -> None:
    if not isinstance(run.model, nn.Module):
        raise InvalidParameter(f"Expected model to be a torch.nn.Module, got {type(run.model).__name__}.")
    parameters = {name: p for name, p in run.model.named_parameters() if p.requires_grad}
    if not parameters:
        raise InvalidParameter("Expected a model with a trainable parameter. Nothing was charged.")
    if wrong := sorted({str(p.dtype) for p in parameters.values() if p.dtype not in PRECISIONS}):
        raise InvalidParameter(
            f"Expected parameters in float32, float64 or bfloat16, got {', '.join(wrong)}. Use model.float() "
            "or model.bfloat16(). Nothing was charged."
        )
    _refuse_devices(run)
    if len({p.dtype for p in parameters.values()}) > 1:
        raise InvalidParameter("Expected trainable parameters of one precision. Use model.float().")
    _refuse_groups(run, list(parameters))
    run.clipper(run.model)
    bounds = (run.rule.low, run.rule.high) if isinstance(run.rule, Adaptive) else run.rule.bounds.values()
    for bound in bounds:
        structure.clips(bound, [ALL])


def _refuse_devices(run: DPSGD) -> None:
    places = {str(value.device) for value in [*run.model.parameters(), *run.model.buffers()]}
    if len(places) > 1 or "meta" in places:
        raise InvalidParameter(
            f"Expected a model on one device, got {', '.join(sorted(places))}. Nothing was charged. Use "
            'model.to("cuda") or the like.'
        )
    try:
        torch.zeros(1, dtype=torch.float64, device=run.device)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise InvalidParameter(
            "Expected a device that is there and has float64, in which norms are added, got "
            f"{run.how.device}: {str(error)[:100]} Nothing was charged."
        ) from None


def _refuse_groups(run: DPSGD, trainable: list[str]) -> None:
    members = [name for names in run.groups.values() for name in names]
    if sorted(members) != sorted(trainable):
        missing, twice = (
            sorted(set(trainable) - set(members)),
            sorted({n for n in members if members.count(n) > 1}),
        )
        unknown = sorted(set(members) - set(trainable))
        raise InvalidParameter(
            "Expected every trainable parameter in one group of clip=PerLayer(…); "
            f"missing: {missing}, repeated: {twice}, not trainable: {unknown}. Nothing was charged."
        )


def refuse_optimizer(run: DPSGD) -> None:
    """A trial on a copy, with zero gradients: what fails here would fail after the charge."""
    learning = run.learning
    refuse_rates(run)
    model = copy_model(run.model)
    try:
        optimizer = learning.new_optimizer(model)
    except Exception as error:  # the caller's function, before a row is read
        raise InvalidParameter(
            f"Expected a function that makes an optimizer from parameters alone: {error}. Nothing was "
            "charged. Give optimizer=lambda parameters: torch.optim.Adam(parameters, lr=0.01), or the "
            "optimizer itself to make_private."
        ) from None
    refuse_groups_of_rates(run, optimizer)
    trial(model, optimizer)
    identities = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not {id(p) for p in model.parameters() if p.requires_grad} <= identities:
        raise InvalidParameter(
            "Expected the optimizer to hold every trainable parameter. Nothing was charged."
        )


def refuse_rates(run: DPSGD) -> None:
    for step in range(run.plan.steps if callable(run.learning.learning_rate) else 1):
        rate = run.learning.rate_at(step)
        if rate is not None and not (math.isfinite(rate) and rate >= 0):
            raise InvalidParameter(f"Expected a learning rate in [0, ∞), got {rate:g} at step {step}.")


def refuse_groups_of_rates(run: DPSGD, optimizer: Optimizer) -> None:
    if run.learning.learning_rate is not None and len(optimizer.param_groups) > 1:
        raise InvalidParameter(
            f"The optimizer has {len(optimizer.param_groups)} groups of parameters, and learning_rate= would "
            "give them all one rate. Nothing was charged. Leave out learning_rate to keep the groups' own, "
            "or make one group."
        )


def trial(model: nn.Module, optimizer: Optimizer) -> None:
    """A step with zero gradients, on copies: what fails here would fail after the charge."""
    try:
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
    except Exception as error:  # zero gradients: no row steers it
        raise InvalidParameter(
            f"Expected an optimizer whose step() needs no closure and takes dense gradients: {error}. "
            "Nothing was charged."
        ) from None
