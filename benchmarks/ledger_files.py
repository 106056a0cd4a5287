"""What it costs to look at the files of a ledger before and after each commit: charges with and without, in turn.

python benchmarks/ledger_files.py [folder]     time of a charge; prints the share of the looks
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

Times = tuple[float, float]


def take(account: Account) -> Times:
    """CPU seconds and elapsed seconds of one charge, over a batch."""
    start, begun = time.process_time(), time.perf_counter()
    for _ in range(BATCH):
        account.run(Nothing(), 0)
    return (time.process_time() - start) / BATCH, (time.perf_counter() - begun) / BATCH


def take_blindly(account: Account) -> Times:
    """The same charges by a store that looks at nothing."""
    with (
        patch.object(visible.Pinned, "check", lambda self: False),
        patch.object(Store, "check_visible", lambda self: None),
    ):
        return take(account)


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        ledger = Ledger.open(f"sqlite:///{Path(folder)}/privacy.db")
        account = ledger.create("visits", Unit.row(), limit=Budget(10))
        for _ in range(10):
            take(account)
        pairs = [(take(account), take_blindly(account)) for _ in range(PAIRS)]
        ledger.close()
    for place, words in enumerate(("of CPU time", "until it is durable")):
        looking = statistics.median(with_looks[place] for with_looks, _ in pairs)
        blind = statistics.median(without[place] for _, without in pairs)
        share = statistics.median(with_looks[place] / without[place] - 1 for with_looks, without in pairs)
        print(
            f"A charge: {blind * 1e6:.0f} µs {words} without looking, {looking * 1e6:.0f} µs with: {share:+.1%}."
        )


if __name__ == "__main__":
    main()
