"""Federated rounds beside a plain loop, pfl and Flower's simulation, private rounds beside plain ones, and
secure sums.

    python benchmarks/federated.py [--quick]     writes its table into docs/benchmarks.md
    python benchmarks/federated.py --ours        without peers, prints only
    python benchmarks/federated.py --silos DIR   accuracy of rows protected in five silos beside one table, on
                                                 Adult as published (in DIR), prints only

Peers run as child processes, each with a plain loop of its own: pfl in .venv-bench (or the interpreter that
DENIABLE_BENCH_PYTHON names), Flower in .venv-flower (DENIABLE_FLOWER_PYTHON).

CPU seconds in one process, variants in turn, the least of several (what else the machine does
only adds); ten clients of 600 made-up digits,
one epoch in batches of ten. The plain loop is the one that everybody writes: a model,
`torch.optim.SGD`, `backward`, one client after the other.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from _report import write_section
from deniable.datasets import readers
from deniable.federated import (
    Central,
    Clients,
    CrossSilo,
    FedAvg,
    LocalSteps,
    OnClient,
    RowPrivacy,
    Shared,
    SiloRows,
    Silos,
    iid,
    simulate,
)
from deniable.federated.mcmahan import NETWORKS
from deniable.federated.rounds import Rounds
from deniable.federated.secure_sum import Adversary, Stage, SumClient, SumServer, generated
from deniable.federated.secure_sum import simulate as secure_sum
from deniable.federated.train import LocalRecipe, Pupil, local_training, parameters_of
from deniable.federated.train.recipe import flat
from deniable.learn.sgd import DPSGD, Learning, Lots, Privacy
from deniable.randomness import SecureRandom

ROOT = Path(__file__).resolve().parent.parent
OURS, QUICK = "--ours" in sys.argv, "--quick" in sys.argv
REPEATS = 3 if QUICK else 12
TURNS = {"2NN": REPEATS, "CNN": 3 if QUICK else 15}
ROWS = {"2NN": 600, "CNN": 100}
"""Of the CNN fewer, in more turns: a turn of some seconds meets the rest of the machine's work in any case."""
CRITERION = nn.CrossEntropyLoss()


def cpu(act: Callable[[], object]) -> float:
    start = time.process_time()
    act()
    return time.process_time() - start


def plain_loop(network: str, pupils: list[Pupil]) -> None:
    """What everybody writes first."""
    model = NETWORKS[network]()
    start = [p.detach().clone() for p in model.parameters()]
    total = [torch.zeros_like(value) for value in start]
    for pupil in pupils:
        with torch.no_grad():
            for p, value in zip(model.parameters(), start, strict=True):
                p.copy_(value)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in pupil.batches(LocalRecipe(1, 10)):
            optimizer.zero_grad()
            CRITERION(model(pupil.x[batch]), pupil.y[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            for part, p in zip(total, model.parameters(), strict=True):
                part.add_(p)


def digits(rows: int, clients: int) -> list[Pupil]:
    draw = torch.Generator().manual_seed(0)
    return [
        Pupil(torch.rand(rows, 1, 28, 28, generator=draw), torch.randint(0, 10, (rows,), generator=draw), k)
        for k in range(clients)
    ]


def training(network: str) -> tuple[float, float]:
    pupils = digits(ROWS[network], 10)
    model = NETWORKS[network]()
    ours, start = local_training(model, CRITERION), flat(parameters_of(model))
    total = torch.zeros_like(start)

    def add_up() -> None:
        for update in ours.updates(start, pupils, LocalRecipe(1, 10, 0.1)):
            total.add_(update)

    times: dict[str, list[float]] = {"plain": [], "ours": []}
    for _ in range(TURNS[network]):
        times["plain"].append(cpu(lambda: plain_loop(network, pupils)))
        times["ours"].append(cpu(add_up))
    return min(times["plain"]), min(times["ours"])


PEERS = {
    "pfl 0.6.0": ("pfl", "DENIABLE_BENCH_PYTHON", ".venv-bench"),
    "Flower 1.41's simulation": ("flower", "DENIABLE_FLOWER_PYTHON", ".venv-flower"),
}


def by_peer(name: str) -> tuple[float, float]:
    """CPU seconds of a round of ten 2NN clients by a peer, and by a plain loop in its environment."""
    script, variable, folder = PEERS[name]
    python = os.environ.get(variable, str(ROOT / folder / "bin" / "python"))
    if not Path(python).exists():
        raise SystemExit(f"{python} is not there: make bench installs the peers (or run with --ours).")
    path = ROOT / "benchmarks" / "peers" / f"{script}_round.py"
    printed = subprocess.run(
        [python, str(path), str(REPEATS)], check=True, capture_output=True, text=True
    ).stdout
    rounds: dict[str, list[float]] = json.loads(printed.splitlines()[-1])
    return min(rounds[script]), min(rounds["plain"])


def private_round() -> dict[str, float]:
    """A round of all ten clients: without noise, with central noise, with shares of noise."""
    pupils = digits(ROWS["2NN"], 10)
    x, y = torch.cat([p.x for p in pupils]), torch.cat([p.y for p in pupils])
    data = iid(x, y.numpy(), clients=10)
    made = {
        "central": FedAvg.from_keywords(
            NETWORKS["2NN"](), CRITERION, clients=10, rate=1, noise=Central(1.0), progress=False
        ),
        "shared": FedAvg.from_keywords(
            NETWORKS["2NN"](),
            CRITERION,
            clients=10,
            rate=1,
            noise=Shared(1.0, least=8, participations=99),
            progress=False,
        ),
    }
    times: dict[str, list[float]] = {"plain": [], **{name: [] for name in made}}
    for _ in range(REPEATS):
        times["plain"].append(cpu(lambda: simulate(NETWORKS["2NN"](), CRITERION, data, share=1, rounds=1)))
        for name, run in made.items():
            rounds = Rounds(run, data, SecureRandom())
            times[name].append(cpu(rounds.step))
    return {name: min(values) for name, values in times.items()}


def secure(
    clients: int, length: int, neighbours: int | None, threshold: int, least: int, dropped: int
) -> tuple[float, float]:
    """CPU seconds of one client and of the server."""
    spent = {SumClient: 0.0, SumServer: 0.0}
    undo = [_timed(kind, spent) for kind in spent]
    agreement, signers = generated(
        clients=clients,
        length=length,
        threshold=threshold,
        least=least,
        neighbours=neighbours,
        adversary=Adversary.CURIOUS,
    )
    vector = np.random.default_rng(0).integers(-1000, 1000, length)
    dropouts = dict.fromkeys(range(dropped), Stage.MASK)
    outcome = secure_sum(agreement, signers, dict.fromkeys(range(clients), vector), dropouts=dropouts)
    assert np.array_equal(outcome.signed(), vector * (clients - dropped))
    for each in undo:
        each()
    return spent[SumClient] / clients, spent[SumServer]


def _timed(kind: type, spent: dict[type, float]) -> Callable[[], None]:
    names = [
        name
        for name, value in vars(kind).items()
        if callable(value) and (name == "__init__" or name[0] != "_")
    ]
    originals = {name: getattr(kind, name) for name in names}

    def wrapped(act: Callable[..., object]) -> Callable[..., object]:
        def timed(*args: object, **kwargs: object) -> object:
            start = time.process_time()
            try:
                return act(*args, **kwargs)
            finally:
                spent[kind] += time.process_time() - start

        return timed

    for name, act in originals.items():
        setattr(kind, name, wrapped(act))

    def undo() -> None:
        for name, act in originals.items():
            setattr(kind, name, act)

    return undo


def memory_of_a_million() -> tuple[float, float]:
    """MB that clients cost beside their rows: a thousand and a million of them."""
    import tracemalloc

    sizes = []
    for clients in (1000, 10**6):
        x, y = np.zeros((10**6, 1), np.float32), np.zeros(10**6, np.int64)
        tracemalloc.start()
        data: Clients = iid(x, y, clients=clients)
        sizes.append(tracemalloc.get_traced_memory()[0] / 1e6)
        tracemalloc.stop()
        del data
    return sizes[0], sizes[1]


class Lines(list[str]):
    """Lines of the report, printed as they are measured: a run that is broken off tells what it has."""

    def tell(self, *lines: str) -> None:
        print(*lines, sep="\n", flush=True)
        self.extend(lines)


# ------------------------------------------------------------------------------------------------ rows in silos

SCHOOLS = (("HS-grad",), ("Some-college",), ("Bachelors",), ("Masters", "Doctorate", "Prof-school"))
"""Silos by education, the rest in a fifth: they differ in size and in what they hold, as hospitals do."""
RANGES = {"age": (17, 90), "education_num": (1, 16), "hours_per_week": (1, 99)}
LEFT_OUT = {"income", "fnlwgt", "native_country", "capital_gain", "capital_loss", *RANGES}
STEPS, RATE, LEARNING_RATE, BUDGET = 60, 0.02, 2.0, (1, 1e-5)


def encode_adult(folder: Path) -> tuple[list[SiloRows], tuple[torch.Tensor, torch.Tensor]]:
    """Rows of five silos, and the test rows."""
    file = readers.adult(folder)
    assert file.test is not None
    train, both = file.table.num_rows, pa.concat_tables([file.table, file.test]).to_pandas()
    columns = [np.asarray(both[name] == value) for name in both.columns if name not in LEFT_OUT
               for value in sorted(both[name].unique())]  # fmt: skip
    columns += [np.asarray((both[name] - low) / (high - low)) for name, (low, high) in RANGES.items()]
    columns += [np.asarray(both.capital_gain > 5000), np.asarray(both.capital_loss > 1500)]
    x = np.stack(columns, 1).astype(np.float32)
    y = np.asarray(both.income.str.startswith(">")).astype(np.int64)
    schools = [np.asarray(both.education.isin(names))[:train] for names in SCHOOLS]
    masks = [*schools, ~np.logical_or.reduce(schools)]
    silos = [SiloRows(x[:train][mask], y[:train][mask]) for mask in masks]
    return silos, (torch.from_numpy(x[train:]), torch.from_numpy(y[train:]))


def silos(folder: Path) -> None:
    """The same ε by one table and by silos, each place of the noise."""
    rows, (x, y) = encode_adult(folder)
    sizes = tuple(-(-len(each.x) // 100) * 100 for each in rows)
    model = nn.Linear(x.shape[1], 2)
    epsilon, delta = BUDGET

    def tell(name: str, run: DPSGD | CrossSilo, data: object) -> None:
        start = time.process_time()
        trained = run(data, rng=SecureRandom()).model
        with torch.no_grad():
            accuracy = float((trained(x).argmax(1) == y).double().mean())
        print(f"{name}: {100 * accuracy:.1f} %, {time.process_time() - start:.1f} CPU s", flush=True)

    table = (np.concatenate([each.x for each in rows]), np.concatenate([each.y for each in rows]))
    lots = Lots(n=sum(sizes), rate=RATE, steps=STEPS)
    learning = Learning(learning_rate=LEARNING_RATE)
    tell(
        "one table",
        DPSGD(model, CRITERION, lots=lots, privacy=Privacy(epsilon, delta), learning=learning),
        table,
    )
    places: list[tuple[Central | Shared | OnClient, int]] = [
        (Central(), 1),
        (Shared(bits=32, least=3), 1),
        (OnClient(), 1),
        (OnClient(), 5),
    ]
    for noise, steps in places:
        run = CrossSilo(model, CRITERION, silos=Silos(sizes, RATE, STEPS // steps),
                        local=LocalSteps(steps, LEARNING_RATE),
                        privacy=RowPrivacy(noise, epsilon=epsilon, delta=delta))  # fmt: skip
        tell(f"silos, {type(noise).__name__}, {steps} local steps", run, rows)


def main() -> None:
    torch.set_num_threads(1)
    lines = Lines()
    lines.tell(
        "## Federated learning",
        "",
        f"`python benchmarks/federated.py{' --quick' if QUICK else ''}`, {datetime.now(UTC):%Y-%m-%d}, "
        f"Python {platform.python_version()}, torch {torch.__version__}; CPU seconds, one process, the "
        f"least of {REPEATS}, of {TURNS['CNN']} for the CNN (others on the machine only add; load "
        f"{os.getloadavg()[0]:.0f} on {os.cpu_count()} cores at the start).",
        "",
        "| ten clients, one epoch, batches of ten | plain loop | ours | ratio |",
        "|---|--:|--:|--:|",
    )
    for network in ("2NN", "CNN"):
        plain, ours = training(network)
        lines.tell(
            f"| {network}, {ROWS[network]} rows a client | {plain:.3f} | {ours:.3f} | {ours / plain:.2f} |"
        )
        for name in PEERS if network == "2NN" and not OURS else ():
            peer, loop = by_peer(name)
            lines.tell(
                f"| 2NN by {name}, beside a plain loop of its own | {loop:.3f} | theirs {peer:.3f} | "
                f"{peer / loop:.2f}; ours ÷ theirs **{ours / peer:.2f}** |"
            )
    rounds = private_round()
    lines.tell("", "| a round of ten 2NN clients | CPU s | of a plain round |", "|---|--:|--:|")
    for name, seconds in rounds.items():
        lines.tell(f"| {name} | {seconds:.3f} | {seconds / rounds['plain']:.2f} |")
    lines.tell("", "| secure sum | numbers | client CPU s | server CPU s |", "|---|--:|--:|--:|")
    cases = [(100, 10**6, None, 67, 67, 5), (1000, 10**5, 50, 30, 800, 50)]
    for clients, length, neighbours, threshold, least, dropped in cases[:1] if QUICK else cases:
        client, server = secure(clients, length, neighbours, threshold, least, dropped)
        around = "everybody" if neighbours is None else f"{neighbours} neighbours"
        lines.tell(
            f"| {clients} clients, {around}, {dropped} dropped | {length:,} | {client:.3f} | {server:.2f} |"
        )
    few, many = memory_of_a_million()
    lines.tell(
        "",
        f"Beside their rows a thousand clients take {few:.1f} MB and a million {many:.1f} MB "
        "(an order of a million rows in both).",
    )
    if not OURS:
        write_section("federated", "\n".join(lines))


if __name__ == "__main__":
    if "--silos" in sys.argv:
        silos(Path(sys.argv[sys.argv.index("--silos") + 1]))
    else:
        main()
