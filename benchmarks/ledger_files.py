"""What it costs to look at the files of a ledger before and after each commit: charges with and without, in turn.

python benchmarks/ledger_files.py [folder]     CPU time of a charge; prints the share of the looks
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

from deniable.guarantee import Budget
from deniable.ledger import Account, Ledger
from deniable.ledger.store import Store, visible
from deniable.units import Unit
from ledger import Nothing

BATCH, PAIRS = 50, 60


def cpu(account: Account) -> float:
    """CPU seconds of one charge, over a batch."""
    start = time.process_time()
    for _ in range(BATCH):
        account.run(Nothing(), 0)
    return (time.process_time() - start) / BATCH


def without(account: Account) -> float:
    """The same charges by a store that looks at nothing."""
    with (
        patch.object(visible.Pinned, "check", lambda self: False),
        patch.object(Store, "check_visible", lambda self: None),
    ):
        return cpu(account)


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        ledger = Ledger.open(f"sqlite:///{Path(folder)}/privacy.db")
        account = ledger.create("visits", Unit.row(), limit=Budget(10))
        for _ in range(10):
            cpu(account)
        pairs = [(cpu(account), without(account)) for _ in range(PAIRS)]
        ledger.close()
    looking, blind = (statistics.median(times) for times in zip(*pairs, strict=True))
    share = statistics.median(a / b - 1 for a, b in pairs)
    print(
        f"A charge: {blind * 1e6:.0f} µs of CPU without looking, {looking * 1e6:.0f} µs with: {share:+.1%}."
    )


if __name__ == "__main__":
    main()
