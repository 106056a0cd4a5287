"""McMahan et al. 2017, Tables 1 and 2: rounds of federated averaging until MNIST is read to 97 or 99 %."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.datasets.real import load
from deniable.plots import learn as plots
from deniable.reproduce import _learning
from deniable.reproduce.report import Progress, Report

if TYPE_CHECKING:
    from deniable.federated import Simulated
    from deniable.federated.mcmahan import Digits

SUMMARY = "McMahan et al. 2017: rounds of FedAvg to 97 % (2NN) and 99 % (CNN) on MNIST (about 25 CPU minutes)"

CLIENTS = 100


@dataclass(frozen=True)
class TableCell:
    """One cell of a table: the paper's rounds, the learning rates to try (the first was
    the best found), and a limit."""

    network: str
    split: str
    share: float
    epochs: int
    batch: int | None
    paper: int | None
    rates: tuple[float, ...]
    most: int
    every: int = 1

    @property
    def name(self) -> str:
        size = "∞" if self.batch is None else self.batch
        return f"{self.network} {self.split}, C = {self.share:g}, E = {self.epochs}, B = {size}"

    @property
    def target(self) -> float:
        return 0.97 if self.network == "2NN" else 0.99


DEFAULT = (
    *(
        TableCell("2NN", "IID", share, 1, 10, paper, (rate,), most, every)
        for share, paper, rate, most, every in (
            (0.1, 87, 0.3, 200, 1),
            (0.0, 316, 0.1, 800, 5),
            (0.2, 77, 0.3, 200, 1),
            (0.5, 75, 0.3, 200, 1),
            (1.0, 70, 0.3, 200, 1),
        )
    ),
    TableCell("2NN", "IID", 0.1, 1, None, 1474, (0.5,), 1500, every=5),
    TableCell("2NN", "IID", 0.0, 1, None, 1455, (0.5,), 1500, every=5),
    TableCell("2NN", "shards", 0.1, 1, 10, 664, (0.1,), 800, every=5),
    TableCell("2NN", "shards", 0.1, 1, None, 1796, (0.5,), 1800, every=5),
    TableCell("CNN", "IID", 0.1, 5, 10, 20, (0.1,), 30),
)
"""What the command computes by itself: one learning rate a cell. Those of C = .1 are the best that the full
search found so far, the others are taken from them. The dearest come last; each cell is kept once done."""

FULL = (
    *(
        TableCell("2NN", split, share, 1, 10, paper, rates, 3500)
        for split, rates, column in (
            ("IID", (0.1, 0.2, 0.3, 0.4), {0.0: 316, 0.1: 87, 0.2: 77, 0.5: 75, 1.0: 70}),
            ("shards", (0.05, 0.1, 0.2), {0.0: 3275, 0.1: 664, 0.2: 619, 0.5: 443, 1.0: 380}),
        )
        for share, paper in column.items()
    ),
    *(
        TableCell("2NN", split, share, 1, None, paper, (0.5, 1.0, 2.0), 4500, every=5)
        for split, column in (
            ("IID", {0.0: 1455, 0.1: 1474, 0.2: 1658}),
            ("shards", {0.0: 4278, 0.1: 1796, 0.2: 1528}),
        )
        for share, paper in column.items()
    ),
    *(
        TableCell("CNN", split, 0.1, epochs, batch, paper, (0.05, 0.1, 0.2), 1000)
        for epochs, batch, iid, shards in (
            (1, None, 626, 483),
            (5, None, 179, 1000),
            (1, 50, 65, 600),
            (20, None, 234, 672),
            (1, 10, 34, 350),
            (5, 50, 29, 334),
            (20, 50, 32, 426),
            (5, 10, 20, 229),
            (20, 10, 18, 173),
        )
        for split, paper in (("IID", iid), ("shards", shards))
    ),
)
"""Tables 1 (2NN) and 2 (CNN). Days of CPU time; every cell is kept, so it can be broken
off and taken up again."""

READING = (
    "100 clients of 600 digits; weights by numbers of rows; the curve is made monotone and read between two "
    "measurements, as in the paper. One seed, and rates chosen on the test set, as the paper chose them: the "
    "rounds are the best tried, not a mean. The paper's initial weights and scaling of pixels are not known, "
    "so fewer rounds than the paper's do not mean a better algorithm."
)


@dataclass(frozen=True)
class TrainingOutcome:
    """Rounds to the target at the best rate, and the accuracy by round at it."""

    rate: float
    rounds: float | None
    scores: dict[int, float]


def run(out: Path, progress: Progress) -> Report:
    return report(DEFAULT, out, progress)


def full(out: Path, progress: Progress) -> Report:
    return report(FULL, out, progress)


def report(cells: Sequence[TableCell], out: Path, progress: Progress) -> Report:
    _learning.need_torch()
    from deniable.federated.mcmahan import Digits

    data = Digits.of(load("mnist"))
    outcomes = {cell: outcome(cell, data, out) for cell in progress(cells, "Cells of the tables")}
    draw = partial(
        plots.by_round,
        {cell.name: result.scores for cell, result in outcomes.items()},
        title="Federated averaging on MNIST",
        path=out / "fedavg-tables.png",
    )
    rows = [
        (cell.name, cell.target, result.rate, cell.paper, result.rounds and round(result.rounds, 1))
        for cell, result in outcomes.items()
    ]
    columns = ("cell", "target", "learning rate", "paper's rounds", "our rounds")
    return Report("Rounds of federated averaging", columns, rows, draw, READING)


def outcome(cell: TableCell, data: Digits, out: Path) -> TrainingOutcome:
    """The best of the cell's rates; taken from the folder where it was computed before."""
    path = out / "fedavg-cells" / f"{key_of(cell)}.json"
    if path.exists():
        content = json.loads(path.read_text(encoding="utf-8"))
        return TrainingOutcome(
            content["rate"], content["rounds"], {int(k): v for k, v in content["scores"].items()}
        )
    trials = [(rate, played(cell, rate, data)) for rate in cell.rates]
    rate, best = min(
        trials,
        key=lambda pair: (pair[1].rounds_to(cell.target) or float("inf"), -max(pair[1].scores.values())),
    )
    result = TrainingOutcome(rate, best.rounds_to(cell.target), best.scores)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"cell": cell.name, "rate": rate, "rounds": result.rounds, "scores": best.scores}),
        encoding="utf-8",
    )
    return result


def key_of(cell: TableCell) -> str:
    return hashlib.sha256(repr(cell).encode()).hexdigest()[:16]


def played(cell: TableCell, rate: float, data: Digits) -> Simulated:
    from deniable.federated import mcmahan

    return mcmahan.played(
        cell.network,
        data.dealt(cell.split, CLIENTS),
        data.accuracy,
        share=cell.share,
        rounds=cell.most,
        local_epochs=cell.epochs,
        batch=cell.batch,
        learning_rate=rate,
        every=cell.every,
        target=cell.target,
    )
