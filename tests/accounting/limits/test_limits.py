"""No public function of accounting takes more than 10 CPU seconds or 1 GB for an input of one kilobyte, whatever stands in it:
each call runs in a process of its own, with these limits set by the system."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from deniable.accounting import refusals
from deniable.accounting.refusals import check_time, collect_lowers, guard
from deniable.errors import Unaccountable
from tests.accounting.limits.contained import describe_excess
from tests.accounting.limits.doors import DOORS, public_names
from tests.accounting.limits.inputs import LARGEST, build_input

FOUND: list[list[str]] = json.loads(Path(__file__).with_name("found.json").read_text())
"""Doors and inputs that once took over 10 CPU seconds or 1 GB, or ended in a fault of the program."""
QUICK: list[list[str]] = json.loads(Path(__file__).with_name("quick.json").read_text())
"""A few inputs for every door that end within a fraction of a second."""
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="The limits are Linux's.")


def run_all(calls: Iterable[tuple[str, str]]) -> list[str]:
    """What ends otherwise than by an answer or a refusal within the limits."""
    listed = list(calls)
    lines = [json.dumps({"door": door, "input": text}) for door, text in listed]
    child = subprocess.run(
        [sys.executable, "-m", "tests.accounting.limits.contained"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert child.returncode == 0, child.stderr
    results = [json.loads(line) for line in child.stdout.splitlines()]
    return [
        f"{door} of {text}: {excess}"
        for (door, text), result in zip(listed, results, strict=True)
        if (excess := describe_excess(result))
    ]


def test_every_public_function_is_in_the_fuzz() -> None:
    names = set(public_names())
    assert len(names) > 80
    assert names <= set(DOORS), f"These have no entry in doors.py: {sorted(names - set(DOORS))}"
    assert {door for door, _ in QUICK} == set(DOORS)


def test_inputs_are_at_most_a_kilobyte() -> None:
    assert all(len(build_input(seed).encode()) <= LARGEST for seed in range(50))
    assert all(len(text.encode()) <= LARGEST for _, text in FOUND + QUICK)


def test_every_public_function_ends_within_its_limits() -> None:
    assert not run_all((door, text) for door, text in QUICK)


@pytest.mark.soak
def test_what_once_took_too_long_ends_within_its_limits() -> None:
    assert not run_all((door, text) for door, text in FOUND)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_every_public_function_ends_within_its_limits_for_many_inputs(block: int) -> None:
    doors = itertools.cycle(sorted(DOORS))
    seeds = range(10**6 + 1000 * block, 10**6 + 1000 * (block + 1))
    assert not run_all((door, build_input(seed)) for door, seed in zip(doors, seeds, strict=False))


def test_a_process_over_its_limits_is_noticed() -> None:
    assert describe_excess({"cpu": 10.0, "memory": 0, "end": "ended by SIGKILL"})
    assert describe_excess({"cpu": 0.1, "memory": 2**30 + 1, "end": "answered"})
    assert describe_excess({"cpu": 0.1, "memory": 0, "end": "refused: beyond (MemoryError: …)"})
    assert describe_excess({"cpu": 0.1, "memory": 0, "end": "fault: KeyError: 3"})
    assert not describe_excess({"cpu": 9.0, "memory": 2**29, "end": "refused: …"})


# ------------------------------------------------------------------------------------------------ the accountant's own clock


class FakeClock:
    """A clock of CPU time that the test moves on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(refusals.time, "thread_time", lambda: self.now)


def test_a_call_that_ran_out_of_time_is_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the method that ran out was passed over for another one: ε must not depend on the machine."""
    clock = FakeClock(monkeypatch)

    @guard
    def slow() -> float:
        clock.now += refusals.PATIENCE + 1
        check_time()
        return 1.0

    @guard
    def choose() -> float:
        try:
            return slow()
        except Unaccountable:
            return 2.0

    for _ in range(2):  # the clock starts anew with each call
        with pytest.raises(Unaccountable, match="8 seconds of processor time"):
            choose()
    check_time()  # no call is under way


def test_a_lower_side_that_ran_out_of_time_costs_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(monkeypatch)

    @guard
    def bound() -> tuple[object, ...]:
        clock.now += refusals.PATIENCE / 2

        def lowers() -> Iterable[int]:
            yield 1
            clock.now += refusals.PATIENCE / 4 + 0.1
            check_time()
            yield 2

        found = collect_lowers(lowers)
        check_time()
        return found

    assert bound() == (1,)
