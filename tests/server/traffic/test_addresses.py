"""The client behind proxies: believed only where the operator said so, read from the right, and counted by machine."""

from __future__ import annotations

import httpx
import pytest

from deniable.errors import InvalidParameter
from deniable.server.settings import Rates, parse
from deniable.server.traffic.addresses import TrustedProxies, host_of, site_of
from tests.server.hospital import opened, settings


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.1", "203.0.113.9", "192.0.2.1"),  # nobody believes a stranger
        ("10.0.0.2", "", "10.0.0.2"),
        ("10.0.0.2", "203.0.113.9", "203.0.113.9"),
        (
            "10.0.0.2",
            "1.1.1.1, 203.0.113.9",
            "203.0.113.9",
        ),  # what the client itself wrote stands on the left
        ("10.0.0.2", "1.1.1.1, 203.0.113.9, 10.0.0.1", "203.0.113.9"),
        ("10.0.0.2", "10.0.0.1", "10.0.0.1"),
        ("10.0.0.2", "1.1.1.1, nonsense", "10.0.0.2"),
        ("10.0.0.2", "1.1.1.1, nonsense, 10.0.0.1", "10.0.0.1"),
        ("10.0.0.2", "203.0.113.9:5000", "203.0.113.9"),
        ("::ffff:10.0.0.2", "[2001:db8::1]:5000", "2001:db8::1"),
        ("10.0.0.2", ", ,", "10.0.0.2"),
        ("10.0.0.2", ",".join(["10.0.0.1"] * 10_000), "10.0.0.1"),
    ],
)
def test_the_client_is_the_first_from_the_right_who_is_no_trusted_proxy(
    peer: str, forwarded: str, client: str
) -> None:
    assert TrustedProxies(["10.0.0.0/8"]).client(peer, forwarded) == client


def test_nobody_is_trusted_by_default_and_behind_a_proxy_this_machine_is() -> None:
    assert not parse("").proxies.trusts("127.0.0.1")
    assert parse("proxy = true").proxies.trusts("127.0.0.1")
    named = parse('proxy = true\ntrusted_proxies = ["172.16.0.0/12", "2001:db8::5"]').proxies
    assert [named.trusts(each) for each in ("127.0.0.1", "172.18.0.1", "2001:db8::5", "2001:db8::6")] == [
        False,
        True,
        True,
        False,
    ]
    with pytest.raises(InvalidParameter, match="no address and no network"):
        parse('trusted_proxies = ["nginx"]')
    with pytest.raises(InvalidParameter, match="not of the right type"):
        parse("trusted_proxies = true")


def test_machines_and_sites_of_ipv6_are_told_by_their_prefix() -> None:
    assert host_of("2001:db8:1:2:3::4") == host_of("2001:db8:1:2::9") != host_of("2001:db8:1:3::9")
    assert site_of("2001:db8:1:2:3::4") == site_of("2001:db8:1:9::9") != site_of("2001:db8:2::9")


@pytest.mark.parametrize("trusted", [True, False])
def test_people_behind_a_trusted_proxy_are_counted_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, trusted: bool
) -> None:
    proxies = ("127.0.0.1",) if trusted else ()
    made = settings(
        tmp_path_factory.mktemp("proxy"), rates=Rates(login_person="1000/minute", login_address="3/minute")
    )
    made = type(made)(**(vars(made) | {"trusted_proxies": proxies}))
    with opened(made) as running:
        said = [
            httpx.post(
                f"{running.url}/v1/login",
                json={"name": "ada", "password": "wrong password"},
                headers={"X-Forwarded-For": f"6.6.6.6, 203.0.113.{i}"},
                trust_env=False,
            ).status_code
            for i in range(6)
        ]
    assert said == [401] * 6 if trusted else [401] * 3 + [429] * 3
