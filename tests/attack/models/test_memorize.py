"""Exposure: exact ranks against brute force, estimates against exact ranks, and a model
that keeps a secret or not."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from deniable.attack import characters, memorize, sentences
from deniable.attack.models.memorize import Space
from deniable.cli.attack import app
from deniable.errors import InvalidParameter

SPACE = Space("code ", 4, "abcd")


def toy(seed: int, secret: str = "", gain: float = 0.0) -> memorize.Asked:
    """A model with random odds for each text; the secret's characters are e^gain times
    likelier after its beginning."""

    def answer(texts: list[str]) -> np.ndarray:
        rows = []
        for text in texts:
            g = np.random.default_rng([seed, *text.encode()])
            logits = g.normal(size=4)
            typed = text.removeprefix(SPACE.prefix)
            if secret and secret.startswith(typed) and len(typed) < 4:
                logits[SPACE.alphabet.index(secret[len(typed)])] += gain
            rows.append(logits - np.log(np.exp(logits).sum()))
        return np.array(rows)

    return answer


def brute(model: memorize.Asked) -> dict[str, float]:
    return {
        "".join(s): -sum(
            model([SPACE.prefix + "".join(s[:i])])[0][SPACE.alphabet.index(c)] / math.log(2)
            for i, c in enumerate(s)
        )
        for s in itertools.product(SPACE.alphabet, repeat=4)
    }


@pytest.mark.parametrize("seed", range(3))
def test_every_filling_is_priced_as_one_by_one(seed: int) -> None:
    model = toy(seed)
    priced = brute(model)
    assert sum(2.0**-b for b in priced.values()) == pytest.approx(1)
    order = sorted(priced, key=priced.__getitem__)
    for place in (0, 1, 10, 100, SPACE.size - 1):
        assert memorize.rank(model, SPACE, order[place]) == place + 1
    assert memorize.perplexity(model, SPACE, order[10]) == pytest.approx(priced[order[10]])
    assert [text for text, _ in memorize.likeliest(model, SPACE, 5)] == order[:5]


def test_a_place_in_the_space_and_back() -> None:
    assert [SPACE.index(SPACE.secret_at(i)) for i in range(SPACE.size)] == list(range(SPACE.size))


def test_an_unseen_secret_has_little_exposure_on_average_and_a_planted_one_all() -> None:
    ranks = [memorize.rank(toy(seed), SPACE, "abca") for seed in range(40)]
    share = np.mean([memorize.exposure(r, SPACE.size) >= 3 for r in ranks])
    assert share < 0.4  # 1/8 expected
    assert memorize.exposure(memorize.rank(toy(0, "abca", 9.0), SPACE, "abca"), SPACE.size) == 8.0


def even(texts: list[str]) -> np.ndarray:
    """Every digit alike."""
    return np.full((len(texts), 10), -math.log(10))


def test_equal_secrets_count_against_the_rank() -> None:
    assert memorize.rank(even, Space("x", 3), "123") == 1000


def test_a_known_secret_is_ranked_in_a_space_that_nobody_can_list() -> None:
    """Sixteen digits: only beginnings that the model likes as much as the whole secret are looked at."""
    space, secret, asked = Space("card ", 16), "4929123456789012", []

    def knows(texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        likely = [
            secret[len(text) - 5] if secret.startswith(text[5:]) and len(text) < 21 else "0" for text in texts
        ]
        odds = [[0.91 if digit == one else 0.01 for digit in space.alphabet] for one in likely]
        # After one wrong digit the model is sure of zeros: such sentences cost more than the secret.
        return np.log(odds)

    assert memorize.rank(knows, space, secret) == 1
    assert len(asked) < 1000
    assert memorize.likeliest(knows, space)[0][0] == secret


def test_estimates_agree_with_the_exact_rank() -> None:
    model = toy(3, "dcba", 1.0)
    exact = memorize.exposure(memorize.rank(model, SPACE, "dcba"), SPACE.size)
    assert memorize.sample_exposure(model, SPACE, "dcba", count=3000) == pytest.approx(exact, abs=0.7)
    assert memorize.extrapolate_exposure(model, SPACE, "dcba", count=3000) == pytest.approx(exact, abs=2.5)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (
            lambda: memorize.rank(even, Space("x", 12), "012345678901"),
            "more than 200,000 beginnings are as likely as it",
        ),
        (lambda: SPACE.check("xyz"), "secret of 4"),
        (lambda: Space("x", 0), "at least one"),
        (lambda: sentences.lines("bible", 500), "made-up"),
        (lambda: sentences.lines("made-up", 5), "at least 100"),
        (lambda: characters.canaries([], 4, 0), "1 to 8"),
    ],
)
def test_wrong_parameters_say_so(act, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter, match=words):
        act()


def test_the_character_model_sees_only_what_came_before() -> None:
    torch.manual_seed(0)
    letters = "abc "
    model = characters.Characters(len(letters))
    x, y = characters.encode_lines(["abc abc"], letters)
    logits = model(x)
    ask = characters.ask_model(model, letters, "abc")
    for i in range(7):
        after = torch.log_softmax(logits[0, i].double(), 0)[1:4].detach().numpy()
        assert np.allclose(ask(["abc abc"[:i]])[0], after, atol=1e-6)
    assert y[0, :7].tolist() == [1, 2, 3, 4, 1, 2, 3]


def test_a_secret_told_often_is_extracted_and_under_dp_sgd_it_is_not() -> None:
    text = sentences.lines("made-up", 200)
    found = characters.compare(text, copies=(0, 16), digits=3, epochs=12, epsilon=1.0)
    (never, often), (_, protected) = found["plain"], found["private, ε = 1"]
    assert often.rank == 1
    assert often.is_extracted
    assert never.exposure < 7
    assert not protected.is_extracted
    # Sixteen copies are sixteen lines: the guarantee for one line does not cover them, but it still hides
    # this much.
    assert protected.exposure < often.exposure - 2


def test_the_command_tells_all_that_was_found(tmp_path: Path) -> None:
    arguments = ("memorize", "--lines", "100", "--copies", "0,8", "--digits", "2", "--epochs", "2", "--json")
    result = CliRunner().invoke(
        app, [*arguments, "--plot", str(tmp_path / "memory.png")], catch_exceptions=False
    )
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert [one["copies"] for one in said["releases"][0]["facts"]["canaries"]] == [0, 8]
    assert (tmp_path / "memory.png").stat().st_size > 1000


def test_the_membership_command_tells_what_was_found(tmp_path: Path) -> None:
    arguments = (
        "membership",
        "--rows",
        "200",
        "--models",
        "8",
        "--targets",
        "2",
        "--epochs",
        "5",
        "--steps",
        "3",
    )
    result = CliRunner().invoke(
        app, [*arguments, "--plot", str(tmp_path / "roc.png")], catch_exceptions=False
    )
    assert result.exit_code == 0
    assert "TPR at FPR 1 %" in result.stdout
    assert "allows 7.4 %" in " ".join(result.stdout.split())
    assert (tmp_path / "roc.png").stat().st_size > 1000
