"""What was learnt travels as JSON, numbers and all."""

from __future__ import annotations

import json

import numpy as np

from deniable.attack import Learnt


def test_json_holds_every_field_as_plain_numbers() -> None:
    learnt = Learnt(
        "link", "raw", 3, 4, 0.25, "Words.", 0.7, {"seen": np.int64(2), "by": {"a": np.array([0.5])}}
    )
    said = json.loads(learnt.to_json())
    assert said == {
        "attack": "link",
        "release": "raw",
        "right": 3,
        "of": 4,
        "share": 0.75,
        "chance": 0.25,
        "ceiling": 0.7,
        "facts": {"seen": 2, "by": {"a": [0.5]}},
        "reading": "Words.",
    }
    assert str(learnt) == "Words."


def test_nothing_to_learn_is_nothing_learnt() -> None:
    assert Learnt("link", "raw", 0, 0, 0.0, "").share == 0
