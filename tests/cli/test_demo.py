"""`deniable demo` plays every act on the core alone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from deniable.cli import demo as stage
from deniable.cli.demo import local
from deniable.errors import MissingExtra
from tests.cli.runner import run

WORDS = (
    "exact counts",
    "100 %",
    "73.11 %",
    "Laplace: claimed ε = 0.1",
    ": consistent.",
    "HalvedNoise: claimed ε = 0.1",
    ": violation. The support differs",
)
"""What the acts of attacks and audits find; a process that plays all acts is started once."""


def test_every_act_is_played_without_an_extra_and_without_a_network() -> None:
    code = (
        "import socket, sys\n"
        "def no_network(*_): raise AssertionError('network')\n"
        "socket.socket.connect = no_network\n"
        "from deniable.cli.demo import demo\n"
        "demo()\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    wide = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    played = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", env=wide, check=True
    )
    for i, (title, _) in enumerate(stage.ACTS, 1):
        assert f"{i}. {title}" in played.stdout
    said = " ".join(played.stdout.split())
    for words in (*WORDS, *(f"{site} " for site in local.SHARES)):
        assert words in said
    assert {"matplotlib", "torch", "pyspark"} & set(played.stderr.split()) == set()


def test_an_act_without_its_extra_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking() -> None:
        raise MissingExtra('Pictures need matplotlib: pip install "deniable[plot]".')

    monkeypatch.setattr(stage, "ACTS", (("A picture", lacking), ("The end", lambda: None)))
    said = run("demo").stdout
    assert 'Pictures need matplotlib: pip install "deniable[plot]".\n' in said
    assert "2. The end" in said
