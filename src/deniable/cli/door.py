"""The door: every error that Deniable raises on purpose becomes one sentence on stderr and exit code 2;
Ctrl-C, exit code 130."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import NoReturn, ParamSpec, TypeVar

import typer

from deniable import extras
from deniable.errors import DeniableError, Stopped

P = ParamSpec("P")
R = TypeVar("R")

BAD_INPUT = 2
BY_HAND = 130
"""What a shell says of a command that Ctrl-C has ended: 128 + SIGINT."""
EXTRAS = {
    "matplotlib": "plot",
    "torch": "learn",
    "sklearn": "learn",
    "adbc_driver_postgresql": "postgres",
    "psycopg": "postgres",
    "pyspark": "spark",
    "fastapi": "server",
    "flwr": "flower",
}
"""A package that may be missing, and the extra that brings it."""


def door(command: Callable[P, R]) -> Callable[P, R]:
    """Wrap a command: what it raises on purpose is told in one sentence; anything else is a bug and keeps its
    traceback.

    A file that cannot be read or written is bad input too. Whoever sits at this command line can open the
    files it names, so she is their owner and may see such errors (docs: threat model).
    """

    @functools.wraps(command)
    def run_guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except Stopped as stop:
            refuse(str(stop), BY_HAND)
        except DeniableError as error:
            refuse(str(error))
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in EXTRAS:
                raise
            refuse(str(extras.missing(f"This needs the package {package}", EXTRAS[package])))
        except OSError as error:
            if error.filename is None:
                raise
            refuse(f"{error.filename}: {error.strerror}.")

    return run_guarded


def refuse(sentence: str, code: int = BAD_INPUT) -> NoReturn:
    """Say why nothing was done, and leave with exit code 2."""
    typer.secho(sentence, err=True, fg=typer.colors.RED if sys.stderr.isatty() else None)
    raise typer.Exit(code)
