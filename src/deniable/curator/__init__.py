"""Data, a ledger and SQL in one object.

curator = Curator.open("visits.parquet", unit=Unit.column("patient_id", max_rows=4), limit=Budget(3, 1e-6))
question = curator.ask("SELECT COUNT(*) FROM visits", epsilon=0.5)
question.preview()
answer = question.answer()  # or in short: curator.sql("SELECT COUNT(*) FROM visits", epsilon=0.5)
"""

from deniable.curator.answers.answer import Answer
from deniable.curator.curator import Curator
from deniable.curator.inquiry import Inquiry
from deniable.curator.preview import Preview
from deniable.curator.question import Question

__all__ = ["Answer", "Curator", "Inquiry", "Preview", "Question"]
