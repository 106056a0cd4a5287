"""What `deniable train` reaches with its defaults on tables of words and numbers, beside scikit-learn's logistic
regression without privacy.

    DENIABLE_DATA=folder python benchmarks/tables.py [TABLE …]

Only the named tables are measured; the lines of others stay as they are published.

Bounds are wide and round; words are those of the published files. Nothing was chosen by its result here. The
peer sees the same columns, numbers standardised and words one by one. Small tables are split 20 times.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from _report import PAGE, write_section
from deniable.datasets.real import FileTable, load
from deniable.guarantee import DEFAULT_DELTA, Budget
from deniable.learn.sgd.tables import AnyFeature, Feature, Table, WordFeature
from deniable.learn.table_training import StepOptions, TableMethod, TableTraining
from deniable.randomness import SecureRandom

EPSILONS = (3.0, 1.0)
SMALL, SPLITS, ROWS = 5_000, 20, 60_000
"""Of a larger table so many rows are learned from."""


@dataclass(frozen=True)
class Source:
    name: str
    target: str
    numbers: dict[str, tuple[float, float]]
    left_out: tuple[str, ...] = ()


SOURCES = (
    Source(
        "german-credit",
        "class",
        {
            "duration": (0, 120), "credit_amount": (0, 50_000), "installment_rate": (0, 10), "residence_since": (0, 10),
            "age": (18, 100), "existing_credits": (0, 10), "dependents": (0, 10),
        },
    ),
    Source(
        "adult",
        "income",
        {
            "age": (0, 120), "fnlwgt": (0, 2e6), "education_num": (1, 16), "capital_gain": (0, 99_999),
            "capital_loss": (0, 10_000), "hours_per_week": (0, 100),
        },
    ),
    Source(
        "diabetes-hospitals",
        "readmitted",
        {
            "time_in_hospital": (0, 14), "num_lab_procedures": (0, 200), "num_procedures": (0, 10),
            "num_medications": (0, 100), "number_outpatient": (0, 50), "number_emergency": (0, 100),
            "number_inpatient": (0, 50), "number_diagnoses": (0, 20),
        },
        ("encounter_id", "patient_nbr", "diag_1", "diag_2", "diag_3", "medical_specialty"),
    ),
    Source(
        "census-kdd",
        "income",
        {
            "age": (0, 120), "wage_per_hour": (0, 10_000), "capital_gains": (0, 100_000),
            "capital_losses": (0, 10_000), "dividends_from_stocks": (0, 100_000),
            "num_persons_worked_for_employer": (0, 10), "weeks_worked_in_year": (0, 52),
        },
        ("instance_weight",),
    ),
)  # fmt: skip


def cleaned(table: pa.Table, target: str) -> pa.Table:
    """The adult test part writes its classes with a point."""
    words = pa.array([str(value).strip(" .") for value in table[target].to_pylist()])
    return table.set_column(table.column_names.index(target), target, words)


def splits(source: Source) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Rows to learn from and rows to test on: the publisher's own parts, or random ones."""
    found = load(source.name)
    assert isinstance(found, FileTable)
    whole = cleaned(found.table, source.target)
    for seed in range(SPLITS if len(whole) < SMALL else 1):
        order = np.random.default_rng(seed).permutation(len(whole))
        if found.test is not None:
            yield whole.take(order[:ROWS]), cleaned(found.test, source.target)
        else:
            share = min(ROWS, round(0.7 * len(whole)))
            yield whole.take(order[:share]), whole.take(order[share:])


def declared(source: Source, table: pa.Table) -> Table:
    features: list[AnyFeature] = []
    for name in table.column_names:
        if name in source.numbers:
            features.append(Feature(name, *source.numbers[name]))
        elif name != source.target and name not in source.left_out:
            words = sorted({str(value).strip() for value in table[name].to_pylist()})
            features += [WordFeature(name, tuple(words))] if len(words) > 1 else []
    return Table(tuple(features), source.target, tuple(sorted(set(table[source.target].to_pylist()))))


def peer(table: Table, train: Path, test: Path) -> float:
    (x, y), (unseen, truth) = ([part.numpy() for part in table.read(path)] for path in (train, test))
    scaler = StandardScaler().fit(x[:, list(table.numbers)])
    for part in (x, unseen):
        part[:, list(table.numbers)] = scaler.transform(part[:, list(table.numbers)])
    return 100 * float(LogisticRegression(max_iter=300).fit(x, y).score(unseen, truth))


def ours(table: Table, train: Path, test: Path, n: int, epsilon: float) -> float:
    """As `deniable train` does it, without the ledger."""
    run = TableTraining.for_budget(
        TableMethod.LOGISTIC, table, n, StepOptions(), Budget(epsilon, DEFAULT_DELTA)
    )
    seen, model = run.build_model(run.mechanism(run.rows(train), rng=SecureRandom()))
    return 100 * seen.accuracy(model, test)


def measured(source: Source, folder: Path) -> str:
    without: list[float] = []
    found: dict[float, list[float]] = {epsilon: [] for epsilon in EPSILONS}
    train, test = folder / "train.parquet", folder / "test.parquet"
    for rows, unseen in splits(source):
        pyarrow.parquet.write_table(rows, train)
        pyarrow.parquet.write_table(unseen, test)
        table = declared(source, pa.concat_tables([rows, unseen]))
        without.append(peer(table, train, test))
        for epsilon in EPSILONS:
            found[epsilon].append(ours(table, train, test, len(rows), epsilon))
    cells = [f"{mean(each):.1f} ({mean(each) - mean(without):+.1f})" for each in found.values()]
    spread = f"± {stdev(found[1.0]):.1f}" if len(without) > 1 else "one split"
    kinds = f"{len(table.numbers)} numbers, {len(table.features) - len(table.numbers)} words"
    head = f"| {source.name} | {len(rows):,} | {kinds} | {mean(without):.1f} |"
    return f"{head} {' | '.join(cells)} | {spread} |"


def published(source: Source) -> str:
    page = PAGE.read_text(encoding="utf-8")
    return next(line for line in page.splitlines() if line.startswith(f"| {source.name} |"))


def main() -> None:
    lines = [
        "| table | rows | columns | scikit-learn | ε = 3 | ε = 1 | deviation |",
        "|---|---:|---|---:|---:|---:|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for source in SOURCES:
            wanted = not sys.argv[1:] or source.name in sys.argv[1:]
            lines.append(measured(source, Path(folder)) if wanted else published(source))
            print(lines[-1], flush=True)
    text = "\n\n".join(
        [
            "## Tables of words and numbers",
            f"`deniable train` with its defaults, δ = {DEFAULT_DELTA:g}: percent of the rows beside that are named "
            "rightly, and points from scikit-learn's logistic regression without privacy (`python "
            "benchmarks/tables.py`). Bounds are wide and round, such as 0 to 99,999 for a capital gain.",
            "\n".join(lines),
        ]
    )
    print(text)
    write_section("tables", text)


if __name__ == "__main__":
    main()
