"""Phones that tell nobody anything, and a server that still learns the favourites."""

import numpy as np

from deniable import numbers
from deniable.cli import show
from deniable.local import Shuffler, best
from deniable.randomness import SecureRandom

TITLE = "Private before it leaves the phone: 200,000 users, 1,024 sites, ε = 1 each"
USERS, SITES = 200_000, 1024
SHARES = {7: 0.30, 42: 0.15, 511: 0.08}


def play() -> None:
    client, rng = best(SITES, 1), SecureRandom()
    sites = np.random.default_rng(0).integers(0, SITES, USERS)
    cuts = np.cumsum([0, *SHARES.values()]) * USERS
    for site, start, end in zip(SHARES, cuts, cuts[1:], strict=False):
        sites[int(start) : int(end)] = site
    server = client.server()
    server.add(client.reports(sites, rng=rng))
    estimate = server.estimate()
    low, high = estimate.interval()
    show.say(
        f"Each phone sends {client.size} bytes ({type(client).__name__}). One that visited site 7 sent, for "
        "example:"
    )
    show.say("   " + ", ".join(client.report(7, rng=rng).hex() for _ in range(5)), "")
    truth = np.bincount(sites, minlength=SITES)
    rows = [(i, f"{truth[i]:,}", f"{low[i]:,.0f} … {high[i]:,.0f}") for i in estimate.significant()]
    show.table(("site found", "true number of users", "95 % interval of the estimate"), rows, right=(0, 1, 2))
    central = Shuffler(client, USERS).central(1e-6)
    show.say(
        "",
        "Nobody but the phones ever held a true value. If a shuffler mixes the reports first, whoever sees "
        f"them mixed learns at most ε = {numbers.up(central.upper)} at δ = 1e-06 about anyone.",
    )
