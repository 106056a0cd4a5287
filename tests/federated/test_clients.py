"""Clients and the ways to deal rows out to them."""

from __future__ import annotations

import math
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from deniable.errors import DataError, InvalidParameter
from deniable.federated import Clients, dirichlet, iid, shards, unbalanced

X = np.arange(600, dtype=np.float32).reshape(300, 2)
Y = np.arange(300) % 10


@pytest.mark.parametrize(
    "clients",
    [
        iid(X, Y, clients=7),
        shards(X, Y, clients=10),
        dirichlet(X, Y, clients=7, alpha=0.1),
        unbalanced(X, Y, clients=7, sigma=2.0),
        Clients.by_owner(X, Y, [f"user {k % 13}" for k in range(300)]),
    ],
)
def test_every_row_belongs_to_one_client(clients: Clients) -> None:
    rows = np.concatenate([clients.rows(k)[0].numpy() for k in range(len(clients))])
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, X.tolist()))
    assert sum(map(clients.size, range(len(clients)))) == 300
    for k in range(len(clients)):
        x, y = clients.rows(k)
        assert np.array_equal(y.numpy(), Y[(x[:, 0] / 2).int().numpy()])


def test_shards_give_clients_few_labels() -> None:
    clients = shards(X, Y, clients=10)
    assert all(len(np.unique(clients.rows(k)[1])) <= 3 for k in range(10))
    assert len(np.unique(iid(X, Y, clients=10).rows(0)[1])) > 5


def test_a_million_clients_cost_their_offsets() -> None:
    x, y = np.zeros((10**6, 1), np.float32), np.zeros(10**6, np.int64)
    tracemalloc.start()
    clients = iid(x, y, clients=10**6)
    assert clients.size(999_999) == 1
    assert tracemalloc.get_traced_memory()[0] < 20e6
    tracemalloc.stop()


def test_clients_from_a_file(tmp_path: Path) -> None:
    table = {"who": ["b", "a", "b"], "label": [1, 0, 1], "u": [1.0, 2.0, 3.0], "v": [4, 5, 6]}
    pq.write_table(pa.table(table), tmp_path / "phones.parquet")
    clients = Clients.from_parquet(
        tmp_path / "phones.parquet", user="who", label="label", features=["u", "v"]
    )
    assert [clients.size(k) for k in range(len(clients))] == [1, 2]
    assert clients.rows(1)[0].tolist() == [[1.0, 4.0], [3.0, 6.0]]
    with pytest.raises(DataError, match="cannot be read"):
        Clients.from_parquet(tmp_path / "nothing.parquet", user="who", label="label", features=["u"])


@pytest.mark.parametrize(
    "who",
    [
        pa.array(["b", None, "b", "", "a"]),
        pa.array([2**62 + 1, None, 2**62 + 1, None, 2**62]),
        pa.array([2.0, math.nan, 2.0, None, 1.0]),
        pa.array(["b", None, "b", "", "a"]).dictionary_encode(),
    ],
    ids=["words", "numbers", "floats", "categories"],
)
def test_a_row_of_nobody_is_in_no_client(who: pa.Array, tmp_path: Path) -> None:
    """All rows without a name would else be one client; and ids that became floats for it could merge."""
    table = pa.table({"who": who, "label": [1, 0, 1, 0, 0], "u": [1.0, 2.0, 3.0, 4.0, 5.0]})
    pq.write_table(table, tmp_path / "phones.parquet")
    clients = Clients.from_parquet(tmp_path / "phones.parquet", user="who", label="label", features=["u"])
    rows = [clients.rows(k)[0].flatten().tolist() for k in range(len(clients))]
    assert [row for row in rows if row] == [[5.0], [1.0, 3.0]]
    names = who.to_pylist()
    by_owner = Clients.by_owner(np.arange(5.0)[:, None], np.zeros(5), np.array(names, object))
    assert sum(map(by_owner.size, range(len(by_owner)))) == sum(
        bool(n) and n == n for n in names
    ) + names.count("")


def test_a_value_that_is_missing_changes_nothing_for_other_clients(tmp_path: Path) -> None:
    """One NULL would make floats of all labels, on which nobody can be trained: one client would move the
    updates of all."""
    path, whole = tmp_path / "gaps.parquet", tmp_path / "whole.parquet"
    label, u = [1, 0, 1, None], [1.0, 2.0, None, 4.0]
    pq.write_table(pa.table({"who": [1, 2, 3, 3], "label": label, "u": u}), path)
    pq.write_table(pa.table({"who": [1, 2, 3, 3], "label": [1, 0, 1, 1], "u": [1.0, 2.0, 3.0, 4.0]}), whole)
    gaps, full = (Clients.from_parquet(p, user="who", label="label", features=["u"]) for p in (path, whole))
    assert [gaps.size(k) for k in range(len(gaps))] == [1, 1, 0]
    for client in (0, 1):
        for mine, other in zip(gaps.rows(client), full.rows(client), strict=True):
            assert mine.dtype == other.dtype
            assert torch.equal(mine, other)


def test_columns_that_are_no_numbers_and_owners_of_two_kinds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "words.parquet"
    pq.write_table(
        pa.table({"who": [1, 2], "label": ["maps", "games"], "u": [1.0, 2.0], "at": [[1], [2]]}), path
    )
    with pytest.raises(DataError, match="Expected numbers in the column 'label'"):
        Clients.from_parquet(path, user="who", label="label", features=["u"])
    with pytest.raises(DataError, match="the column that names clients"):
        Clients.from_parquet(path, user="at", label="who", features=["u"])
    with pytest.raises(DataError, match="of one kind"):
        Clients.by_owner(X[:2], Y[:2], np.array(["a", 1], object))


def test_clients_from_a_torch_set() -> None:
    rows = torch.utils.data.TensorDataset(torch.arange(6.0).view(3, 2), torch.tensor([1, 0, 1]))
    clients = Clients.from_dataset(rows, ["b", "a", "b"])
    assert [clients.size(k) for k in range(len(clients))] == [1, 2]
    assert clients.rows(1)[0].tolist() == [[0.0, 1.0], [4.0, 5.0]]
    assert clients.rows(1)[1].tolist() == [1, 1]
    for odd in ([(0.0, 1, 2)], [(0.0, "a")], [([1.0], 0), ([1.0, 2.0], 0)]):
        with pytest.raises(DataError, match="pairs"):
            Clients.from_dataset(odd, list(range(len(odd))))
    with pytest.raises(DataError, match="at least one row"):
        Clients.from_dataset(torch.utils.data.TensorDataset(torch.zeros(0, 2), torch.zeros(0)), [])


def test_parts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match="as many labels"):
        iid(X, Y[:-1], clients=3)
    with pytest.raises(InvalidParameter, match="1 to 300 parts"):
        iid(X, Y, clients=301)
    with pytest.raises(InvalidParameter, match="alpha"):
        dirichlet(X, Y, clients=3, alpha=0)
    with pytest.raises(InvalidParameter, match="offsets"):
        Clients(X, Y, np.arange(300), np.array([0, 200]))
    with pytest.raises(InvalidParameter, match="rows that exist"):
        Clients(X, Y, np.array([0, 300]), np.array([0, 2]))


def test_a_client_that_falls_silent_keeps_its_number_where_owners_are_declared() -> None:
    """Without it the others would move up: into other turns, and with one share of noise less."""
    x, y, owner = np.arange(6.0)[:, None], np.zeros(6, int), np.array(list("abbccc"))
    full = Clients.by_owner(x, y, owner, owners=["c", "a", "b", "d"])
    silent = Clients.by_owner(x[[0, 3, 4, 5]], y[:4], owner[[0, 3, 4, 5]], owners=["c", "a", "b", "d"])
    assert [full.size(k) for k in range(4)] == [1, 2, 3, 0]
    assert [silent.size(k) for k in range(4)] == [1, 0, 3, 0]
    for client in (0, 2):
        assert torch.equal(full.rows(client)[0], silent.rows(client)[0])
    for owners in (["a", "b"], ["a", "b", "c", "c"]):
        with pytest.raises(DataError, match="name every client once"):
            Clients.by_owner(x, y, owner, owners=owners)
