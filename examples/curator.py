"""Ordinary SQL about a private file, within a limit: python examples/curator.py"""

import tempfile
from pathlib import Path

import pyarrow.parquet as pq

import deniable as dp
from deniable.curator import Curator
from deniable.datasets.visits import visits

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "visits.parquet"
    pq.write_table(visits(20_000), path)  # your own file, in earnest

    with Curator.open(
        path,
        unit=dp.Unit.column("patient_id", max_rows=4),  # all visits of a patient are protected together
        limit=dp.Budget(epsilon=3, delta=1e-6),  # everything that ever leaves this file
        bounds={"days": (0, 60)},  # public knowledge, not read from the data
    ) as curator:
        question = "SELECT ward, COUNT(*) AS visits, AVG(days) AS days FROM visits GROUP BY ward"
        print(curator.preview(question, epsilon=1), "\n")

        answer = curator.sql(question, epsilon=1)
        print(answer, "\n")
        print(answer.to_pandas(), "\n")

        try:
            curator.sql("SELECT COUNT(*) AS visits FROM visits", epsilon=2.5)
        except dp.BudgetExceeded as refusal:
            print(refusal)
