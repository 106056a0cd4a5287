"""A client's update gives its images away; with noise it does not; and an attack that fails proves
nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from deniable.attack import gradients
from deniable.attack.gradients import CLEAR, FAINT, baseline, canary, first_layer, search, sent, victims
from deniable.audit import Verdict, audit
from deniable.cli import attack_gradients
from deniable.errors import InvalidParameter
from deniable.loss import Approximate
from tests.cli.runner import run, run_json, sentence

PEOPLE = victims("digits", 8)


def quiet(steps: Iterable[int], words: str) -> Iterable[int]:
    return steps


@pytest.mark.parametrize("make", [sent.unclipped_run, sent.clipped_run])
def test_a_dense_first_layer_gives_every_image_away_clipped_or_not(make: object) -> None:
    assert callable(make)
    result = first_layer.attack(PEOPLE, make(first_layer.dense(PEOPLE)), "as it is")
    assert min(result.decibels) > 80
    assert result.epsilon is None
    assert result.learnt(baseline(PEOPLE)).right == 8


def test_most_of_four_images_stand_in_their_mean_gradient() -> None:
    """Without knowing them: those that most neurons agree on."""
    many = victims("digits", 20)
    result = first_layer.attack(many, sent.unclipped_run(first_layer.dense(many)), "four", batch=4)
    assert result.clear >= 10


def test_what_was_received_is_the_gradient_of_the_rows() -> None:
    model = first_layer.dense(PEOPLE)
    x, y = PEOPLE.rows(0, 3)
    loss = nn.CrossEntropyLoss()(model(x), y)
    gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(model.parameters()))])
    np.testing.assert_allclose(
        sent.receive_update(sent.unclipped_run(model), x, y), -gradient.numpy(), atol=1e-6
    )


def test_a_search_finds_images_of_a_convolutional_network_and_reads_the_label() -> None:
    result = search.attack(
        PEOPLE, sent.clipped_run(search.convolutional(PEOPLE)), "clipped", images=2, watch=quiet
    )
    assert min(result.decibels) > 2 * CLEAR


def test_an_image_is_read_through_noise_of_a_hundredth_of_the_clip() -> None:
    """The server knows the noise, and takes off what it adds to ‖b‖²: else images come
    out dark, and seem hidden."""
    many = victims("digits", 20)
    model = first_layer.dense(many)
    result = first_layer.attack(many, sent.noisy(model, 0.01), "noisy")
    assert result.median > baseline(many) + 1


@pytest.mark.parametrize("faint", [True, False])
def test_noise_stops_both_attacks_long_before_it_protects(faint: bool) -> None:
    for model, attack in (
        (first_layer.dense(PEOPLE), lambda of: first_layer.attack(PEOPLE, of, "noisy")),
        (search.convolutional(PEOPLE), lambda of: search.attack(PEOPLE, of, "noisy", images=1, watch=quiet)),
    ):
        result = attack(sent.noisy(model, FAINT) if faint else sent.for_budget(model, 2))
        assert max(result.decibels) < CLEAR
        assert result.epsilon is not None
        assert (result.epsilon > 100) is faint
        assert faint or result.epsilon <= 2


def test_an_audit_finds_the_client_through_noise_that_stops_inversion() -> None:
    model = first_layer.dense(PEOPLE)
    for of, violation in ((sent.noisy(model, FAINT), True), (sent.for_budget(model, 2), False)):
        bird = canary(PEOPLE, of)
        claim = Approximate(2, 1e-5)
        finding = audit(bird.target, bird.pair, claim, seed=0, samples=500, confidence=1 - 1e-9, workers=1)
        assert (finding.verdict is Verdict.VIOLATION) is violation, str(finding)


COMMAND = "attack", "gradients", "--images", "8", "--searched", "1"


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Any]:
    """What the command says, and what it computed: the results of the attacks and of the audits."""
    computed: list[Any] = []

    def keep(act: Callable[..., Any]) -> Callable[..., Any]:
        def kept(*given: Any, **terms: Any) -> Any:
            computed.append(act(*given, **terms))
            return computed[-1]

        return kept

    path = tmp_path_factory.mktemp("updates") / "updates.svg"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attack_gradients, "SAMPLES", 250)
        patch.setattr(gradients, "compare", keep(gradients.compare))
        patch.setattr(attack_gradients, "_audits", keep(attack_gradients._audits))
        said = run(*COMMAND, "--plot", str(path)).stdout
    results, findings = computed
    return said, results, findings


def test_the_command_shows_both_and_draws_them(command: tuple[str, Any, Any]) -> None:
    said, _, _ = command
    assert "one image's gradient" in said
    assert "8 of 8" in said
    assert "noise of 0.05 clips: claimed ε = 2, certified ε ≥" in said
    assert "violation" in said
    assert "A failed inversion proves nothing" in said


def test_the_command_as_json(command: tuple[str, Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same attacks, which are not run twice."""
    _, results, findings = command
    monkeypatch.setattr(gradients, "compare", lambda *given, **terms: results)
    monkeypatch.setattr(attack_gradients, "_audits", lambda *given: findings)
    facts = run_json(*COMMAND)
    assert facts["releases"][0]["share"] == 1
    assert facts["audits"]["noise of 0.05 clips"]["verdict"] == "violation"


def test_other_data_is_refused() -> None:
    assert "digits or mnist" in sentence("attack", "gradients", "--data", "faces")
    with pytest.raises(InvalidParameter, match="between 4 and 100"):
        victims("digits", 2)
