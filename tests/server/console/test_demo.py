"""`deniable serve --demo`: one command prints the address and the passwords, and the console is filled."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from tests.server.console.test_policy import _token


def test_one_command_opens_a_filled_console(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path), "COLUMNS": "120", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "deniable", "serve", "--demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as demo:
        assert demo.stdout is not None
        said = ""
        for line in demo.stdout:
            said += line
            if "Only this machine" in line:
                break
        try:
            look(said)
        finally:
            demo.send_signal(signal.SIGINT)
            demo.wait(600)
    assert demo.returncode == 0
    assert list(tmp_path.glob("deniable-demo-*")) == []  # nothing stays


def look(said: str) -> None:
    url = re.search(r"http://127\.0\.0\.1:\d+", said)
    people = dict(re.findall(r"(olga|ada|vera)\s+\w+\s+(\S{40,})", said))
    assert url is not None, said
    assert set(people) == {"olga", "ada", "vera"}, said
    with httpx.Client(base_url=url[0], trust_env=False, timeout=600) as client:
        form = client.get("/login")
        cookie = form.headers["set-cookie"].split(";")[0]
        body = {"name": "ada", "password": people["ada"], "token": _token(form.text)}
        answer = client.post("/login", data=body, headers={"Origin": url[0], "Cookie": cookie})
        assert answer.headers["location"] == "/password"
