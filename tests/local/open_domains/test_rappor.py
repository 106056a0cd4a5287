"""RAPPOR: the ε of the paper, memory that is kept, and words that are found."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from deniable.errors import InvalidParameter
from deniable.local import Rappor
from deniable.local.open_domains.rappor_decoding import _least_squares
from deniable.local.protocol import HEADER
from deniable.local.simulate import zipf
from deniable.loss import Pure
from deniable.randomness import SecureRandom, SeededRandom
from tests import chance

WORDS = [f"word-{i}" for i in range(60)]


def test_epsilon_is_that_of_the_paper() -> None:
    """Erlingsson et al. 2014, §4: h = 2, f = 1/2, p = 1/2, q = 3/4 give 1.0743 once and 4 ln 3 for ever."""
    client = Rappor(f=0.5, p=0.5, q=0.75, hashes=2)
    assert client.epsilon == pytest.approx(1.0743, abs=5e-5)
    assert 4 * math.log(3) <= client.memo_epsilon <= 4 * math.log(3) + 1e-9
    assert client.loss == Pure(client.epsilon)
    assert client.memo_loss == Pure(client.memo_epsilon)


def test_epsilon_once_is_at_most_epsilon_for_life() -> None:
    for f in (0.1, 0.25, 0.9):
        client = Rappor(f=f, p=0, q=1, hashes=3)
        assert client.epsilon <= client.memo_epsilon * (1 + 1e-9)
        assert client.epsilon == pytest.approx(client.memo_epsilon)


def test_epsilon_is_stated_even_where_it_is_useless() -> None:
    assert Rappor(f=1e-9, hashes=16).memo_epsilon == pytest.approx(32 * math.log(2e9), rel=1e-6)


def test_every_bit_is_turned_over_as_often_as_stated() -> None:
    client, n = Rappor(width=8, cohorts=1, hashes=1), 100_000
    place = int(client.places(np.zeros(1, np.int64), client.inputs(["a"]), 0)[0])
    bits = np.unpackbits(client.reports(["a"] * n, rng=SecureRandom())[:, HEADER + 2 :], axis=1).mean(axis=0)
    expected = np.full(8, float(client.p_star))
    expected[place] = float(client.q_star)
    assert np.all(np.abs(bits - expected) < chance.reach(chance.EACH / 8) * 0.5 / math.sqrt(n))
    assert (client.p_star, client.q_star) == (Fraction(9, 16), Fraction(11, 16))


def test_a_place_that_two_functions_share_is_one_bit() -> None:
    client = Rappor(f=1e-9, p=0, q=1, width=8, hashes=16, cohorts=1)
    filters = np.unpackbits(
        client.reports([f"w{i}" for i in range(200)], rng=SecureRandom())[:, HEADER + 2 :], axis=1
    )
    names = client.inputs([f"w{i}" for i in range(200)])
    for i in range(200):
        places = {int(client.places(np.zeros(1, np.int64), names[i : i + 1], j)[0]) for j in range(16)}
        assert set(np.flatnonzero(filters[i])) == places


def test_a_memo_is_kept_and_its_reports_scatter_around_it() -> None:
    client, rng = Rappor(p=0.25, q=0.75), SecureRandom()
    memo = client.memoise("red", rng=rng)
    reports = np.array([np.frombuffer(client.replay(memo, rng=rng), np.uint8) for _ in range(2000)])
    assert {tuple(row) for row in reports[:, HEADER : HEADER + 2].tolist()} == {
        tuple(memo[HEADER : HEADER + 2])
    }
    permanent = np.unpackbits(np.frombuffer(memo[HEADER + 2 :], np.uint8))
    shares = np.unpackbits(reports[:, HEADER + 2 :], axis=1).mean(axis=0)
    assert np.all(
        np.abs(shares - np.where(permanent, 0.75, 0.25))
        < chance.reach(chance.EACH / len(shares)) * 0.434 / math.sqrt(2000)
    )
    with pytest.raises(InvalidParameter, match="memo of this protocol"):
        client.replay(memo[:-1], rng=rng)


def test_words_are_found_with_honest_errors_and_absent_ones_are_not() -> None:
    client, people, rng = Rappor(), np.random.default_rng(0), SeededRandom(5)
    drawn = people.choice(30, 200_000, p=zipf(30, 1.3))
    server = client.server()
    server.add(client.reports(np.array(WORDS)[drawn], rng=rng))
    decoded = server.estimate(WORDS)
    truth = np.bincount(drawn, minlength=60)
    found = {word: count for word, count, _ in decoded.found()}
    assert {"word-0", "word-1", "word-2"} <= set(found)
    assert set(found) <= set(WORDS[:30])
    chosen = np.isfinite(decoded.standard_errors)
    off = np.abs(decoded.counts - truth)[chosen] / decoded.standard_errors[chosen]
    assert np.all(off < 6.2)
    low, high = decoded.interval(0.999)
    assert low[0] <= truth[0] <= high[0]


def test_words_are_found_in_a_dictionary_too_large_to_fit_at_once() -> None:
    client, users = Rappor(f=0.25, p=0.25, q=0.75, width=32, cohorts=8), 100_000
    dictionary = [f"word-{i}" for i in range(300)]
    server = client.server()
    server.add(client.reports(["word-0"] * (users // 2) + ["word-1"] * (users // 2), rng=SeededRandom(5)))
    decoded = server.estimate(dictionary)
    assert np.isinf(decoded.standard_errors).any(), "all 300 were fitted at once to 256 bits"
    assert {word for word, _, _ in decoded.found()} >= {"word-0", "word-1"}
    assert len(decoded.found()) < 10


def test_a_dictionary_that_lacks_a_frequent_word_does_not_bend_the_others() -> None:
    client, people = Rappor(), np.random.default_rng(1)
    drawn = people.choice(30, 200_000, p=zipf(30, 1.3))
    server = client.server()
    server.add(client.reports(np.array(WORDS)[drawn], rng=SeededRandom(6)))
    decoded = server.estimate(WORDS[1:])
    truth = np.bincount(drawn, minlength=60)[1:]
    assert abs(decoded.counts[0] - truth[0]) < 6.2 * decoded.standard_errors[0]
    assert {word for word, _, _ in decoded.found()} <= set(WORDS[:30])


def test_the_constant_takes_up_what_no_candidate_explains() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (200, 5)).astype(float)
    weights = np.arange(5.0) * 100
    found, errors = _least_squares(rows, rows @ weights + 777, np.full(200, 9.0))
    assert np.allclose(found, weights)
    assert np.all((errors > 0.3) & (errors < 0.6))


def test_no_reports_or_no_candidates_find_nothing() -> None:
    assert Rappor().server().estimate(WORDS).found() == []
    assert Rappor().server().estimate([]).found() == []


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"f": 0}, "no permanent bit is noisy"),
        ({"f": 1}, "f=1"),
        ({"p": 0.75, "q": 0.5}, "0 ≤ p < q ≤ 1"),
        ({"width": 100}, "power of two"),
        ({"hashes": 0}, "hashes=0"),
    ],
)
def test_parameters_without_privacy_or_meaning_are_refused(bad: dict[str, float], sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        Rappor(**bad)  # type: ignore[arg-type]
