"""Data, a ledger and SQL in one object.

curator = Curator.open("visits.parquet", unit=Unit.column("patient_id", max_rows=4), limit=Budget(3, 1e-6))
curator.preview("SELECT COUNT(*) FROM visits", epsilon=0.5)
answer = curator.sql("SELECT COUNT(*) FROM visits", epsilon=0.5)
"""

from deniable.curator.answer import Answer
from deniable.curator.curator import Curator
from deniable.curator.preview import Preview

__all__ = ["Answer", "Curator", "Preview"]
