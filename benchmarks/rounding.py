"""How far the part of the other rows moves in a sum of clipped gradients when one row is taken away.

    python benchmarks/rounding.py [--rows 8] [--seeds 1]

In real numbers S(X) = S(X∖x) + S(x). In floating point the last bits of a row's activations may depend on how many rows
go through the model with it, and a maximum that is nearly a tie may then go to the other side. Printed is the largest
‖S(X) − S(X∖x) − S(x)‖ over the clip, for rows that are all clipped: with passes as large as the lot that was drawn, in
blocks of public size (what `DPSGD` does), and each row alone. Measured, not proved; `Privacy(grid=True)` has none of it.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import dpsgd
from _report import write_section
from deniable.learn.clip import PerExample

CLIP = 1e-2
KINDS: dict[str, dict[str, Any]] = {
    "as drawn": {},
    "public blocks": {"lot": True},
    "rows alone": {"lot": True, "microbatch": 1},
}
Sum = Callable[[list[int]], Tensor]


def summed(model: dpsgd.Model, rows: int, seed: int, settings: dict[str, Any]) -> Sum:
    """The sum of clipped gradients of some of a model's rows, as one vector."""
    torch.manual_seed(seed)
    network = model.build().eval()
    shape = (rows, *model.shape)
    x = torch.randint(0, dpsgd.WORDS, shape) if model.words else torch.randn(shape)
    y = torch.randint(0, dpsgd.WORDS, shape) if model.by_place else torch.randint(0, 10, (rows,))
    first = PerExample(network, nn.CrossEntropyLoss())
    first.check(x[:2], y[:2])
    options = {**settings, "lot": rows} if "lot" in settings else settings
    clipper = PerExample(network, nn.CrossEntropyLoss(), ways=first.ways, **options)

    def of(places: list[int]) -> Tensor:
        vectors = clipper(x[places], y[places], clip=CLIP).vectors.values()
        return torch.cat([vector.double() for vector in vectors])

    return of


def moved(of: Sum, rows: int, picks: list[int]) -> float:
    """Over the clip, for the row whose going moves the most."""
    everything = list(range(rows))
    whole = of(everything)
    return max(
        float((whole - of([i for i in everything if i != pick]) - of([pick])).norm()) / CLIP for pick in picks
    )


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    lines = [f"| model | {' | '.join(KINDS)} |", "|---|" + "---:|" * len(KINDS)]
    for model in dpsgd.MODELS:
        if given.only not in model.name or "1024" in model.name:
            continue
        worst = dict.fromkeys(KINDS, 0.0)
        for seed in range(given.seeds):
            for kind, settings in KINDS.items():
                of = summed(model, given.rows, seed, settings)
                worst[kind] = max(worst[kind], moved(of, given.rows, [0, given.rows - 1]))
        cells = " | ".join(f"{value:.0e}" for value in worst.values())
        lines.append(f"| {model.name.split(',')[0]} | {cells} |")
        print(lines[-1], flush=True)
    text = "\n\n".join(
        [
            "## How far other rows' part moves",
            "‖S(X) − S(X∖x) − S(x)‖ over the clip: how far the sum of the other rows' clipped gradients moves "
            f"when one of {given.rows} rows is taken away (the first or the last; seeds: {given.seeds}; "
            "models at fresh weights, without dropout, all rows clipped; `python benchmarks/rounding.py`). "
            "Measured, not proved.",
            "\n".join(lines),
        ]
    )
    if not given.only:
        write_section("rounding", text)


if __name__ == "__main__":
    main()
