"""What one parameter's per-example gradients are made of, and how to measure and sum
them without holding them.

Each term stands for n matrices, one per example, of p × d numbers. `squares` bounds from above the squared
norm of what `add` adds per unit of weight, rounding of the weighted factors included; `add` makes `into`
beta·into + the weighted sum, where beta 0 forgets what `into` held, be it not a number.

    Rows     the matrices themselves, flat: what is measured is what is summed
    Single   rows ⊗ cols: a linear layer; its norm is ‖rows‖·‖cols‖
    Outer    Σ_t rows_t ⊗ cols_t: a linear layer at T positions
    Lookup   Σ_t e(id_t) ⊗ cols_t: an embedding
    TiedTable  a Lookup and an Outer of one table
    Mixed    the sum of several of them: any other tied parameter

Reference: Goodfellow 2015 (norms of outer products); Li et al. 2022 (the Gram form); Bu
           et al. 2023 (book-keeping).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from deniable.learn.clip.rounding import LIMIT, bound_squares, row_squares, ulp
from deniable.learn.clip.workspace import Workspace

HELD = 2**24
"""Numbers that a temporary of the measuring may hold."""
SINGLE = 2**18
"""Positions times widths up to which Gram matrices are taken in single precision. Their inner products err by
(p + d)·u of S², which is at most T times the squared norm where positions do not cancel: a norm is then
raised by at most 2⁻⁷ of itself."""
WRITTEN, CROWDED, READ, DOUBLE, CALLS = 32, 128, 8, 5, 10_000_000
"""What it costs to write a number and read it twice, where they are few and where they leave the processor's
cache, to read one for its norm, to multiply in double precision, and to call all that the Gram form calls: in
multiplications of a matrix product in single precision."""
FEW = 2**22


@dataclass(frozen=True)
class GradientRows:
    """Per-example gradients, flat: (n, p·d). `known` are their squares, where they are known."""

    grads: Tensor
    known: Tensor | None = None

    def squares(self) -> Tensor:
        return row_squares(self.grads) if self.known is None else self.known

    def add(self, into: Tensor, weights: Tensor, beta: int = 1) -> None:
        into.view(-1).addmv_(self.grads.t(), weights, beta=beta)

    def masked(self, keep: Tensor) -> GradientRows:
        return GradientRows(_kept(self.grads, keep))

    def dense(self, part: slice, like: Tensor) -> Tensor:
        return self.grads[part].double().view(-1, *like.shape)

    def lengths(self) -> Tensor:
        return torch.zeros(len(self.grads), dtype=torch.float64, device=self.grads.device)


@dataclass(frozen=True)
class Single:
    """rows ⊗ cols, from rows (n, p), whose squares are `known`, and cols (n, d)."""

    rows: Tensor
    cols: Tensor
    known: Tensor

    def squares(self) -> Tensor:
        # ‖a ⊗ b‖ = ‖a‖·‖b‖ (Goodfellow 2015): nothing of size p·d is formed.
        cols = row_squares(self.cols)
        product = (self.known * cols).mul_(1 + 4 * ulp(self.rows.dtype))
        return torch.where(torch.maximum(self.known, cols) <= LIMIT**2, product, torch.inf)

    def add(self, into: Tensor, weights: Tensor, beta: int = 1) -> None:
        rows, cols = self.rows, self.cols
        if rows.shape[1] <= cols.shape[1]:
            rows = rows * weights[:, None]
        else:
            cols = cols * weights[:, None]
        into.addmm_(rows.t(), cols, beta=beta)

    def masked(self, keep: Tensor) -> Single:
        return replace(self, rows=_kept(self.rows, keep), cols=_kept(self.cols, keep))

    def dense(self, part: slice, like: Tensor) -> Tensor:
        return self.wide().dense(part, like)

    def lengths(self) -> Tensor:
        return self.wide().lengths()

    def wide(self) -> Outer:
        """As a sum over one position."""
        return Outer(self.rows[:, None], self.cols[:, None])


@dataclass(frozen=True)
class Outer:
    """Σ_t rows_t ⊗ cols_t, from rows (n, T, p) and cols (n, T, d)."""

    rows: Tensor
    cols: Tensor

    @property
    def positions(self) -> int:
        return self.rows.shape[1]

    def squares(self) -> Tensor:
        squares, error = self.gram()
        return _with_margin(squares, self.lengths(), ulp(self.rows.dtype), error)

    def gram(self) -> tuple[Tensor, float]:
        """The squared norms, and by which share of `lengths`² they may be wrong."""
        # ‖Σ_t r_t ⊗ c_t‖² = Σ_{s,t} (r_s·r_t)(c_s·c_t) (Li et al. 2022). An inner product of p numbers errs
        # by at most p·u of the lengths (Higham 2002, §3.1), and there are T² of them.
        wide = self.rows.shape[2] + self.cols.shape[2]
        if self.rows.dtype is not torch.float32 or self.positions * wide > SINGLE:
            return self._gram(torch.float64), (self.positions**2 + wide) * 2.0**-51
        # A bound relative to lengths says nothing of underflow, so that is added by itself.
        squares = self._gram(torch.float32).add_(self._lost(*self._sides))
        return squares, 1.01 * (wide + 4) * ulp(torch.float32)

    def _gram(self, dtype: torch.dtype) -> Tensor:
        """Σ_{s,t} (rows_s·rows_t)(cols_s·cols_t): inner products in `dtype`, their sum in float64."""
        size = max(1, HELD // self.positions**2)
        sums = []
        for rows, cols in zip(_parts(self.rows, size), _parts(self.cols, size), strict=True):
            r, c = rows.to(dtype), cols.to(dtype)
            sums.append((r @ r.mT).mul_(c @ c.mT).sum((1, 2), dtype=torch.float64))
        return torch.cat(sums)

    def _lost(self, rows: Tensor, cols: Tensor) -> Tensor:
        """What underflow may take from the sum in single precision: of each inner product
        (p + 1)·(1 + 2·the longest) of the smallest normal number, subnormals flushed to zero included."""
        p, d, tiny = self.rows.shape[2], self.cols.shape[2], torch.finfo(torch.float32).tiny
        of_rows = (p + 1) * (1 + 2 * rows.amax(1)) * cols.sum(1).square()
        of_cols = (d + 1) * (1 + 2 * cols.amax(1)) * rows.sum(1).square()
        return 2 * tiny * (of_rows + of_cols + self.positions**2)

    def add(self, into: Tensor, weights: Tensor, beta: int = 1) -> None:
        rows, cols = self.rows, self.cols
        scale = weights[:, None, None]
        if rows.shape[2] <= cols.shape[2]:
            rows = rows * scale
        else:
            cols = cols * scale
        into.addmm_(rows.flatten(0, 1).t(), cols.flatten(0, 1), beta=beta)

    def masked(self, keep: Tensor) -> Outer:
        return Outer(_kept(self.rows, keep), _kept(self.cols, keep))

    def dense(self, part: slice, like: Tensor) -> Tensor:
        return self.rows[part].double().mT @ self.cols[part].double()

    def lengths(self) -> Tensor:
        """S = Σ_t ‖rows_t‖·‖cols_t‖: what errors relative to single products are measured by."""
        rows, cols = self._sides
        return (rows * cols).sum(1)

    @cached_property
    def _sides(self) -> tuple[Tensor, Tensor]:
        return _lengths(self.rows), _lengths(self.cols)


@dataclass(frozen=True)
class Lookup:
    """Σ_t e(ids_t) ⊗ cols_t, from ids (n, T) and cols (n, T, d)."""

    ids: Tensor
    cols: Tensor

    def squares(self) -> Tensor:
        squares, error = self.gram()
        return _with_margin(squares, self.lengths(), ulp(self.cols.dtype), error)

    def gram(self) -> tuple[Tensor, float]:
        """The squared norms, and by which share of `lengths`² they may be wrong."""
        return self._gram(), (self.ids.shape[1] ** 2 + self.cols.shape[2]) * 2.0**-51

    def _gram(self) -> Tensor:
        """Σ over pairs of equal ids of cols_s·cols_t, in float64."""
        size = max(1, HELD // self.ids.shape[1] ** 2)
        sums = []
        for ids, cols in zip(_parts(self.ids, size), _parts(self.cols, size), strict=True):
            c = cols.double()
            sums.append((c @ c.mT).mul_(ids[:, :, None] == ids[:, None, :]).sum((1, 2)))
        return torch.cat(sums)

    def add(self, into: Tensor, weights: Tensor, beta: int = 1) -> None:
        if not beta:
            into.zero_()
        into.index_add_(0, self.ids.flatten(), (self.cols * weights[:, None, None]).flatten(0, 1))

    def masked(self, keep: Tensor) -> Lookup:
        return replace(self, cols=_kept(self.cols, keep))

    def dense(self, part: slice, like: Tensor) -> Tensor:
        ids, cols = self.ids[part], self.cols[part].double()
        out = torch.zeros(len(ids), *like.shape, dtype=torch.float64, device=like.device)
        return out.scatter_add_(1, ids[:, :, None].expand_as(cols), cols)

    def lengths(self) -> Tensor:
        return _lengths(self.cols).sum(1)


@dataclass(frozen=True)
class Mixed:
    """The sum of terms of different kinds; measured as a float64 matrix, a few examples at a time."""

    terms: tuple[One, ...]
    like: Tensor

    def squares(self) -> Tensor:
        error = (self.like.numel() + 2**20) * 2.0**-51
        return _with_margin(torch.cat(list(self._exact())), self.lengths(), ulp(self.like.dtype), error)

    def _exact(self) -> Iterator[Tensor]:
        n, size = len(self.lengths()), max(1, HELD // self.like.numel())
        for start in range(0, n, size):
            part = slice(start, start + size)
            total = sum(
                (term.dense(part, self.like) for term in self.terms[1:]), self.terms[0].dense(part, self.like)
            )
            yield total.flatten(1).square().sum(1)

    def add(self, into: Tensor, weights: Tensor, beta: int = 1) -> None:
        for term in self.terms:
            term.add(into, weights, beta)
            beta = 1

    def masked(self, keep: Tensor) -> Mixed:
        return replace(self, terms=tuple(term.masked(keep) for term in self.terms))

    def lengths(self) -> Tensor:
        """The parts may cancel, so their own norms enter beside their lengths."""
        return torch.stack([term.lengths() + term.squares().sqrt() for term in self.terms]).sum(0)


@dataclass(frozen=True)
class TiedTable:
    """Words looked up and words foretold by one table: Σ_s e(ids_s) ⊗ cols_s + Σ_t rows_t ⊗ cols_t.

    The squared norm of the sum is that of the parts and twice their inner product,
    Σ_{s,t} rows_t[ids_s]·(cols_s·cols_t).
    """

    words: Lookup
    head: Outer

    @property
    def terms(self) -> tuple[One, ...]:
        return self.words, self.head

    def squares(self) -> Tensor:
        (words, error), (head, more) = self.words.gram(), self.head.gram()
        pairs = self.words.ids.shape[1] * self.head.positions + self.words.cols.shape[2]
        margin = error + more + pairs * 2.0**-51
        total = words + head + 2 * self._inner()
        return _with_margin(total, self.lengths(), ulp(self.head.rows.dtype), margin)

    def _inner(self) -> Tensor:
        """Of the two parts, in float64."""
        size = max(1, HELD // (self.words.ids.shape[1] * self.head.positions))
        parts = [_parts(x, size) for x in (self.words.ids, self.words.cols, self.head.rows, self.head.cols)]
        sums = []
        for ids, own, rows, cols in zip(*parts, strict=True):
            at = rows.gather(2, ids[:, None, :].expand(-1, rows.shape[1], -1)).double()
            sums.append((at * (cols.double() @ own.double().mT)).sum((1, 2)))
        return torch.cat(sums)

    def add(self, into: Tensor, weights: Tensor, beta: int = 1) -> None:
        self.head.add(into, weights, beta)
        self.words.add(into, weights)

    def masked(self, keep: Tensor) -> TiedTable:
        return TiedTable(self.words.masked(keep), self.head.masked(keep))

    def lengths(self) -> Tensor:
        return self.words.lengths() + self.head.lengths()


One = GradientRows | Single | Outer | Lookup
Term = One | Mixed | TiedTable


def combined(terms: Sequence[One], like: Tensor, room: Workspace) -> Term:
    """One term for all uses of one parameter, whose matrix has the shape of `like`."""
    if terms[1:]:
        terms = [term.wide() if isinstance(term, Single) else term for term in terms]
    first, *rest = terms
    if not rest:
        return first
    match first:
        case GradientRows() if all(isinstance(term, GradientRows) for term in rest):
            return GradientRows(
                torch.stack([term.grads for term in terms if isinstance(term, GradientRows)]).sum(0)
            )
        case Outer() if all(isinstance(term, Outer) for term in rest):
            same = [term for term in terms if isinstance(term, Outer)]
            return outer(
                torch.cat([term.rows for term in same], 1), torch.cat([term.cols for term in same], 1), room
            )
        case Lookup() if all(isinstance(term, Lookup) for term in rest):
            tables = [term for term in terms if isinstance(term, Lookup)]
            return Lookup(
                torch.cat([term.ids for term in tables], 1), torch.cat([term.cols for term in tables], 1)
            )
    return _tied(terms) or _scattered(terms, like) or Mixed(tuple(terms), like)


def _scattered(terms: Sequence[One], like: Tensor) -> GradientRows | None:
    """Gradients of a table that are held, with lookups of it added to them, if that is all: what is measured
    is still what is summed."""
    rows = [term.grads for term in terms if isinstance(term, GradientRows)]
    words = [term for term in terms if isinstance(term, Lookup)]
    if len(rows) + len(words) < len(terms):
        return None
    total = torch.stack(rows).sum(0).view(-1, *like.shape)
    for term in words:
        total.scatter_add_(1, term.ids[:, :, None].expand_as(term.cols), term.cols)
    return GradientRows(total.flatten(1))


def _tied(terms: Sequence[One]) -> TiedTable | None:
    """The uses of a table that are lookups on one side and products on the other, if that is all."""
    words = [term for term in terms if isinstance(term, Lookup)]
    heads = [term for term in terms if isinstance(term, Outer)]
    if len(words) + len(heads) < len(terms):
        return None
    lookup = Lookup(torch.cat([term.ids for term in words], 1), torch.cat([term.cols for term in words], 1))
    head = Outer(torch.cat([term.rows for term in heads], 1), torch.cat([term.cols for term in heads], 1))
    return TiedTable(lookup, head)


def outer(rows: Tensor, cols: Tensor, room: Workspace) -> GradientRows | Outer:
    """The cheaper of the two ways to measure Σ_t rows_t ⊗ cols_t.

    The product is held, so what is measured is what is summed; the Gram form holds only its factors.
    """
    if not is_product_cheaper(rows.shape, cols.shape[2]):
        return Outer(rows, cols)
    products = room.take((len(rows), rows.shape[2], cols.shape[2]), rows)
    return GradientRows(torch.bmm(rows.mT, cols, out=products).flatten(1))


def is_product_cheaper(rows: Sequence[int], width: int) -> bool:
    """Whether Σ_t rows_t ⊗ cols_t, from rows (n, T, p) and cols (n, T, width), costs
    less itself than by Gram matrices.

    The multiplications of the product are those of the weighted sum that the Gram form is followed by. What
    is left to compare is a number held with an inner product of two positions, in single multiplications as
    they were timed."""
    n, t, p = rows
    each = 1 if t * (p + width) <= SINGLE else DOUBLE
    gram = (each * t + READ) * t * (p + width) + CALLS // n
    number = WRITTEN if n * p * width <= FEW else CROWDED
    return t > 1 and number * p * width <= gram and n * p * width <= 4 * HELD


def _with_margin(squares: Tensor, lengths: Tensor, u: float, error: float) -> Tensor:
    """Squared upper bounds for sums whose weighted factors are then rounded by u each.

    The sum errs by at most `error`·S². In float64 m products err by m·2⁻⁵³·S² to first order, a quarter of
    what is given; the rounded factors move what `add` adds by at most u·S.
    """
    upper = (squares.clamp_min(0) + (error + 2.0**-45) * lengths.square()).sqrt() + 2 * u * lengths
    finite = torch.isfinite(squares) & torch.isfinite(lengths)
    return bound_squares(torch.where(finite, upper.square() * (1 + 2.0**-50), torch.inf))


def _lengths(x: Tensor) -> Tensor:
    """Norms over the last of three axes, rounded up."""
    return bound_squares(row_squares(x.flatten(0, 1))).sqrt().view(x.shape[:2])


def _parts(x: Tensor, size: int) -> Iterator[Tensor]:
    return (x[start : start + size] for start in range(0, len(x), size))


def _kept(x: Tensor, keep: Tensor) -> Tensor:
    """x with zeros in place of the examples that are not kept: chosen, not multiplied, for 0·inf is not 0."""
    return torch.where(keep.view(-1, *[1] * (x.dim() - 1)), x, 0)
