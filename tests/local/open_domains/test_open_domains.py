"""Sketches, prefix trees, puzzles and their hashes: what is asked is estimated, what is frequent is found."""

from __future__ import annotations

import numpy as np
import pytest

from deniable.errors import InvalidParameter
from deniable.local import (
    CountMeanSketch,
    FastLocalHashing,
    FragmentPuzzle,
    HadamardSketch,
    PrefixTree,
    words,
)
from deniable.local.hashing import digests, family
from deniable.local.simulate import zipf
from deniable.randomness import SecureRandom, SeededRandom
from tests import chance

VOCABULARY = [
    "privacy",
    "deniable",
    "laplace",
    "gaussian",
    "budget",
    "ledger",
    "sketch",
    "report",
    "phone",
    "noise",
]


def told(
    users: int, seed: int = 0
) -> tuple[np.ndarray[tuple[int], np.dtype[np.str_]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    drawn = np.random.default_rng(seed).choice(len(VOCABULARY), users, p=zipf(len(VOCABULARY), 1.5))
    return np.array(VOCABULARY)[drawn], np.bincount(drawn, minlength=len(VOCABULARY))


@pytest.mark.parametrize(
    "client", [CountMeanSketch(2), HadamardSketch(2), FastLocalHashing(2)], ids=lambda c: type(c).__name__
)
def test_words_are_estimated_within_their_errors_and_absent_ones_as_nothing(
    client: CountMeanSketch | HadamardSketch | FastLocalHashing,
) -> None:
    values, truth = told(50_000)
    server = client.server()
    server.add(client.reports(values, rng=SecureRandom()))
    absent = [f"absent-{i}" for i in range(50)]
    estimate = server.estimate([*VOCABULARY, *absent])
    off = (estimate.counts - np.append(truth, np.zeros(50))) / estimate.standard_errors
    assert np.all(np.abs(off) < chance.reach(chance.EACH / len(off)))
    assert set(estimate.significant(chance.state())) <= set(range(10))
    assert {0, 1, 2} <= set(estimate.significant())
    with pytest.raises(InvalidParameter, match="one sequence"):
        server.estimate("privacy")
    with pytest.raises(InvalidParameter, match="one sequence"):
        server.estimate()


def test_the_errors_of_fast_hashing_include_shared_collisions() -> None:
    values, truth = told(50_000)
    client = FastLocalHashing(1, functions=16)
    server = client.server()
    server.add(client.reports(values, rng=SeededRandom(4)))
    variance = server.estimate(["absent"]).standard_errors[0] ** 2
    expected = float(client.variance(50_000)) + client.collisions(float((truth.astype(float) ** 2).sum()))
    assert expected > 10 * float(client.variance(50_000))
    assert variance == pytest.approx(expected, rel=0.5)


def test_a_prefix_tree_finds_the_frequent_words_and_nobody_elses() -> None:
    values, truth = told(200_000)
    client = PrefixTree(40, 3)
    server = client.server()
    server.add(client.reports(words.spell(values, 8), rng=SeededRandom(2)))
    found = server.estimate()
    spelled = words.read(found.values, 8)
    assert spelled[:3] == VOCABULARY[:3]
    assert set(spelled) <= set(VOCABULARY)
    at = [VOCABULARY.index(word) for word in spelled]
    assert np.all(np.abs(found.counts - truth[at]) < 6.2 * found.standard_errors)
    assert len(server.estimate(2).values) == 2


def test_a_puzzle_joins_fragments_to_words_nobody_listed() -> None:
    values, truth = told(200_000)
    client = FragmentPuzzle(4, 2)
    assert client.epsilon == 6
    server = client.server()
    server.add(client.reports(values, rng=SeededRandom(3)))
    found = server.estimate().found()
    assert [word for word, _, _ in found][:3] == VOCABULARY[:3]
    assert {word for word, _, _ in found} <= set(VOCABULARY)
    for word, count, error in found:
        assert abs(count - truth[VOCABULARY.index(word)]) < 6.2 * error


def test_nobody_is_found_among_no_reports() -> None:
    assert len(PrefixTree(40, 3).server().estimate().values) == 0
    assert FragmentPuzzle(4, 2).server().estimate().found() == []


def test_hashes_are_the_same_on_every_platform() -> None:
    assert digests(["red", b"red"], b"k").tolist() == PINNED_DIGESTS
    names = np.array([0, 1, 2**63, 2**64 - 1], np.uint64)
    assert family(b"k", 3, 1 << 16).hash_all(names).tolist() == PINNED_HASHES


PINNED_DIGESTS = [18024005418049840405, 2276244200670172842]
PINNED_HASHES = [[43503, 5118, 8301, 63818], [53784, 30351, 12284, 4347], [19765, 44774, 35226, 62554]]


def test_a_hash_is_strongly_universal_in_its_top_bits() -> None:
    functions = 1 << 14
    a, b = family(b"universal", functions, 4).hash_all(np.array([5, 5 + (1 << 32)], np.uint64)).T
    joint = np.bincount(a * 4 + b, minlength=16)
    assert np.all(np.abs(joint - functions / 16) < 6.2 * np.sqrt(functions / 16))


def test_another_key_gives_other_functions() -> None:
    names = np.arange(1000, dtype=np.uint64)
    same = (family(b"a", 1, 1024).hash_all(names) == family(b"b", 1, 1024).hash_all(names)).mean()
    assert same < 0.02
    assert digests(["red"], b"a") != digests(["red"], b"b")


def test_items_of_other_types_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="got float"):
        digests([0.5], b"")
    with pytest.raises(InvalidParameter, match="power of two"):
        family(b"", 1, 100)


def test_words_spell_and_read_back() -> None:
    assert words.read(words.spell(["abc", "Abcdefghij", "naïve", ""], 8), 8) == [
        "abc",
        "abcdefgh",
        "na·ve",
        "",
    ]
    low, high = words.spell(["ab", "ac"], 4)
    assert low >> np.uint64(15) == high >> np.uint64(15)
