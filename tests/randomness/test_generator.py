import copy
import itertools
import os
import pickle
import threading
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from deniable.errors import InvalidParameter
from deniable.randomness import SecureRandom, SeededRandom
from deniable.randomness.generator import BATCH, KEPT
from tests import chance

P = 1e-9


def in_child(action) -> bytes:
    """What `action` returns in a forked process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, action())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        result = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return result


# ---------------------------------------------------------------------------------------------- streams


def test_only_the_secure_generator_is_private() -> None:
    assert SecureRandom().private
    assert not SeededRandom(0).private


def test_seeds_reproduce_the_written_values() -> None:
    """Written once; the same on every platform, since no libm function and no native byte order takes
    part."""
    rng = SeededRandom(20_061)
    assert rng.bits(2).tolist() == GOLDEN["bits"]
    assert rng.discrete_laplace(1, size=8).tolist() == GOLDEN["laplace 1"]
    assert rng.discrete_laplace(0.1, size=8).tolist() == GOLDEN["laplace 0.1"]
    assert rng.discrete_laplace(Fraction(10**6, 3), size=6).tolist() == GOLDEN["laplace 10^6/3"]
    assert rng.discrete_gaussian(2.5, size=8).tolist() == GOLDEN["gaussian 2.5"]
    assert rng.discrete_gaussian(2**60, size=2).tolist() == GOLDEN["gaussian 2^60"]
    assert [rng.discrete_gaussian(1000) for _ in range(4)] == GOLDEN["scalars"]
    assert rng.permutation(8).tolist() == GOLDEN["permutation"]
    assert rng.poisson_sample(1000, 0.01).tolist() == GOLDEN["sample"]
    assert int(rng.discrete_gaussian(10**6, size=200_000).sum()) == GOLDEN["sum"]


GOLDEN = {
    "bits": [18354904378786787527, 8939514883673157676],
    "laplace 1": [2, 0, 0, 0, 0, 0, -2, 3],
    "laplace 0.1": [0, 0, 0, 0, 0, 0, 0, 0],
    "laplace 10^6/3": [157295, 6463, 1098127, -261840, 138369, 267302],
    "gaussian 2.5": [-1, -1, 2, -2, -1, -2, 2, -1],
    "gaussian 2^60": [295307341470006571, -1310535636217222272],
    "scalars": [1428, 1055, -1033, 708],
    "permutation": [7, 0, 6, 4, 2, 5, 3, 1],
    "sample": [143, 343, 366, 543, 657, 714, 806, 885, 907],
    "sum": -462152929,
}


def test_seeds_differ_and_repeat() -> None:
    assert SeededRandom(1).bits(4).tolist() == SeededRandom(1).bits(4).tolist()
    assert SeededRandom(1).bits(4).tolist() != SeededRandom(2).bits(4).tolist()
    assert SeededRandom(-1).bits(4).tolist() != SeededRandom(1).bits(4).tolist()


def test_a_seed_gives_the_same_whatever_was_drawn_elsewhere() -> None:
    first = SeededRandom(3).discrete_laplace(77, size=10).tolist()
    SecureRandom().discrete_laplace(77, size=100_000)  # builds the guide of this scale
    assert SeededRandom(3).discrete_laplace(77, size=10).tolist() == first


def test_secure_generators_share_nothing() -> None:
    assert SecureRandom().bits(4).tolist() != SecureRandom().bits(4).tolist()


def test_the_stream_is_one_whatever_the_pieces() -> None:
    whole, pieces = SeededRandom(4), SeededRandom(4)
    joined = np.concatenate([pieces.raw(n) for n in (1, 0, 15, 1000, (1 << 20) + 3)])
    assert (whole.raw(len(joined)) == joined).all()


def test_bits_are_fair() -> None:
    counts = (
        np.unpackbits(SecureRandom().bits(100_000).view(np.uint8).reshape(-1, 8), axis=1)
        .sum(axis=0)
        .astype(int)
    )
    assert (np.abs(counts - 50_000) < chance.reach(chance.EACH / 64) * 158.2).all()


# ---------------------------------------------------------------------------------------------- forks, threads, wiping


@pytest.mark.parametrize("draw", ["bits", "scalar"])
def test_a_forked_child_draws_something_else(draw: str) -> None:
    rng = SecureRandom()
    rng.discrete_laplace(2**70)  # leaves a batch drawn ahead

    def take() -> bytes:
        words = (
            rng.bits(4).tobytes()
            if draw == "bits"
            else repr([rng.discrete_laplace(2**70) for _ in range(4)]).encode()
        )
        return words

    assert len({in_child(take), in_child(take), take()}) == 3


def test_a_child_that_got_the_process_id_of_its_ancestor_draws_something_else(monkeypatch) -> None:
    """Process ids come round again, so they alone would not do: the fork hook takes a
    new key whatever they are."""
    rng, own = SecureRandom(), os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: own)
    assert in_child(lambda: rng.bits(4).tobytes()) != rng.bits(4).tobytes()


def test_a_child_without_fork_hooks_is_noticed_by_its_process_id(monkeypatch) -> None:
    rng = SecureRandom()
    rng.discrete_laplace(5)
    ahead = rng._batches[(int, 5, False, True)].values
    monkeypatch.setattr(os, "getpid", lambda: -1)
    rng.discrete_laplace(5)
    assert not ahead
    assert rng._process == -1


def test_a_child_is_not_locked_by_a_thread_of_its_parent() -> None:
    for rng in (SecureRandom(), SeededRandom(1)):
        held, done = threading.Event(), threading.Event()

        def hold(rng=rng, held=held, done=done) -> None:
            with rng._lock:
                held.set()
                done.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        assert in_child(lambda rng=rng: rng.bits(1).tobytes())
        done.set()
        thread.join()


def test_threads_never_share_a_word_or_a_value() -> None:
    rng, words, values = SecureRandom(), [], []

    def work() -> None:
        for _ in range(200):
            words.extend(rng.bits(5).tolist())
            values.append(rng.discrete_laplace(2**90))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(words)) == len(words) == 8000
    assert len(set(values)) == len(values) == 1600


def test_a_new_key_wipes_what_was_drawn_ahead() -> None:
    rng = SecureRandom()
    rng.discrete_laplace(10**6)
    (batch,) = rng._batches.values()
    ahead = batch.values
    assert any(ahead)
    cipher = rng._cipher
    rng.rekey()
    assert ahead == []
    assert not rng._batches
    assert rng._cipher is not cipher


def test_the_key_is_renewed_after_its_share_of_bytes() -> None:
    rng = SecureRandom()
    rng.REKEY_AFTER = 1000
    cipher = rng._cipher
    rng.raw(900)
    assert rng._cipher is cipher
    rng.raw(200)
    assert rng._cipher is not cipher


def test_a_value_is_handed_out_once_and_forgotten() -> None:
    rng, twin = SeededRandom(6), SeededRandom(6)
    values = [rng.discrete_laplace(10**9) for _ in range(BATCH + 1)]
    assert len(set(values)) == BATCH + 1
    assert values[:BATCH] == twin.discrete_laplace(10**9, size=BATCH).tolist()
    (batch,) = rng._batches.values()
    assert len(batch.values) == BATCH - 1
    assert values[-1] not in batch.values


def test_batches_are_bounded_and_the_oldest_is_wiped() -> None:
    rng = SecureRandom()
    rng.discrete_laplace(10**6)
    (first,) = rng._batches.values()
    for scale in range(1, KEPT + 5):
        rng.discrete_laplace(scale)
    assert len(rng._batches) == KEPT
    assert first.values == []


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda rng: pickle.loads(pickle.dumps(rng))])
def test_a_copy_of_a_secure_generator_has_its_own_key(clone) -> None:
    rng = SecureRandom()
    assert clone(rng).bits(4).tolist() != rng.bits(4).tolist()


# ---------------------------------------------------------------------------------------------- distributions


def test_a_float_means_the_decimal_it_prints() -> None:
    """0.1 == Fraction(0.1), yet the one is a tenth and the other is not; batches must not mix them."""
    rng = SeededRandom(1)
    for scale in (0.1, Fraction(0.1), Fraction(1, 10)):
        rng.discrete_laplace(scale)
    assert [batch.sampler.scale for batch in rng._batches.values()] == [
        Fraction(1, 10),
        Fraction(0.1),
        Fraction(1, 10),
    ]


def test_results_are_plain_for_one_and_arrays_for_many() -> None:
    rng = SeededRandom(1)
    assert {type(x) for x in (rng.bernoulli(0.5), rng.bernoulli_exp(1))} == {bool}
    ints = rng.discrete_laplace(3), rng.discrete_gaussian(3), rng.geometric(3), rng.uniform_integers(3)
    assert {type(x) for x in ints} == {int}
    assert rng.bernoulli(0.5, size=3).dtype == np.bool_
    arrays = rng.discrete_laplace(3, size=3), rng.discrete_gaussian(1000, size=3), rng.geometric(3, size=3)
    more = rng.uniform_integers(3, size=3), rng.permutation(3), rng.poisson_sample(3, 1)
    assert {(x.dtype, x.shape) for x in arrays + more} == {(np.dtype(np.int64), (3,))}
    assert [
        len(x) for x in (rng.discrete_laplace(30, size=0), rng.bernoulli(0.5, size=0), rng.permutation(0))
    ] == [0] * 3


@pytest.mark.parametrize("p", [0, 1, 0.01, Fraction(1, 3), 1e-5])
def test_bernoulli_has_its_probability(p) -> None:
    heads = SeededRandom(2).bernoulli(p, size=1_000_000).sum()
    assert stats.binomtest(int(heads), 1_000_000, float(p)).pvalue > P


@pytest.mark.parametrize("rate", [0, 0.01, 0.5, Fraction(1, 3), 1])
def test_a_poisson_sample_takes_each_index_at_its_rate(rate) -> None:
    rng, n = SeededRandom(3), 200_000
    sample = rng.poisson_sample(n, rate)
    assert (np.diff(sample) > 0).all()
    assert stats.binomtest(len(sample), n, float(rate)).pvalue > P
    if 0 < rate < 1:
        assert stats.kstest(sample / n, "uniform").pvalue > P
        sizes = [len(rng.poisson_sample(100, rate)) for _ in range(5000)]
        assert abs(np.var(sizes) / (100 * rate * (1 - rate)) - 1) < 0.2  # not a fixed size


@pytest.mark.parametrize("bound", [1, 2, 3, 1000, 2**32 + 1, 2**63, 2**64, 2**64 + 3, 2**130 - 7])
def test_uniform_integers_are_uniform(bound: int) -> None:
    values = SeededRandom(4).uniform_integers(bound, size=60_000)
    assert min(values) >= 0
    assert max(values) < bound
    assert values.dtype == (np.int64 if bound <= 2**63 else object)
    if bound == 1:
        return
    bins = min(bound, 20)
    observed = np.bincount([int(x) * bins // bound for x in values.tolist()], minlength=bins)
    sizes = np.diff([-(-i * bound // bins) for i in range(bins + 1)]).astype(float)
    assert stats.chisquare(observed, sizes / sizes.sum() * 60_000).pvalue > P


def test_words_beyond_the_last_full_round_are_drawn_again(monkeypatch) -> None:
    """2^64 = 1 mod 3: only the last word is refused."""
    rng, words = SeededRandom(1), iter([[2**64 - 1, 2**64 - 2, 5], [2**64 - 1], [7]])
    monkeypatch.setattr(rng, "bits", lambda n: np.array(next(words), np.uint64))
    assert rng.uniform_integers(3, size=3).tolist() == [1, 2, 2]


@pytest.mark.parametrize("word", [1, 2, 64])
def test_orders_are_uniform_even_with_ties(word: int) -> None:
    """Keys of one bit tie nearly always: the recursion must still give each of the 24 orders its share."""
    rng, orders = SeededRandom(5), list(itertools.permutations(range(4)))
    observed = dict.fromkeys(orders, 0)
    for _ in range(4_000):
        observed[tuple(rng._order(4, word).tolist())] += 1
    assert stats.chisquare(list(observed.values())).pvalue > P


def test_a_large_permutation_holds_every_index_once() -> None:
    rng = SeededRandom(6)
    assert sorted(rng.permutation(100_000)) == list(range(100_000))
    assert sorted(rng.shuffle(np.array([5, 5, 7]))) == [5, 5, 7]
    assert rng.shuffle(np.eye(4)).shape == (4, 4)


def test_a_choice_by_exponents_has_its_probabilities() -> None:
    rng, gammas = SeededRandom(7), [0.5, 2, Fraction(1, 3), -1, 100]
    observed = np.bincount([rng.categorical_exp(gammas) for _ in range(10_000)], minlength=5)
    weights = np.exp([-float(gamma) for gamma in gammas])
    assert observed[4] == 0
    assert stats.chisquare(observed[:4], weights[:4] / weights[:4].sum() * 10_000).pvalue > P
    wrong = np.exp([-0.8 * float(gamma) for gamma in gammas])[:4]
    assert stats.chisquare(observed[:4], wrong / wrong.sum() * 10_000).pvalue < P


# ---------------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda r: r.discrete_laplace(0), "Expected scale=0 in (0, 2^256]. Nothing was drawn."),
        (lambda r: r.discrete_laplace(-1.5, size=3), "Expected scale=-1.5 in (0, 2^256]. Nothing was drawn."),
        (
            lambda r: r.discrete_gaussian(float("nan")),
            "Expected sigma=nan as a finite number. Nothing was drawn.",
        ),
        (
            lambda r: r.discrete_gaussian(float("inf"), size=1),
            "Expected sigma=inf as a finite number. Nothing was drawn.",
        ),
        (lambda r: r.discrete_gaussian("3"), "Expected sigma='3' as a finite number. Nothing was drawn."),
        (lambda r: r.discrete_gaussian(True), "Expected sigma=True as a finite number. Nothing was drawn."),
        (lambda r: r.geometric(2**300), f"Expected scale={2**300} in (0, 2^256]. Nothing was drawn."),
        (lambda r: r.bernoulli(1.2), "Expected p=1.2 in [0, 1]. Nothing was drawn."),
        (lambda r: r.bernoulli_exp(-0.1), "Expected gamma=-0.1 in [0, ∞). Nothing was drawn."),
        (lambda r: r.poisson_sample(10, 1.2), "Expected rate=1.2 in [0, 1]. Nothing was drawn."),
        (
            lambda r: r.poisson_sample(-1, 0.5),
            "Expected n=-1 as an integer of at least 0. Nothing was drawn.",
        ),
        (lambda r: r.uniform_integers(0), "Expected bound=0 as an integer of at least 1. Nothing was drawn."),
        (lambda r: r.permutation(2.5), "Expected n=2.5 as an integer of at least 0. Nothing was drawn."),
        (
            lambda r: r.discrete_laplace(1, size=-1),
            "Expected size=-1 as an integer of at least 0. Nothing was drawn.",
        ),
        (lambda r: r.categorical_exp([]), "Expected at least one number in gammas=[]. Nothing was drawn."),
        (
            lambda r: r.categorical_exp([1, float("nan")]),
            "Expected only finite numbers in gammas. Nothing was drawn.",
        ),
    ],
)
def test_wrong_parameters_are_refused_before_anything_is_drawn(call, text: str) -> None:
    rng = SeededRandom(8)
    with pytest.raises(InvalidParameter) as caught:
        call(rng)
    assert str(caught.value) == text
    assert rng.bits(2).tolist() == SeededRandom(8).bits(2).tolist()
