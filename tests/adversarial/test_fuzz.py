"""Losses and texts that nobody thought of: a bound or a sentence, never a bare error;
and no method beats the default."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable import accounting
from deniable.accounting.filters import Filter
from deniable.accounting.filters.charges import Charge
from deniable.errors import DeniableError
from deniable.guarantee import Certificate
from deniable.loss import (
    Approximate,
    Composed,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Pure,
    ResponseNoise,
    Zcdp,
)
from deniable.units import Unit

PATIENT = {"deadline": None, "suppress_health_check": list(HealthCheck)}

WILD = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-(10**30), 10**30),
    st.fractions(),
    st.sampled_from([5e-324, 1e308, 10**400, Fraction(1, 10**400), 0, -0.0, 1, 1e-300, "1", None, True]),
)


def wild_leaves(draw: st.DrawFn) -> Loss:
    kind: Any = draw(
        st.sampled_from(
            [Pure, Zcdp, GaussianNoise, LaplaceNoise, ResponseNoise, Approximate, DiscreteLaplaceNoise]
        )
    )
    count = 2 if kind is Approximate else 1
    return kind(*(draw(WILD) for _ in range(count)))


@st.composite
def wild_losses(draw: st.DrawFn) -> Loss | None:
    """A tree of any numbers at all; None where it is refused when it is made, as it may be."""
    with contextlib.suppress(DeniableError):
        loss = wild_leaves(draw)
        for _ in range(draw(st.integers(0, 3))):
            loss = _wrapped(draw, loss)
        return loss
    return None


def _wrapped(draw: st.DrawFn, loss: Loss) -> Loss:
    match draw(st.sampled_from(["repeat", "sample", "compose", "group"])):
        case "repeat":
            return loss * draw(st.sampled_from([1, 2, 7, 1000, 10**9, 10**30]))
        case "sample":
            return loss.sampled(draw(WILD))
        case "group":
            return loss.grouped(draw(st.sampled_from([1, 2, 64, 65, 10**6])))
    return Composed((loss, wild_leaves(draw)))


@settings(max_examples=60, **PATIENT)  # type: ignore[arg-type]
@given(wild_losses(), WILD)
def test_any_numbers_give_a_bound_or_a_sentence(loss: Loss | None, at: Any) -> None:
    if loss is None:
        return
    asks: tuple[Callable[[], object], ...] = (
        lambda: accounting.epsilon(loss, at),
        lambda: accounting.delta(loss, at),
        lambda: accounting.certify(loss, Unit.row(), at),
        lambda: Filter.from_dict(loss.to_dict() if hasattr(loss, "to_dict") else {}),
    )
    for ask in asks:
        with contextlib.suppress(DeniableError):
            ask()


TEXTS = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=12),
        st.just("1/3"),
        st.just("--3/4"),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=10), inner, max_size=5)
    ),
    max_leaves=12,
)
HONEST = [
    (Pure(1) * 3 + GaussianNoise(2).sampled(0.1)).to_json(),
    DiscreteGaussianNoise(4, 1, 3).to_json(),
    Unit.column("patient", max_rows=3).to_json(),
    accounting.certify(Pure(1), Unit.row(), 1e-6).to_json(),
]


@st.composite
def broken_texts(draw: st.DrawFn) -> str:
    """An honest text with some characters taken out, doubled or put in; or any JSON; or any text."""
    if draw(st.booleans()):
        return json.dumps(draw(TEXTS))
    text = draw(st.sampled_from(HONEST))
    place = draw(st.integers(0, len(text)))
    change = draw(st.sampled_from(["", "\0", "9" * 400, '"', "{", "1e999999999", "NaN", "\\ud800", " 3_0 "]))
    return text[:place] + change + text[draw(st.integers(place, len(text))) :]


@settings(max_examples=300, **PATIENT)  # type: ignore[arg-type]
@given(broken_texts())
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    for read in (Loss.from_json, Unit.from_json, Certificate.from_json):
        with contextlib.suppress(DeniableError):
            read(text)
    with contextlib.suppress(ValueError):
        value = json.loads(text)
        for accept in (Filter.from_dict, Charge.from_dict):
            with contextlib.suppress(DeniableError):
                accept(value)


# ------------------------------------------------------------------------------------------------ the least of all methods

EVERYDAY = st.one_of(
    st.builds(Pure, st.sampled_from([0.01, 0.1, 1, 3])),
    st.builds(GaussianNoise, st.sampled_from([0.7, 2, 10, 40])),
    st.builds(LaplaceNoise, st.sampled_from([0.5, 2, 30])),
    st.builds(DiscreteLaplaceNoise, st.sampled_from([2, 10])),
    st.builds(Zcdp, st.sampled_from([0.01, 0.5])),
    st.builds(Approximate, st.sampled_from([0.1, 1]), st.sampled_from([0, 1e-9])),
)


@st.composite
def everyday_losses(draw: st.DrawFn) -> Loss:
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        loss = draw(EVERYDAY)
        if draw(st.booleans()):
            loss = loss.sampled(draw(st.sampled_from([0.01, 0.2])))
        parts.append(loss * draw(st.sampled_from([1, 3, 50])))
    return parts[0] if len(parts) == 1 else Composed(tuple(parts))


@settings(max_examples=15, **PATIENT)  # type: ignore[arg-type]
@given(everyday_losses(), st.sampled_from([1e-9, 1e-5, 1e-2]))
def test_no_named_method_is_better_than_the_default(loss: Loss, at: float) -> None:
    """Within what rounding outwards takes: a millionth and a bit near the largest loss."""
    default = math.inf
    with contextlib.suppress(DeniableError):
        default = accounting.epsilon(loss, at).upper
    for method in accounting.METHODS:
        with contextlib.suppress(DeniableError):
            named = accounting.epsilon(loss, at, method=method).upper
            assert default <= named * (1 + 1e-5) + 1e-8, method
