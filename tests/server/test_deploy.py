"""The Dockerfile, the compose file and the settings beside them: linted, read back, and of one mind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from deniable.server.settings import load

ROOT = Path(__file__).parent.parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_dockerfile_passes_its_linter() -> None:
    linter = (
        Path(sys.executable).parent / "hadolint"
    )  # of the group test, also where its folder is not on the PATH
    said = subprocess.run([linter, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout


def test_what_the_image_copies_is_there_and_let_through() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [
        word
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
        for word in line.split()[:-1]
    ]
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored
    assert {"pyproject.toml", "hatch_build.py", "README.md", "src"} <= set(copied), (
        "what a build of the package reads"
    )
    assert "USER 10001" in DOCKERFILE


def test_the_settings_are_read_as_the_service_reads_them() -> None:
    settings = load(ROOT / "deploy" / "server.toml")
    assert (settings.workers, settings.proxy, settings.wire) == (2, True, None)
    assert settings.ledger is not None
    assert "password" not in settings.ledger
    assert re.search(r":[^/@:]+@", settings.ledger) is None


def test_compose_mounts_what_the_settings_name_and_publishes_nothing_off_loopback() -> None:
    service = COMPOSE["services"]["service"]
    mounts = {mount.split(":")[1]: mount for mount in service["volumes"]}
    settings = load(ROOT / "deploy" / "server.toml")
    for folder in (settings.folder, *settings.roots):
        assert f"/srv/deniable/{folder.name}" in mounts
    assert mounts["/srv/deniable/data"].endswith(":ro")
    assert "--settings" in DOCKERFILE
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert "ports" not in COMPOSE["services"]["ledger"]
    assert COMPOSE["networks"]["inside"]["internal"]
    assert set(service["secrets"]) | set(COMPOSE["services"]["ledger"]["secrets"]) == set(COMPOSE["secrets"])
    named = {mount.split(":")[0] for each in COMPOSE["services"].values() for mount in each["volumes"]}
    assert set(COMPOSE["volumes"]) == {name for name in named if not name.startswith(".")}


def test_no_secret_is_in_a_tracked_file() -> None:
    assert "POSTGRES_PASSWORD_FILE" in COMPOSE["services"]["ledger"]["environment"]
    for each in COMPOSE["services"].values():
        assert not any(re.search("PASSWORD$|TOKEN$|SECRET$", name) for name in each.get("environment", {}))
