"""`deniable serve` as an operator runs it: a first owner, both doors, Ctrl-C; bad settings are one
sentence."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
from typer.testing import CliRunner

from deniable.cli.app import app

ROOT = Path(__file__).parent.parent.parent
SETTINGS = 'folder = "state"\nroots = ["data"]\nhttp = "127.0.0.1:0"\nwire = "127.0.0.1:0"\n'


def started(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """A service in a process of its own, and what it said until it listened."""
    command = [
        sys.executable,
        "-m",
        "deniable",
        "serve",
        "--settings",
        str(folder / "server.toml"),
        "--owner",
        "olga",
    ]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    said = ""
    assert process.stdout is not None
    while "Listening" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    return process, said


def test_the_first_start_prints_a_password_once_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text(SETTINGS, encoding="utf-8")
    process, said = started(tmp_path)
    try:
        password = re.search(r"shown this once: (\S+)", said)
        address = re.search(r"(http://127\.0\.0\.1:\d+), postgresql://127\.0\.0\.1:\d+", said)
        assert password is not None
        assert address is not None
        body = {"name": "olga", "password": password[1]}
        with httpx.Client(base_url=address[1], trust_env=False) as client:
            begun = client.post("/v1/login", json=body).json()
            assert begun["must_change"]
            head = {"Origin": address[1], "X-CSRF-Token": begun["csrf"]}
            changed = client.post("/v1/password", json={"new": "correct horse battery"}, headers=head)
            assert changed.status_code == 200
            assert client.post("/v1/login", json=body).status_code == 401  # used up by the change
    finally:
        process.send_signal(signal.SIGINT)
    assert process.wait(600) == 0
    told = CliRunner().invoke(app, ["serve", "--settings", str(tmp_path / "server.toml"), "--reset", "olga"])
    assert "One-time password of olga: " in told.output
    mode = (tmp_path / "state" / "server.key").stat().st_mode & 0o777
    assert mode == 0o600


def test_bad_settings_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text('http = "0.0.0.0:80"\n', encoding="utf-8")
    told = CliRunner().invoke(app, ["serve", "--settings", str(tmp_path / "server.toml")])
    assert told.exit_code == 2
    assert "Expected TLS for http" in told.output
    assert not (tmp_path / "deniable-server").exists()
