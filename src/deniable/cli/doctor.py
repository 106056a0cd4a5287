"""`deniable doctor`: what is installed, what works, and what to do about the rest."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from deniable import extras
from deniable._version import VERSION
from deniable.cli import show
from deniable.cli.door import BAD_INPUT, door
from deniable.cli.ledger import DEFAULT, KeyFile
from deniable.cli.options import Json
from deniable.errors import DeniableError

EXTRAS = {
    "plot": ("matplotlib", "pictures (--plot, answer.plot())"),
    "learn": ("torch", "private training (deniable train, deniable.learn)"),
    "postgres": ("adbc_driver_postgresql", "tables in PostgreSQL, and ledgers there"),
    "spark": ("pyspark", "tables too large for one machine"),
    "server": ("fastapi", "deniable serve (console, REST, PostgreSQL's protocol, logins)"),
    "flower": ("flwr", "federated rounds with real devices"),
}
"""An extra, the package that shows that it is there, and what it is for."""
PACKAGES = {"adbc_driver_postgresql": "adbc-driver-postgresql"}
JAVAS = (17, 21)
MARKS = {True: "✓", False: "✗", None: "–"}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. `ok` is None where it is missing and nothing needs it."""

    name: str
    ok: bool | None
    state: str
    advice: str = ""


@door
def doctor(
    ledger: Annotated[
        str | None,
        typer.Option(
            "--ledger",
            envvar="DENIABLE_LEDGER",
            metavar="URL",
            help="Also verify this ledger; left out: privacy.db in this folder, if it is there.",
        ),
    ] = None,
    key: KeyFile = None,
    json: Json = False,
) -> None:
    """Say what is installed, which engines work, whether the ledger is sound, and what to do about the rest.

    Exit code 2 if something that Deniable needs is broken; what is optional and missing is no failure.

    [bold]deniable doctor[/]

    [bold]deniable doctor --ledger sqlite:///hospital.db[/]
    """
    checks = [*_core(), *_extras(), *_programs(), *_ledger(ledger, key)]
    if json:
        show.as_json({"version": VERSION, "checks": [vars(check) for check in checks]})
    else:
        show.table(
            ("", "what", "state"),
            [(MARKS[check.ok], check.name, check.state) for check in checks],
            fixed_columns=(1,),
        )
        advice = [f"{check.name}: {check.advice}" for check in checks if check.advice]
        show.say("", "What to do:" if advice else "Nothing to do.")
        show.bullets(advice)
    if any(check.ok is False for check in checks):
        raise typer.Exit(BAD_INPUT)


def _core() -> Iterator[Check]:
    yield Check("Deniable", True, VERSION)
    yield Check("Python", True, f"{platform.python_version()} on {platform.system()}")
    yield _works("noise", _draw, "exact samplers draw", "Reinstall: pip install --force-reinstall deniable.")
    yield _works(
        "DuckDB", _ask_duckdb, _version("duckdb"), "Reinstall: pip install --force-reinstall duckdb."
    )
    yield _works("SQLite ledger", _charge, "a charge was written and verified", "Is the disk full?")
    yield _encoding()


def _works(name: str, attempt: Callable[[], None], state: str, advice: str) -> Check:
    """Whether a small real use of it works. Whatever goes wrong is the finding, so nothing is let through."""
    try:
        attempt()
    except Exception as error:  # no data here: whatever an installation raises is what is to be shown
        return Check(name, False, f"{type(error).__name__}: {error}", advice)
    return Check(name, True, state)


def _draw() -> None:
    from deniable.mechanisms import Laplace
    from deniable.randomness import SecureRandom

    Laplace.for_budget(epsilon=1)(0, rng=SecureRandom())


def _ask_duckdb() -> None:
    import duckdb

    with duckdb.connect() as connection:
        if connection.execute("SELECT 41 + 1").fetchone() != (42,):
            raise ValueError("A sum came out wrong.")


def _charge() -> None:
    from deniable.guarantee import Budget
    from deniable.ledger import Ledger
    from deniable.mechanisms import Laplace
    from deniable.units import Unit

    with tempfile.TemporaryDirectory() as folder, Ledger.open(f"sqlite:///{folder}/doctor.db") as ledger:
        ledger.create("doctor", Unit.row(), limit=Budget(1)).run(Laplace.for_budget(epsilon=1), 0)
        if not ledger.verify().ok:
            raise ValueError("The journal of one charge did not verify.")


def _encoding() -> Check:
    encoding = sys.stdout.encoding or "ascii"
    if encoding.lower().replace("-", "") == "utf8":
        return Check("terminal", True, "UTF-8")
    return Check(
        "terminal", None, f"{encoding}: signs are spelt in ASCII", "Set PYTHONUTF8=1 to see ε, δ and ±."
    )


def _extras() -> Iterator[Check]:
    for extra, (module, purpose) in EXTRAS.items():
        if importlib.util.find_spec(module) is None:
            advice = f"{extras.install(extra)} for {purpose}."
            yield Check(f"[{extra}]", None, "not installed", advice)
        else:
            yield Check(f"[{extra}]", True, f"{module} {_version(PACKAGES.get(module, module))}")


def _programs() -> Iterator[Check]:
    java = find_java()
    versions = " or ".join(map(str, JAVAS))
    if java in JAVAS:
        yield Check("Java", True, f"{java}, for Spark")
    elif importlib.util.find_spec("pyspark") is not None:
        state = "none found"
        if java is not None:
            state = f"{java}"
        yield Check("Java", None, state, f"Spark needs Java {versions}: put it on the PATH or set JAVA_HOME.")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    yield Check(
        "browser", browser is not None or None, browser or "none; only the project's own tests use it"
    )


def find_java() -> int | None:
    """The major version of the Java that Spark would start, if there is one."""
    home = os.environ.get("JAVA_HOME")
    folder = None
    if home:
        folder = str(Path(home) / "bin")
    java = shutil.which("java", path=folder)
    if java is None:
        return None
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if version:
        return int(version[1])
    return None


def _ledger(url: str | None, key: Path | None) -> Iterator[Check]:
    from deniable.ledger import Ledger

    if url is None and not Path(DEFAULT.removeprefix("sqlite:///")).exists():
        return
    address = url or DEFAULT
    name = f"ledger {address}"
    try:
        with Ledger.open(address, key=key, create=False) as ledger:
            verdict = ledger.verify()
            frozen = [account.name for account in ledger.accounts() if account.status != "open"]
    except DeniableError as error:
        yield Check(name, False, str(error), f"deniable ledger verify --ledger {address}")
        return
    state, advice = f"{verdict.head.count:,} entries, every seal and sum is right", ""
    if not verdict.ok:
        state = "; ".join(map(str, verdict.problems))
        advice = f"deniable ledger verify --ledger {address} names each entry."
    yield Check(name, verdict.ok, state, advice)
    if frozen:
        look = f"Look, then: deniable ledger unfreeze NAME --ledger {address}"
        yield Check("accounts not open", None, ", ".join(frozen), look)


def _version(package: str) -> str:
    return importlib.metadata.version(package)
