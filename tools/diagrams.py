"""The walks of ARCHITECTURE.md as drawings: boxes in a row with arrows between them, for the documentation.

A walk is a list of steps, a step a title with a line below it; a step whose line begins with "✗" leads away from
the row: what is refused. The colours are those of the console's pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from deniable.plots.svg import document

WIDTH, HEIGHT, GAP, MARGIN, PER_ROW = 164, 66, 34, 12, 4

STYLE = (
    "<style>.box{fill:none;stroke:#0f6b63;stroke-width:1.4}.no{stroke:#a3231b}.arrow{stroke:#586473;fill:none}"
    ".head{fill:#586473}@media(prefers-color-scheme:dark){.box{stroke:#6fd0c3}.no{stroke:#ff9d94}}</style>"
)


class Step(NamedTuple):
    title: str
    lines: tuple[str, ...]
    refuses: str = ""


WALKS: dict[str, tuple[str, Sequence[Step]]] = {
    "walk-release": (
        "One release: the loss is checked against the limit, the charge written, the data opened, noise added.",
        (
            Step("Mechanism", ("loss, unit and error,", "known before any data")),
            Step("Account.run", ("does the loss fit", "under the limit?"), "no: refused, nothing run"),
            Step("Ledger", ("the charge, sealed", "and on disk")),
            Step("Data", ("opened now,", "not before")),
            Step("Noise", ("whole numbers from", "a cryptographic source")),
            Step("Release", ("value, ±, loss,", "entry of the ledger")),
        ),
    ),
    "walk-query": (
        "One query: SQL is read, planned and charged; one statement runs in the engine, noise is added here.",
        (
            Step("SQL text", ("read against the", "declared schema"), "not private: refused"),
            Step("Plan", ("what is measured,", "its noise and price")),
            Step("Ledger", ("charged before", "any row is read"), "over the limit: refused"),
            Step("Engine", ("one statement, every", "person bounded")),
            Step("Exact integers", ("never shown,", "copied or stored")),
            Step("Noise", ("added in this process", "on integers")),
            Step("Answer", ("a table with a ±", "for every cell")),
        ),
    ),
    "walk-training": (
        "One training run: a lot is drawn, each gradient is clipped, noise is added to the sum; then the next lot.",
        (
            Step("DPSGD", ("lots, clip, noise, steps:", "the loss of the run")),
            Step("Ledger", ("the whole run is", "charged first"), "over the limit: refused"),
            Step("Lot", ("each row drawn by", "a coin of its own")),
            Step("Clip", ("the gradient of each", "row, at most C long")),
            Step("Noise", ("on the sum of", "the clipped gradients")),
            Step("Step", ("any optimiser;", "then the next lot")),
            Step("Release", ("the trained weights", "and a certificate")),
        ),
    ),
    "walk-epsilon": (
        "One epsilon: the tree of losses goes to every method that has a theorem for it; a bound from both sides.",
        (
            Step("Loss tree", ("noise, samples,", "repetitions, parts")),
            Step("Methods", ("those with a theorem", "for this tree"), "no theorem: says so"),
            Step("Bound", ("lower ≤ true ε ≤ upper,", "rounded outward")),
            Step("Certificate", ("anybody computes it", "again: deniable verify")),
        ),
    ),
    "walk-audit": (
        "One audit: two neighbours, many runs, an attack chosen on one half and tested on the other.",
        (
            Step("Claim", ("a system that says", "its ε and δ")),
            Step("Neighbours", ("two made-up inputs,", "one person apart")),
            Step("Many runs", ("of both; do answers", "repeat?")),
            Step("Attack", ("chosen on one half", "of the runs")),
            Step("Test", ("on the other half,", "exact confidence")),
            Step("Finding", ("certified ε ≥ …, with", "a witness to replay")),
        ),
    ),
}
"""Each with what it shows in words."""


def walk(name: str) -> str:
    """The drawing `name` as a file of SVG."""
    label, steps = WALKS[name]
    rows = -(-len(steps) // PER_ROW)
    width = 2 * MARGIN + min(len(steps), PER_ROW) * (WIDTH + GAP) - GAP
    height = 2 * MARGIN + rows * (HEIGHT + 44) - 22
    body = "".join(_step(i, step) for i, step in enumerate(steps))
    arrows = "".join(_arrow(i) for i in range(len(steps) - 1))
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
    return document(f"{head}{STYLE}<title>{escape(label)}</title>{body}{arrows}</svg>")


def _place(i: int) -> tuple[float, float]:
    row, column = divmod(i, PER_ROW)
    return MARGIN + column * (WIDTH + GAP), MARGIN + row * (HEIGHT + 44)


def _step(i: int, step: Step) -> str:
    x, y = _place(i)
    middle = x + WIDTH / 2
    texts = [_text(middle, y + 21, step.title, "strong")]
    texts += [_text(middle, y + 39 + 16 * k, line, "line-of-text") for k, line in enumerate(step.lines)]
    if step.refuses:
        texts.append(_text(middle, y + HEIGHT + 16, f"✗ {step.refuses}", "warn"))
    box = f'<rect class="box" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
    return box + "".join(texts)


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="middle">{escape(words)}</text>'


def _arrow(i: int) -> str:
    """To the next box; at the end of a row down and back to the first of the next."""
    x, y = _place(i)
    to_x, to_y = _place(i + 1)
    if to_y == y:
        middle = y + HEIGHT / 2
        return _line([(x + WIDTH, middle), (to_x - 2, middle)])
    between = to_y - 14
    return _line(
        [
            (x + WIDTH / 2, y + HEIGHT),
            (x + WIDTH / 2, between),
            (to_x + WIDTH / 2, between),
            (to_x + WIDTH / 2, to_y - 2),
        ]
    )


def _line(points: Sequence[tuple[float, float]]) -> str:
    (x, y), (before_x, _) = points[-1], points[-2]
    path = " ".join(f"{a},{b}" for a, b in points)
    tip = (x - 7, y - 4, x - 7, y + 4) if before_x != x else (x - 4, y - 7, x + 4, y - 7)
    head = f'<polygon class="head" points="{x},{y} {tip[0]},{tip[1]} {tip[2]},{tip[3]}"/>'
    return f'<polyline class="arrow" points="{path}"/>{head}'
