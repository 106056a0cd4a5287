"""Ways to deal rows out to clients, as the field's experiments do. For public data that
plays the part of clients' data."""

from __future__ import annotations

from typing import Any

import numpy as np

from deniable.errors import InvalidParameter
from deniable.federated.data.clients import Clients


def iid(x: Any, y: Any, *, clients: int, seed: int = 0) -> Clients:
    """Shuffled, equal parts."""
    order = np.random.default_rng(seed).permutation(len(x)).astype(np.int64)
    return Clients(x, y, order, _even_edges(len(x), clients))


def shards(x: Any, y: Any, *, clients: int, per_client: int = 2, seed: int = 0) -> Clients:
    """Sorted by label, cut into equal shards, `per_client` shards each: most clients
    have two digits (McMahan et al. 2017)."""
    count = clients * per_client
    if count > len(x):
        raise InvalidParameter(f"Expected at least {count:,} rows for {count:,} shards, got {len(x):,}.")
    order = np.argsort(np.asarray(y), kind="stable")
    cuts = _even_edges(len(x), count)
    dealt = np.random.default_rng(seed).permutation(count).reshape(clients, per_client)
    parts = [np.concatenate([order[cuts[s] : cuts[s + 1]] for s in own]) for own in dealt]
    return Clients.of_parts(x, y, parts)


def dirichlet(x: Any, y: Any, *, clients: int, alpha: float, seed: int = 0) -> Clients:
    """Each label's rows are shared out by a Dirichlet draw: a small `alpha` gives
    clients few labels (Hsu et al. 2019)."""
    if not alpha > 0:
        raise InvalidParameter(f"Expected alpha={alpha} above 0.")
    rng = np.random.default_rng(seed)
    labels = np.asarray(y)
    owner = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        where = np.flatnonzero(labels == label)
        owner[rng.permutation(where)] = np.sort(
            rng.choice(clients, len(where), p=rng.dirichlet(np.full(clients, alpha)))
        )
    return _split_by_owner(x, y, owner, clients)


def unbalanced(x: Any, y: Any, *, clients: int, sigma: float = 1.0, seed: int = 0) -> Clients:
    """Shuffled, with sizes in proportion to log-normal draws of deviation `sigma`."""
    rng = np.random.default_rng(seed)
    share = rng.lognormal(0.0, sigma, clients)
    owner = rng.choice(clients, len(x), p=share / share.sum())
    return _split_by_owner(x, y, owner, clients)


def _split_by_owner(x: Any, y: Any, owner: Any, clients: int) -> Clients:
    """Clients without a row are kept: they are there and have nothing to say."""
    order = np.argsort(owner, kind="stable").astype(np.int64)
    sizes = np.bincount(owner, minlength=clients)
    return Clients(x, y, order, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


def _even_edges(rows: int, parts: int) -> Any:
    if not 1 <= parts <= rows:
        raise InvalidParameter(f"Expected 1 to {rows:,} parts of {rows:,} rows, got {parts:,}.")
    return (np.arange(parts + 1, dtype=np.int64) * rows) // parts
