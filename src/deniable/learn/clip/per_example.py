"""Per-example gradients, clipped and summed without being held."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from deniable.errors import DeniableError, InvalidParameter
from deniable.learn.clip import structure
from deniable.learn.clip.attributes import Attributes
from deniable.learn.clip.batch import Batch, shape_of
from deniable.learn.clip.closed_forms.tape import ParameterKey, Uncovered
from deniable.learn.clip.closed_forms.terms import Term
from deniable.learn.clip.objective import BatchLoss, Criterion, objective
from deniable.learn.clip.passes import Apart, Pass, Passed, Task, alone, chained, closed, mapped
from deniable.learn.clip.rounding import LIMIT, summing, weights
from deniable.learn.clip.trials.generated import made_batch
from deniable.learn.clip.trials.probe import LARGE, Found, fork_generators, model_backup, probe
from deniable.learn.clip.trials.trial import is_same_alone, is_still_alone
from deniable.learn.clip.workspace import large
from deniable.learn.nests import tensors

METHODS = {
    "chained": "closed form",
    "mapped": "closed form",
    "closed": "closed form",
    "vectorized": "vmap",
    "alone": "one by one",
}
HELD = 2**21
"""Numbers that the terms of one microbatch hold, about: more would leave the processor's cache."""
LEAST, MOST = 32, 2**27
"""Examples of a microbatch that are not too many for the cache's sake, as long as their terms hold no more
numbers than these or than the model."""

PASSES = 2
"""How often made-up rows go through the model in turn: what a pass leaves behind must not bear on the
next."""

Shape: TypeAlias = tuple[object, ...]
"""Shapes and types of a row's parts, and the modes of the model's modules."""


@dataclass(frozen=True)
class Clipped:
    """Sums of clipped gradients by parameter, and what they were made of.

    `sums`: Σᵢ min(1, C/‖gᵢ‖)·gᵢ for each parameter, the norm taken over the parameter's group. `vectors`: the
    same memory as one flat vector for each group, in the order of its names. `norms`: for each group the
    examples' norms, rounded up, in float64; inf for an example that contributes nothing. `losses`: one per
    example, for the owner's eyes only.
    """

    sums: dict[str, Tensor]
    vectors: dict[str, Tensor]
    norms: dict[str, Tensor]
    losses: Tensor


@dataclass(frozen=True)
class Rehearsal:
    """What made-up rows do in training: whether the model `raised` on one of them that was alone, and whether
    one of them had a `finite` gradient. Where they cannot be used, no row of the data is to blame."""

    raised: bool
    finite: bool


class PerExample:
    """The gradient of each example of a lot, clipped to a norm and added to the others'.

    Guarantee: example i adds to the sums of a group a vector of L2 norm at most that
               group's clip, the rounding of norms, weights and weighted factors
               included, whatever the example is: one whose loss or gradient is not
               finite (or beyond 2⁶⁰), or on which the model raises, adds exactly zero.
    Assumes:   code between the layers treats examples apart. `check` tests that on
               generated inputs and refuses models that fail. What the float additions of
               many contributions round is not counted (docs/theory/clipping.md).
    Error:     norms are at most a relative 1e-4 above the true ones (float32); 2⁻⁷ where Gram matrices of
               many positions are taken in single precision (`terms.SINGLE`).
    Reference: Abadi et al. 2016; Goodfellow 2015; Li et al. 2022; Bu et al. 2023.

    `criterion` gives one loss per row; a loss of `torch.nn` is taken with reduction "none"
    whatever it says. `groups` names groups of parameters that are clipped apart. `microbatch`
    is how many examples go through the model at once (None: chosen by the shapes). With
    `multiplicity` K each example owns K consecutive rows; its gradient is their mean. `ways`
    are the `ways` of another one for this model: with them nothing is probed any more, and rows
    of a shape that was not probed go through the model one by one, which needs no trust in it.
    With `lot`, how many examples a lot has on average, every pass has one of two sizes that
    follow from it, filled up with made-up rows: then how many rows were drawn does not bear on
    how the arithmetic of each is rounded.

    A batch is (inputs, targets), or rows of another structure with
    `criterion=BatchLoss(function)`: see `objective`.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> clipped = PerExample(model, nn.MSELoss())(torch.eye(2), torch.full((2, 1), 100.0), clip=1.0)
    >>> clipped.sums["weight"].round(decimals=3)
    tensor([[-1., -1.]])
    """

    def __init__(
        self,
        model: nn.Module,
        criterion: Criterion | BatchLoss,
        *,
        groups: Mapping[str, Sequence[str]] | None = None,
        microbatch: int | None = None,
        multiplicity: int = 1,
        ways: Mapping[Shape, Found] | None = None,
        lot: float | None = None,
    ) -> None:
        for name, value in (("microbatch", microbatch), ("multiplicity", multiplicity)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise InvalidParameter(f"Expected {name}={value!r} to be a whole number of at least 1.")
        structure.refuse(model)
        parameters = structure.trainable(model)
        self.groups = structure.grouping(groups, list(parameters))
        self._task = Task(model, objective(criterion), parameters)
        self._microbatch, self._multiplicity, self._lot = microbatch, multiplicity, lot
        self._modules, self._parameters = list(model.modules()), list(model.parameters())
        # Read once and compared before every lot: a parameter that is thawed later would be trained without a
        # bound.
        self._trainable = [p.requires_grad for p in self._parameters]
        self._numbers = sum(p.numel() for p in parameters.values())
        self.ways: dict[Shape, Found] = {}
        self.learn(ways or {})
        # A run hands in what was found before its charge. Nothing is probed after it: a probe that fails then
        # would be steered by the shape of a private row.
        self._probing = ways is None
        self._largest: dict[Shape, int] = {}
        self._attributes: Attributes | None = None

    def learn(self, ways: Mapping[Shape, Found]) -> None:
        """Take over what another one found for this model."""
        self.ways.update(ways)
        self._task.shared_tables.update(*(way.shared_tables for way in ways.values()))

    def check(self, *rows: Any, lot: float | None = None) -> None:
        """Refuse the model if it cannot be clipped exactly on batches like these, of
        which only shape and type are read.

        Raises `InvalidParameter` with the name of the layer and the way out. Runs by itself at the first call
        for each new shape. With `lot`, gradients are tried at the sizes of lots of about so many examples;
        where they are not those of the examples alone, examples go through the model one by one.
        """
        batch = self._batch(rows)
        way = self._way(batch, lot)
        if lot is not None:
            self._try_gradients(way, batch, self._sizes(way, lot))

    def again(self, batch: Batch, *, lot: float, seed: int) -> None:
        """Try the gradients once more, with the weights and whatever else the model holds by now. Nothing
        shows of it but time: a model that fails sees one example at a time from here on."""
        way = self._way(batch)
        sizes = self._sizes(way, lot)
        if way.run is not alone and not is_still_alone(
            self._task, self._path(way), batch, sizes[seed % len(sizes)], seed
        ):
            self._distrust(batch)

    def rehearse(self, batch: Batch, *, lot: float, clip: Mapping[str, float] | float) -> Rehearsal:
        """Made-up rows like these on the way that private rows go, twice in a row. No private row is read, so
        what comes out may show."""
        way = self._way(batch)
        size = max(self._sizes(way, lot))
        bounds = structure.clips(clip, list(self.groups))
        self._attributes = Attributes.snapshot(
            self._task.model, self._attributes, criterion=self._task.source
        )
        finite = False
        with model_backup(self._task.model), fork_generators(batch):
            try:
                rows, _ = made_batch(self._task, batch, size, seed=0)
            except InvalidParameter:  # the model raises, however rows are made up
                return Rehearsal(raised=True, finite=False)
            # Twice, since a model may fail only on what the pass before left behind.
            for _ in range(PASSES):
                sums = _Sums(self._task, self.groups, bounds)
                self._add(sums, way, rows, size)
                if sums.failures:
                    return Rehearsal(raised=True, finite=False)
                finite = any(bool(torch.isfinite(norms).any()) for norms in sums.result().norms.values())
        return Rehearsal(raised=False, finite=finite)

    def _try_gradients(self, way: Found, batch: Batch, sizes: Sequence[int]) -> None:
        """Try gradients on made-up rows of these shapes, in batches of these sizes."""
        if way.run is not alone and not is_same_alone(self._task, self._path(way), batch, sizes):
            self._distrust(batch)

    def _path(self, way: Found) -> Pass:
        """What training does with a full block: the same model, the same memory, attributes put back. They
        are read before each pass, since trials change some (rates of dropout)."""
        self._attributes = None
        return lambda task, batch: self._pass(way, batch, batch.examples)

    def _batch(self, rows: tuple[Any, ...]) -> Batch:
        """A `Batch` as it is; else rows, `multiplicity` of which are one example."""
        if len(rows) == 1 and isinstance(rows[0], Batch):
            return rows[0]
        return Batch(rows[0] if len(rows) == 1 else rows, self._multiplicity)

    def _sizes(self, way: Found, lot: float) -> list[int]:
        """Examples that go through the model at once in lots of this expected size."""
        return sorted(set(self._block_sizes(way, lot)))

    def _distrust(self, batch: Batch) -> None:
        self.ways[self._shape(batch)] = self._single_rows(
            "its gradients change with the other rows of a batch"
        )

    def method(self, *rows: Any) -> str:
        """How batches of this shape are clipped: "closed form", "vmap" or "one by one", and why not
        faster."""
        way = self._way(self._batch(rows))
        is_closed = way.run in (chained, mapped, closed)
        return METHODS[way.run.__name__] + (f" ({way.reason})" if way.reason and not is_closed else "")

    def apart(self, *rows: Any) -> Apart:
        """How it is known that no row of such batches bears on another one's gradient."""
        return Apart.ALONE if self._microbatch == 1 else self._way(self._batch(rows)).apart

    def __call__(self, *rows: Any, clip: Mapping[str, float] | float) -> Clipped:
        """Clip and sum the gradients of a lot: (inputs, targets), one nest of tensors,
        or a `Batch`. An empty lot gives zeros."""
        bounds = structure.clips(clip, list(self.groups))
        batch = self._batch(rows)
        self._refuse_lengths(batch)
        # Before the first pass, so that a lot made in inference mode costs one copy and no failure half-way.
        batch = batch.to_autograd()
        sums = _Sums(self._task, self.groups, bounds)
        if batch.examples:
            way = self._tested_way(batch)
            self._attributes = Attributes.snapshot(
                self._task.model, self._attributes, criterion=self._task.source
            )
            for start, size in self._blocks(way, batch.examples):
                self._add(sums, way, batch.part(start, min(start + size, batch.examples)), size)
        return sums.result()

    def _blocks(self, way: Found, examples: int) -> Iterator[tuple[int, int]]:
        """Where each pass over a lot begins, and how many examples it has room for.

        Large blocks have room for the expected lot; what is beyond comes in small ones. So an example more or
        less moves the others by one place, and one of them into a block of the other size.
        """
        # Without a made-up example a block cannot be filled up, and its size is that of the rows in it.
        if self._lot is None or way.example is None:
            large = small = self._size(way, examples)
        else:
            large, small = self._block_sizes(way, self._lot)
        start = 0
        # The expected lot is public, the drawn one is not: where the large blocks end may depend on the first
        # alone.
        most = 0 if self._lot is None or self._several_shapes() else math.ceil(self._lot)
        while start < examples:
            size = large if start < most else small
            yield start, size
            start += size

    def _block_sizes(self, way: Found, lot: float) -> tuple[int, int]:
        """The sizes of large and of small blocks: all of an expected lot, as far as memory allows,
        and two deviations of its size."""
        large = self._size(way, max(1, math.ceil(lot)))
        return large, self._microbatch or min(large, math.ceil(2 * math.sqrt(lot)))

    def _several_shapes(self) -> bool:
        """Whether lots come in parts of which nobody knows how large they are: then all blocks are small."""
        return len({shape for shape, _ in self.ways}) > 1

    @staticmethod
    def _refuse_lengths(batch: Batch) -> None:
        lengths = sorted({len(part) for part in tensors(batch.rows)})
        if len(lengths) != 1 or lengths[0] % batch.multiplicity:
            raise InvalidParameter(
                f"Expected as many targets as rows, {batch.multiplicity} rows per example; got "
                f"{' and '.join(map(str, lengths))}."
            )

    def _way(self, batch: Batch, lot: float | None = None) -> Found:
        """What the probe found for this shape, asked once. Where the lot is known, no batch is larger than
        those of the run, and gradients are tried at their sizes (`check`)."""
        self._refuse_changes()
        shape = self._shape(batch)
        if shape not in self.ways and self._probing:
            structure.refuse(self._task.model)
            # Mixing shows in two examples at the least; more than a lot has would need memory that a step
            # does not.
            most = LARGE if lot is None else min(LARGE, max(2, self._microbatch or math.ceil(lot)))
            way = probe(self._task, batch, most)
            self.ways[shape] = way
            if lot is None:
                self._try_gradients(way, batch, (LARGE,))
        return self.ways.get(shape) or self._single_rows("the shape was not declared")

    def _tested_way(self, batch: Batch) -> Found:
        """The way for a lot of this size; where nobody declared how large lots are,
        gradients are tried at powers of two."""
        way = self._way(batch)
        if not self._probing or way.run is alone:
            return way
        # A trial for each power of two, not for each size: their number is then the logarithm of the largest
        # lot.
        shape, size = self._shape(batch), 1 << (self._size(way, batch.examples) - 1).bit_length()
        if size > max(LARGE, self._largest.get(shape, 0)):
            self._largest[shape] = size
            self._try_gradients(way, batch, (size,))
        return self._way(batch)

    def _shape(self, batch: Batch) -> Shape:
        # Dropout or a norm in another mode is another function, of which the trials said nothing.
        modes = tuple([module.training for module in self._modules])
        return (shape_of(batch), modes)

    def _single_rows(self, reason: str) -> Found:
        """No row is in a batch with another."""
        return Found(alone, reason, self._numbers)

    def _refuse_changes(self) -> None:
        """A parameter frozen or thawed later would be trained without being clipped, or the reverse. In
        inference mode every gradient would be zero."""
        if torch.is_inference_mode_enabled():
            raise InvalidParameter(
                "Inside torch.inference_mode there are no gradients; nothing was clipped. Step outside of it."
            )
        if [p.requires_grad for p in self._parameters] != self._trainable:
            now = {name for name, p in self._task.model.named_parameters() if p.requires_grad}
            difference = sorted(now ^ set(self._task.parameters))
            raise InvalidParameter(
                f"The trainable parameters have changed: {difference}. Make a new PerExample."
            )
        refuse_rounding()

    def _size(self, way: Found, examples: int) -> int:
        """Examples per microbatch, all alike. Memory decides where all gradients are
        held; else few passes are the aim."""
        if self._microbatch:
            return self._microbatch
        # How many numbers an example holds is known from made-up rows, so the size tells nothing of private
        # ones.
        each = max(way.memory, 1)
        if way.run in (chained, mapped, closed):
            most = max(HELD // each, min(LEAST, max(MOST, self._numbers) // each), 1)
        else:
            most = max(16 * HELD // each, 1)
        # As many blocks as the largest size needs, all about alike: few passes, and no short one at the end.
        return -(-examples // -(-examples // most))

    def _add(self, sums: _Sums, way: Found, batch: Batch, size: int, is_sound: bool = False) -> None:
        """Add a block with room for `size` examples. Where it raises, its examples are added apart;
        `is_sound` says that made-up rows have shown this way to be sound."""
        try:
            outcome = self._run_pass(way, batch, size)
        except DeniableError:
            raise
        except Exception:  # any row of the block may steer it, so nothing of it may show
            self._add_apart(sums, way, batch, size, is_sound)
        else:
            sums.add(*outcome, batch.examples)

    def _add_apart(self, sums: _Sums, way: Found, batch: Batch, size: int, is_sound: bool) -> None:
        """Halves of a block that raised, down to the row that did it. If made-up rows raise on this way too,
        no row did it, and all of them go through the model alone. An example is left out only if it fails
        alone, so no other row and no state of ours bears on that."""
        examples = batch.examples
        if examples > 1 and (is_sound or self._takes_made_up(way, batch, size)):
            self._add(sums, way, batch.part(0, examples // 2), size, is_sound=True)
            self._add(sums, way, batch.part(examples // 2, examples), size, is_sound=True)
            return
        for i in range(examples):
            self._add_alone(sums, batch.part(i, i + 1))

    def _add_alone(self, sums: _Sums, row: Batch) -> None:
        try:
            outcome = self._run_pass(self._single_rows(""), row, 1)
        except DeniableError:
            raise
        except Exception:  # this row may steer it
            sums.left_out()
        else:
            sums.add(*outcome, 1)

    def _takes_made_up(self, way: Found, batch: Batch, size: int) -> bool:
        """Whether a block of made-up rows goes through on this way, as it did when the way was tried."""
        if way.run is alone or way.example is None:
            return False
        try:
            self._pass(way, batch.part(0, 0).fill(size, way.example), size)
        except Exception:  # made-up rows: no row steers it
            return False
        return True

    def _run_pass(self, way: Found, batch: Batch, size: int) -> Passed:
        """Closed forms cover what they covered on generated inputs; a model that
        branches may still surprise."""
        try:
            return self._pass(way, batch, size)
        except Uncovered:
            return self._pass(self._single_rows(""), batch, size)

    def _pass(self, way: Found, batch: Batch, size: int) -> Passed:
        """The one way that rows go through the model, in trials and in training."""
        kind = batch.device.type
        with torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext():
            # How a matrix product rounds depends on its shape, and the shape of a bare block is how many rows
            # were drawn: one more row would move the gradients of all others (docs/theory/clipping.md).
            is_filled = self._lot is not None and way.example is not None
            return self._run_and_forget(way.run, batch.fill(size, way.example) if is_filled else batch)

    def _run_and_forget(self, run: Pass, batch: Batch) -> Passed:
        """A pass after which the model holds nothing of its rows. One by one, it holds nothing of the row
        before."""
        attributes = self._attributes or Attributes.snapshot(self._task.model, criterion=self._task.source)
        try:
            return alone(self._task, batch, attributes) if run is alone else run(self._task, batch)
        finally:
            attributes.restore()


class _Sums:
    """What has been added so far. `vectors` are written where a whole parameter is added, else at the end.
    Their memory is taken after the first pass, when its graph is gone."""

    def __init__(self, task: Task, groups: Mapping[str, Sequence[str]], bounds: Mapping[str, float]) -> None:
        self.task, self.bounds, self.groups = task, bounds, groups
        first = next(iter(task.parameters.values())).detach()
        self.sample = first.new_empty(0, dtype=summing(first.dtype))
        self.group = {name: group for group, names in groups.items() for name in names}
        self.totals: dict[ParameterKey, Tensor] = {}
        self.own_keys: dict[str, ParameterKey] = {}
        """Whose terms are added where the parameter's sum will be."""
        self.norms: dict[str, list[Tensor]] = {group: [] for group in groups}
        self.losses: list[Tensor] = []
        self.failures = 0
        """Examples on which the model raised, also alone."""

    @cached_property
    def vectors(self) -> dict[str, Tensor]:
        """Memory for each group."""
        return {group: large(sum(self._sizes(group)), self.sample) for group in self.groups}

    @cached_property
    def sums(self) -> dict[str, Tensor]:
        """Each parameter's part of it, in the model's order."""
        parts = {
            name: part
            for group, names in self.groups.items()
            for name, part in zip(
                names, self.vectors[group].split_with_sizes(self._sizes(group)), strict=True
            )
        }
        return {name: parts[name].view(p.shape) for name, p in self.task.parameters.items()}

    def _sizes(self, group: str) -> list[int]:
        return [self.task.parameters[name].numel() for name in self.groups[group]]

    @torch.no_grad()
    def add(self, terms: Mapping[ParameterKey, Term], losses: Tensor, examples: int) -> None:
        """Add the first `examples` of a block; what fills it up has the weight 0."""
        # Norms first, then one weighted sum: no gradient of an example is formed (Bu et al. 2023, book-
        # keeping).
        squares: dict[str, Tensor] = {}
        for key, term in terms.items():
            group, own = self.group[key.name], term.squares()
            squares[group] = squares[group] + own if group in squares else own
        keep = self._finite_mask(squares, losses, examples)
        scales = {}
        for group, parts in self.norms.items():
            total = squares[group] if group in squares else torch.zeros_like(losses, dtype=torch.float64)
            # A sum and a root in float64 err by less than this factor, whatever the number of parameters.
            norms = total.sqrt().mul_(1 + 2.0**-30)
            norms = norms if keep is None else torch.where(keep, norms, torch.inf)
            scales[group] = weights(norms, self.bounds[group], self.sample.dtype)
            # What fills up a block is made up, and no part of the sum.
            scales[group][examples:] = 0
            parts.append(norms[:examples])
        for key, term in terms.items():
            self._total(key, term if keep is None else term.masked(keep), scales[self.group[key.name]])
        self.losses.append(losses[:examples])

    @staticmethod
    def _finite_mask(squares: Mapping[str, Tensor], losses: Tensor, examples: int) -> Tensor | None:
        """The examples whose loss is finite and whose norms are within LIMIT; None if
        that is all, made-up ones included, which two numbers tell."""
        sizes = [float(total.max()) for total in squares.values()]
        # A NaN or an infinity anywhere makes the sum one, and fails every comparison: two reductions in place
        # of a mask over all examples, which is the usual case.
        if math.isfinite(float(losses.sum())) and all(size <= LIMIT**2 for size in sizes):
            return None
        keep = torch.isfinite(losses)
        keep[examples:] = False
        for total in squares.values():
            keep &= total <= LIMIT**2
        return keep

    def left_out(self) -> None:
        """One example on which the model raised."""
        self.failures += 1
        # An infinite norm has the weight 0: the example counts among the lot and adds nothing.
        norm = self.sample.new_full((1,), torch.inf, dtype=torch.float64)
        for parts in self.norms.values():
            parts.append(norm)
        self.losses.append(norm * torch.nan)

    def result(self) -> Clipped:
        for name in self.sums:
            self._place(name)
        norms = {group: _join(parts) for group, parts in self.norms.items()}
        return Clipped(self.sums, self.vectors, norms, _join(self.losses))

    def _place(self, name: str) -> None:
        """Zeros where nothing was added, and what was summed in another layout or by parts."""
        into, own = self.sums[name], self.own_keys.get(name)
        totals = {key: total for key, total in self.totals.items() if key.name == name}
        # Added in place already, in the layout of the parameter.
        if own == ParameterKey(name):
            del totals[own]
        else:
            if own is not None:
                totals[own] = totals[own].clone()
            into.zero_()
        for key, total in totals.items():
            key.place(total, into)

    def _total(self, key: ParameterKey, term: Term, scale: Tensor) -> None:
        """Add the weighted term; the first one of a key is written to its memory rather than added to
        zeros."""
        begun = key in self.totals
        if not begun:
            self.totals[key] = self._memory(key)
        term.add(self.totals[key], scale, beta=int(begun))

    def _memory(self, key: ParameterKey) -> Tensor:
        """Where the terms of a key are added: where its parameter's sum will be, for the first that is all of
        it."""
        shape = key.shape(self.task.parameters[key.name])
        # A tied parameter is summed by parts, of which only one may own the memory of the result.
        if not key.whole or any(other.name == key.name for other in self.totals):
            return self.sample.new_empty(shape)
        self.own_keys[key.name] = key
        return self.sums[key.name].view(shape)


def _join(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)


def refuse_rounding() -> None:
    """Raise if products of float32 numbers may be taken in fewer bits."""
    if _rounds_further():
        raise InvalidParameter(
            "Products of float32 numbers are set to be rounded further, beyond what norms are rounded up "
            'for. Call torch.set_float32_matmul_precision("highest"), and leave fp32_precision of '
            "torch.backends as it is."
        )


def _rounds_further() -> bool:
    """Whether products of float32 numbers may be taken in fewer bits. PyTorch does not say where this was set
    for one backend by itself."""
    try:
        return torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:
        return True
