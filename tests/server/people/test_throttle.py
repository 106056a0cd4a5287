"""What is counted: failures by name and address, never what goes well; a stranger locks nobody out, and a crowd of
addresses is slowed."""

from __future__ import annotations

from contextlib import suppress

import pytest

from deniable.errors import NotLoggedIn, TooMany
from deniable.server.people import throttle as throttles
from deniable.server.people.throttle import Throttle
from deniable.server.settings import Rates


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    moment = [0.0]
    monkeypatch.setattr("deniable.server.people.throttle.time.monotonic", lambda: moment[0])
    return moment


def fail(throttle: Throttle, name: str, address: str) -> None:
    with suppress(NotLoggedIn), throttle.login(name, address):
        raise NotLoggedIn("The name or the password is not right.")


def log_in(throttle: Throttle, name: str, address: str) -> None:
    with throttle.login(name, address):
        pass


def test_logins_that_go_well_are_never_counted() -> None:
    throttle = Throttle(Rates())
    for _ in range(500):
        log_in(throttle, "ada", "192.0.2.1")
        with throttle.token_login("192.0.2.1"):
            pass


def test_guesses_are_stopped_by_name_and_address_and_a_stranger_locks_nobody_out(now: list[float]) -> None:
    throttle = Throttle(Rates(login_person="3/minute", login_address="5/minute"))
    for _ in range(3):
        fail(throttle, "ada", "192.0.2.1")
    with pytest.raises(TooMany, match="3 per 1 minute"):
        fail(throttle, "ada", "192.0.2.1")
    log_in(throttle, "ada", "192.0.2.2")  # she is elsewhere, for the first time
    fail(throttle, "bob", "192.0.2.1")
    with pytest.raises(TooMany, match="5 per 1 minute"):
        fail(throttle, "cleo", "192.0.2.1")
    now[0] += 61
    log_in(throttle, "ada", "192.0.2.1")


def test_a_few_guesses_a_minute_are_too_many_in_an_hour(now: list[float]) -> None:
    throttle = Throttle(Rates())
    admitted = 0
    for i in range(600):
        now[0] = 6.0 * i
        with suppress(TooMany):
            fail(throttle, "ada", "192.0.2.1")
            admitted += 1
    assert admitted == 60


def test_a_crowd_of_addresses_is_slowed_and_the_person_is_let_in_where_she_was(now: list[float]) -> None:
    throttle = Throttle(Rates())
    log_in(throttle, "ada", "198.51.100.7")
    guesses = 0
    for i in range(3000):
        with suppress(TooMany):
            fail(throttle, "ada", f"10.{i // 250}.{i % 250}.1")
            guesses += 1
    assert guesses == throttles.MOST_SITES
    log_in(throttle, "ada", "198.51.100.7")
    log_in(throttle, "bob", "203.0.113.5")  # nobody else is slowed
    with pytest.raises(TooMany, match="20 networks"):
        log_in(throttle, "ada", "203.0.113.5")
    now[0] += throttles.SITE_SECONDS + 1
    log_in(throttle, "ada", "203.0.113.5")


def test_addresses_of_one_customer_of_ipv6_are_one_network() -> None:
    throttle = Throttle(Rates(login_address="10/minute"))
    for i in range(10):
        fail(throttle, f"name {i}", f"2001:db8:0:1::{i:x}")
    with pytest.raises(TooMany, match="10 per 1 minute"):
        fail(throttle, "name 10", "2001:db8:0:1::99")
    for i in range(2, 100):
        fail(throttle, "ada", f"2001:db8:0:{i:x}::1")
    log_in(throttle, "ada", "203.0.113.5")  # a site counts once, however many machines it has


def test_few_logins_of_one_address_wait_at_a_time() -> None:
    throttle = Throttle(Rates())
    waiting = [throttle.login("ada", "192.0.2.1") for _ in range(throttles.AT_ONCE)]
    for each in waiting:
        each.__enter__()
    with pytest.raises(TooMany, match="8 logins from your address"):
        log_in(throttle, "ada", "192.0.2.1")
    log_in(throttle, "ada", "192.0.2.2")
    for each in waiting:
        each.__exit__(None, None, None)
    log_in(throttle, "ada", "192.0.2.1")


def test_a_refused_text_counts_by_its_length_and_an_answered_one_not_at_all() -> None:
    throttle = Throttle(Rates(refusals="300/minute"))
    for _ in range(100):
        with throttle.text("person ada", 64_000):
            pass
    for _ in range(4):
        with suppress(ValueError), throttle.text("person ada", 64_000):
            raise ValueError
    with pytest.raises(TooMany, match="300 per 1 minute"), throttle.text("person ada", 64_000):
        pass
    with throttle.text("person ada", 100), throttle.text("person bob", 64_000):
        pass


def test_names_that_were_tried_once_are_forgotten(now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttles, "MOST_KEYS", 100)
    throttle = Throttle(Rates(login_person="2/minute", login_address="1000000/minute"))
    monkeypatch.setattr(throttles, "SITE_SECONDS", 60.0)
    for i in range(1000):
        now[0] = 2.0 * i
        fail(throttle, f"guess {i}", "192.0.2.1")
    assert len(throttle._windows) < 300
    assert len(throttle._sites) < 300
    fail(throttle, "guess 999", "192.0.2.1")
    with pytest.raises(TooMany):
        fail(throttle, "guess 999", "192.0.2.1")
    now[0] += 61
    fail(throttle, "guess 999", "192.0.2.1")


def test_a_text_that_counts_for_many_takes_one_place_and_is_given_back_whole(now: list[float]) -> None:
    """Its place is forgotten inside the event loop: 4,000 places took 50 ms there."""
    throttle = Throttle(Rates(refusals="5000/minute"))
    key = ("refusals", "ada")
    for moment in range(3):
        now[0] = moment
        with suppress(ValueError), throttle.text("ada", 1_000_000):
            raise ValueError
        with throttle.text("ada", 1_000_000):
            pass
    window = throttle._windows[key]
    assert dict(window.counts) == {0: 1001, 1: 1001, 2: 1001}
    assert window.total == 3003
    with pytest.raises(TooMany), throttle.text("ada", 2_000_000):
        pass
    now[0] = 61.5
    with throttle.text("ada", 2_000_000):
        assert dict(window.counts) == {2: 1001, 61.5: 2001}
    assert (dict(window.counts), window.total) == ({2: 1001}, 1001)
