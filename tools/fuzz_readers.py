"""Feed the readers of losses, units and certificates with texts that a fuzzer grows:
`make fuzz`, or with seconds as an argument.

A reader gives a value or one of our own errors; anything else is a finding, which the
fuzzer writes into a file and shows.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=["deniable.loss", "deniable.strict_json", "deniable.units", "deniable.guarantee"]
):
    from deniable.accounting import certify
    from deniable.errors import DeniableError
    from deniable.guarantee import Certificate
    from deniable.loss import GaussianNoise, Loss, Pure
    from deniable.units import Unit

READERS = (Loss.from_json, Unit.from_json, Certificate.from_json)


def one(content: bytes) -> None:
    text = content.decode("utf-8", "surrogateescape")
    for read in READERS:
        try:
            read(text)
        except DeniableError:
            continue


SEEDS = (
    (Pure(1) * 3 + GaussianNoise(2).sampled(0.1)).to_json(),
    Unit.column("patient", max_rows=3).to_json(),
    certify(Pure(1), Unit.row(), 1e-6).to_json(),
)
"""Honest texts to begin with."""


def main() -> None:
    seconds = sys.argv[1] if len(sys.argv) > 1 else "60"
    with tempfile.TemporaryDirectory() as corpus:
        for number, text in enumerate(SEEDS):
            (Path(corpus) / str(number)).write_text(text, encoding="utf-8")
        atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", "-max_len=4096", corpus], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
