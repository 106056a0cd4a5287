"""Run calls in processes of their own, each with a limit on its CPU time and its memory, and say what became of them.

Started as a program: one JSON line {"door", "input"} in, one {"cpu", "memory", "end"} out.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from deniable.errors import DeniableError
from tests.accounting.limits.doors import DOORS, Question

CPU = 10
MEMORY = 2**30
WRONG_NUMBERS = ("fault: TypeError", "fault: ValueError", "fault: OverflowError", "fault: ZeroDivisionError")
PAGE = resource.getpagesize()


def run(door: str, text: str) -> dict[str, object]:
    """What one call takes beyond what the program took before it: CPU seconds, bytes, and how it ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.write(writer, _end(door, text).encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        end = pipe.read().decode(errors="replace")
    _, status, usage = os.wait4(child, 0)
    if os.WIFSIGNALED(status):
        end = f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "cpu": usage.ru_utime + usage.ru_stime,
        "memory": max(0, usage.ru_maxrss - own) * 1024,
        "end": end,
    }


def _end(door: str, text: str) -> str:
    """Of one call: an answer, a refusal with its sentence, or a fault."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
    resource.setrlimit(resource.RLIMIT_AS, (pages * PAGE + MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        DOORS[door](Question.read(text))
    except DeniableError as refusal:
        return f"refused: {refusal}"
    except Exception as fault:
        return f"fault: {type(fault).__name__}: {fault}"
    return "answered"


def describe_excess(result: dict[str, object]) -> str | None:
    """Why a result is over the limits, or None. A number of a wrong kind may raise what Python raises for it."""
    end, memory = str(result["end"]), int(str(result["memory"]))
    if memory > MEMORY:
        return f"{memory / 2**20:.0f} MB"
    if "MemoryError" in end:
        return end
    if end == "answered" or end.startswith(("refused", *WRONG_NUMBERS)):
        return None
    return end


def answer_lines(lines: Iterator[str]) -> None:
    for line in lines:
        question = json.loads(line)
        sys.stdout.write(json.dumps(run(question["door"], question["input"])) + "\n")


if __name__ == "__main__":
    answer_lines(iter(sys.stdin))
