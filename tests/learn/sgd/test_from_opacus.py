"""Every argument that an Opacus user gives is named on the page that says what it is here."""

from __future__ import annotations

import inspect
from pathlib import Path

from tests.running.lazy import Lazy

opacus = Lazy("opacus")
PAGE = Path(__file__).parents[3] / "docs/guide/from-opacus.md"


def test_every_argument_of_opacus_is_mapped() -> None:
    engine = opacus.PrivacyEngine
    calls = (engine.__init__, engine.make_private, engine.make_private_with_epsilon)
    names = {name for call in calls for name in inspect.signature(call).parameters} - {"self", "kwargs"}
    named = {
        row.split("|")[1] for row in PAGE.read_text(encoding="utf-8").splitlines() if row.startswith("| `")
    }
    missing = {name for name in names if not any(f"`{name}`" in row for row in named)}
    assert missing == set()
