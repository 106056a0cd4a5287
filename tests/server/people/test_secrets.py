"""Passwords are hashed a few at a time, behind a short queue, whoever asks and from however many threads."""

from __future__ import annotations

import threading

import pytest

from deniable.errors import TooMany
from deniable.server.people import secrets
from deniable.server.people.secrets import HashQueue


def test_two_hashes_run_sixteen_wait_and_the_rest_are_refused() -> None:
    queue = HashQueue(parallel=secrets.HASHES.parallel, waiting=secrets.HASHES.waiting)
    assert (queue.parallel, queue.waiting) == (2, 16)
    counts = {"running": 0, "most": 0, "done": 0, "refused": 0}
    turn, go = threading.Lock(), threading.Event()

    def hash_one() -> None:
        try:
            with queue.place():
                with turn:
                    counts["running"] += 1
                    counts["most"] = max(counts["most"], counts["running"])
                go.wait()
                with turn:
                    counts["running"] -= 1
                    counts["done"] += 1
        except TooMany:
            with turn:
                counts["refused"] += 1
                if counts["refused"] == 64 - 18:
                    go.set()

    threads = [threading.Thread(target=hash_one) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert counts == {"running": 0, "most": 2, "done": 18, "refused": 46}


def test_every_hash_of_a_password_passes_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = HashQueue(parallel=1, waiting=0)
    monkeypatch.setattr(secrets, "HASHES", queue)
    assert secrets.password_matches(secrets.password_hash("correct horse battery"), "correct horse battery")
    with queue.place():
        for act in (
            lambda: secrets.password_hash("correct horse battery"),
            lambda: secrets.password_matches(None, "x"),
        ):
            with pytest.raises(TooMany, match="Too many logins at this moment"):
                act()
