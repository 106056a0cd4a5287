"""Run the tests that chance or a busy machine could make fail, again and again (`make sure`).

    python -m tools.sure                      twenty times
    python -m tools.sure --times 2 tests/ledger

A test is among them if it draws real noise, starts processes or listens (`tests/running/chancy.py` marks it). Noise
and random examples are new each time; on each core a process counts for nothing beside it. Stops at the first
turn that fails, and says which.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """A process on each core that never waits."""
    others = [multiprocessing.Process(target=_count, daemon=True) for _ in range(processes)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.terminate()
            other.join()


def _count() -> None:
    while True:
        pass


def run_turn(workers: int, places: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-n", str(workers), "--dist", "worksteal"]
    command += ["-m", "chancy and not soak", *places]
    return subprocess.run(command, env={**os.environ, "HYPOTHESIS_PROFILE": "sure"}, check=False).returncode


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("places", nargs="*", help="files or folders; all tests without any")
    given = parser.parse_args(arguments)
    with busy(os.cpu_count() or 1):
        for turn in range(1, given.times + 1):
            sys.stdout.write(f"turn {turn} of {given.times}\n")
            sys.stdout.flush()
            if code := run_turn(given.workers, given.places):
                sys.stdout.write(f"Turn {turn} of {given.times} failed.\n")
                return code
    sys.stdout.write(f"{given.times} turns without a failure.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
