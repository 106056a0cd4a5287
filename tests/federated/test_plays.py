"""Plays by role: who says what, rows held out, and a model that learns from it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from deniable.errors import DataError
from deniable.federated import simulate
from deniable.federated.data.plays import LENGTH, CharacterModel, Roles

PLAY = "".join(
    f"{role}:\n{line * 40}\n\n"
    for role, line in (("ROMEO", "ab "), ("First Citizen", "cd "), ("NURSE", "ef ")) * 3
)


def test_each_role_is_a_client_and_its_last_rows_are_held_out() -> None:
    roles = Roles.from_text(PLAY)
    data = roles.dealt("by role")
    assert len(data) == 3
    assert set(roles.owner) == {"ROMEO", "First Citizen", "NURSE"}
    assert roles.x.shape[1] == roles.test_x.shape[1] == LENGTH
    assert np.array_equal(roles.x[:, 1:], roles.y[:, :-1])
    for client, letters in enumerate(("cd", "ef", "ab")):
        rows, _ = data.rows(client)
        assert {roles.characters[i] for i in rows.flatten().tolist()} <= {*letters, " ", "\n"}
    assert len(roles.test_x) == 3


def test_the_model_learns_the_next_character() -> None:
    roles = Roles.from_text(PLAY)
    torch.manual_seed(0)
    model = CharacterModel(len(roles.characters), hidden=16)
    result = simulate(
        model,
        nn.CrossEntropyLoss(),
        roles.dealt("by role"),
        share=1,
        rounds=12,
        batch=2,
        learning_rate=2.0,
        evaluate=roles.accuracy,
    )
    assert result.scores[12] > 0.6 > roles.accuracy(model)


def test_a_text_without_roles_is_told() -> None:
    with pytest.raises(DataError, match="no role that speaks long enough"):
        Roles.from_text("Once upon a time.")
