"""Pictures as SVG text, for pages that load nothing: the console's charts, and pictures of the docs.

Every mark has a class and no style of its own, so that a page colours it, light or dark, and no style
attribute stands in the way of a strict Content-Security-Policy. `document` adds the colours and makes a file.
Whatever comes from outside is escaped; what a picture shows is said once more in its label.

>>> bars(["flu"], [12.0], [9.0], [15.0], name="n", label="n by diagnosis").startswith("<svg")
True
>>> "<script>" in bars(["<script>"], [1.0], [0.0], [2.0], name="n", label="<b>")
False
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple, TypeGuard

Cells = Sequence[float | None]

WIDTH = 560
LONGEST = 20
"""Characters of a label that fit beside a bar."""

COLOURS = """
svg{font:13px system-ui,sans-serif;background:#fff}
text{fill:#586473}.strong{fill:#16202b;font-weight:600}.grid{stroke:#e6e8ee}.axis{stroke:#aeb5c0}
.mark{fill:#9fcdc6}.soft{fill:#9fcdc6;opacity:.55}.line,.error{stroke:#0f6b63;fill:none}.dot{fill:#0f6b63}
.track{fill:#e6e8ee}.limit{stroke:#a3231b;stroke-dasharray:5 4}.warn{fill:#a3231b}.heat{fill:#0f6b63}
@media(prefers-color-scheme:dark){svg{background:#171d23}text{fill:#a3adba}.strong{fill:#eef1f5}
.grid{stroke:#2a313b}.axis{stroke:#4b5563}.mark{fill:#2c6b63}.soft{fill:#2c6b63}.line,.error{stroke:#6fd0c3}
.dot{fill:#6fd0c3}.track{fill:#2a313b}.limit{stroke:#ff9d94}.warn{fill:#ff9d94}.heat{fill:#6fd0c3}}
"""


def document(picture: str) -> str:
    """A picture as a file of its own, with its colours."""
    head, tail = picture.split(">", 1)
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{COLOURS}</style>{tail}'


# ----------------------------------------------------------------------------------------------- words of SVG


def _picture(width: float, height: float, label: str, parts: Iterable[str]) -> str:
    caption = escape(label, quote=True)
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{caption}">{"".join(parts)}</svg>'


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _box(kind: str, x: float, y: float, width: float, height: float, extra: str = "") -> str:
    size = f'width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" {size} rx="2.5"{extra}/>'


def _text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    attribute = ""
    if kind:
        attribute = f' class="{kind}"'
    return f'<text{attribute} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _add_title(mark: str, words: str) -> str:
    """A mark that says more when it is pointed at."""
    return f"<g>{mark}<title>{escape(words)}</title></g>"


def _path(kind: str, points: Iterable[tuple[float, float]], close: bool = False) -> str:
    steps = " ".join(f"{'ML'[i > 0]}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
    if not steps:
        return ""
    if close:
        steps += " Z"
    return f'<path class="{kind}" d="{steps}"/>'


def _anchor(x: float, first: float, last: float) -> str:
    """How words stand at a place, so that at the first and the last one they stay inside the picture."""
    if x <= first:
        return "start"
    if x >= last:
        return "end"
    return "middle"


def _rules(
    left: float, right: float, height_of: Callable[[float], float], levels: Iterable[float]
) -> list[str]:
    """Lines across a picture, each with its number before it."""
    marks = []
    for tick in levels:
        marks.append(_line("grid", left, height_of(tick), right, height_of(tick)))
        marks.append(_text(left - 8, height_of(tick) + 4, axis_text(tick), "end"))
    return marks


def _cut(words: str) -> str:
    if len(words) <= LONGEST:
        return words
    return words[: LONGEST - 1] + "…"


def _room(labels: Sequence[str]) -> float:
    """The width of the longest label, in letters as large as a phone shows them."""
    return max((len(_cut(words)) for words in labels), default=4) * 10.5 + 16


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers within [low, high].

    >>> ticks(0, 1234)
    [0.0, 500.0, 1000.0]
    """
    if not (math.isfinite(low) and math.isfinite(high) and high > low):
        if math.isfinite(low):
            return [low]
        return [0.0]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, math.floor(high / step + 1e-9) + 1)]


def axis_text(x: float) -> str:
    """A number for an axis.

    >>> axis_text(1500.0), axis_text(0.25), axis_text(2_000_000.0)
    ('1,500', '0.25', '2,000,000')
    """
    if float(x).is_integer() and abs(x) < 1e12:
        return f"{x:,.0f}"
    return f"{x:.4g}"


def _finite(*sides: Cells) -> list[float]:
    return [float(x) for side in sides for x in side if x is not None and math.isfinite(x)]


def _span(values: Cells, low: Cells, high: Cells) -> tuple[float, float]:
    """What an axis must show: every bar from 0, and every interval that ends."""
    ends = [0.0, *_finite(values, low, high)]
    least, most = min(ends), max(ends)
    if most > least:
        return (least, most * 1.04 + (most == least))
    return (least, least + 1)


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "no value"
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return axis_text(value)
    return f"{value:,.6g}, between {low:,.6g} and {high:,.6g}"


# ------------------------------------------------------------------------------------------------ answers


def bars(labels: Sequence[str], values: Cells, low: Cells, high: Cells, *, name: str, label: str) -> str:
    """A bar to the right for each label, with its interval. An interval without an end is left out and the
    bar drawn soft."""
    step, top = 30, 34
    room = _room(labels)
    least, most = _span(values, low, high)

    def place(x: float) -> float:
        return room + (x - least) / (most - least) * (WIDTH - room - 14)

    bottom = top + step * len(labels)
    parts = [_text(room, 16, name, kind="strong")]
    for tick in ticks(least, most, 4):
        parts += [
            _line("grid", place(tick), top - 6, place(tick), bottom),
            _text(place(tick), bottom + 18, axis_text(tick), "middle"),
        ]
    for i, words in enumerate(labels):
        middle = top + step * i + step / 2
        parts.append(_text(room - 10, middle + 4, _cut(words), "end"))
        value = values[i]
        if value is not None and math.isfinite(value):
            mark = _bar(place, middle, value, low[i], high[i])
            parts.append(_add_title(mark, f"{words}: {_interval(value, low[i], high[i])}"))
    parts.append(_line("axis", place(0), top - 6, place(0), bottom))
    return _picture(WIDTH, bottom + 26, label, parts)


def _bar(
    place: Callable[[float], float], middle: float, value: float, low: float | None, high: float | None
) -> str:
    left, right = sorted((place(0), place(value)))
    if not _is_finite(low) or not _is_finite(high):
        return _box("soft", left, middle - 9, right - left, 18)
    mark = _box("mark", left, middle - 9, right - left, 18)
    ends = "".join(_line("error", place(x), middle - 5, place(x), middle + 5) for x in (low, high))
    return mark + _line("error", place(low), middle, place(high), middle) + ends


def _is_finite(x: float | None) -> TypeGuard[float]:
    return x is not None and math.isfinite(x)


def lines(
    places: Sequence[float], labels: Sequence[str], values: Cells, low: Cells, high: Cells, *, name: str,
    label: str,
) -> str:  # fmt: skip
    """A line through values in their order, with a band for the intervals: for dates and other numbers."""
    left, right, top, bottom = 70.0, WIDTH - 14.0, 34.0, 230.0
    least, most = _span(values, low, high)
    first, last = min(places, default=0.0), max(places, default=1.0)
    width = (last - first) or 1.0
    across = [left + (x - first) / width * (right - left) for x in places]

    def height_of(y: float) -> float:
        return bottom - (y - least) / (most - least) * (bottom - top)

    parts = [_text(left, 16, name, kind="strong"), *_rules(left, right, height_of, ticks(least, most))]
    intervals = [
        (x, height_of(a), height_of(b))
        for x, a, b in zip(across, low, high, strict=True)
        if _is_finite(a) and _is_finite(b)
    ]
    band = [(x, b) for x, _, b in intervals] + [(x, a) for x, a, _ in reversed(intervals)]
    points, dots = [], []
    for x, words, value, lower, upper in zip(across, labels, values, low, high, strict=True):
        if value is not None:
            y = height_of(float(value))
            dot = f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
            points.append((x, y))
            dots.append(_add_title(dot, f"{words}: {_interval(value, lower, upper)}"))
    parts += [_path("soft", band, close=True), _path("line", points), *dots]
    for i in _spread(len(labels), 4):
        parts.append(_text(across[i], bottom + 20, _cut(labels[i]), _anchor(i, 0, len(labels) - 1)))
    parts.append(_line("axis", left, height_of(0), right, height_of(0)))
    return _picture(WIDTH, bottom + 30, label, parts)


def _spread(count: int, limit: int) -> list[int]:
    """At most so many of the numbers below `count`, evenly, first and last among them."""
    if count <= limit:
        return list(range(count))
    return sorted({round(i * (count - 1) / (limit - 1)) for i in range(limit)})


def heat(
    rows: Sequence[str], columns: Sequence[str], cells: Mapping[tuple[int, int], tuple[float, str]], *,
    name: str, label: str,
) -> str:  # fmt: skip
    """A field for each pair of keys: the larger the number, the stronger. `cells` holds the number and what
    is told of it."""
    room = _room(rows)
    width = (WIDTH - room - 8) / max(len(columns), 1)
    height, top = 34, 52
    sizes = [abs(value) for value, _ in cells.values() if math.isfinite(value)]
    most = max(sizes, default=1.0) or 1.0
    parts = [_text(room, 16, name, kind="strong")]
    parts += [
        _text(room + width * (j + 0.5), 40, _fitting(words, width), "middle")
        for j, words in enumerate(columns)
    ]
    for i, words in enumerate(rows):
        y = top + height * i
        parts.append(_text(room - 10, y + height / 2 + 4, _cut(words), "end"))
        for j, column in enumerate(columns):
            if (i, j) in cells:
                value, caption = cells[i, j]
                weight = 0.0
                if math.isfinite(value):
                    weight = 0.06 + 0.44 * abs(value) / most
                x = room + width * j
                field = _box("track", x + 1, y + 1, width - 2, height - 2)
                field += _box("heat", x + 1, y + 1, width - 2, height - 2, f' fill-opacity="{weight:.2f}"')
                field += _text(
                    x + width / 2, y + height / 2 + 4, _fitting(caption, width), "middle", "strong"
                )
                parts.append(_add_title(field, f"{words}, {column}: {caption}"))
    return _picture(WIDTH, top + height * len(rows) + 8, label, parts)


def _fitting(words: str, width: float) -> str:
    most = max(int(width / 8), 3)
    if len(words) <= most:
        return words
    number = words.split(" ", 1)[0]
    if len(number) <= most:
        return number
    return words[: most - 1] + "…"


# ------------------------------------------------------------------------------------------------ budgets


def dial(share: float, *, middle: str, caption: str, label: str) -> str:
    """Half a ring that fills up: how much of a limit is used."""
    part = min(max(share, 0.0), 1.0)
    length = math.pi * 80
    arc = "M20 96A80 80 0 0 1 180 96"
    full = f'<path class="ring" d="{arc}"/>'
    stroke = f'<path class="ring used" d="{arc}" stroke-dasharray="{part * length:.1f} {2 * length:.0f}"/>'
    words = _text(100, 78, middle, "middle", "strong big") + _text(100, 98, caption, "middle")
    return _picture(200, 106, label, [full, stroke * (part > 0), words])


def meter(share: float, *, label: str) -> str:
    """A bar that fills up."""
    part = min(max(share, 0.0), 1.0)
    kind = ("dot", "warn")[part >= 0.999]
    bar = _box(kind, 0, 0, 240 * part, 8)
    return _picture(240, 8, label, [_box("track", 0, 0, 240, 8), bar * (part > 0)])


def steps(
    times: Sequence[float], levels: Sequence[float], labels: Sequence[str], *, limit: float, name: str,
    label: str,
) -> str:  # fmt: skip
    """What was spent by when, as steps below a limit."""
    left, right, top, bottom = 46.0, WIDTH - 16.0, 34.0, 190.0
    most = max([limit, *levels, 1e-12]) * 1.06
    first, last = min(times, default=0.0), max(times, default=1.0)
    width = (last - first) or 1.0

    def place_time(time: float) -> float:
        return left + (time - first) / width * (right - left)

    def height_of(level: float) -> float:
        return bottom - level / most * (bottom - top)

    parts = [_text(left, 16, name, kind="strong"), *_rules(left, right, height_of, ticks(0, most, 4))]
    parts += [
        _line("limit", left, height_of(limit), right, height_of(limit)),
        _text(right, height_of(limit) - 6, "limit", "end", "warn"),
    ]
    points, before = [(left, height_of(0.0))], 0.0
    for time, level in zip(times, levels, strict=True):
        points += [(place_time(time), height_of(before)), (place_time(time), height_of(level))]
        before = level
    points.append((right, height_of(before)))
    parts += [_path("soft", [*points, (right, bottom), (left, bottom)], close=True), _path("line", points)]
    for i in _spread(len(labels), 2):
        parts.append(_text(place_time(times[i]), bottom + 20, labels[i], _anchor(i, 0, 1)))
    return _picture(WIDTH, bottom + 30, label, parts)


# ------------------------------------------------------------------------------------------------ guarantees


class Reached(NamedTuple):
    """What an attack reached by one threshold: shares of false and true positives, each with an interval."""

    x: float
    x_low: float
    x_high: float
    y: float
    y_low: float
    y_high: float


def region(
    power: Callable[[float], float],
    points: Sequence[Reached],
    *,
    bound: str,
    label: str,
) -> str:
    """False against true positives: the region that a guarantee allows, and what an attack reached.

    `power` is the largest share of true positives for a share of false ones.
    """
    left, top, side = 46.0, 14.0, 280.0
    bottom = top + side

    def place_point(x: float, y: float) -> tuple[float, float]:
        return left + x * side, bottom - y * side

    rates = sorted({0.0, *(i / 100 for i in range(101)), *(10 ** (-k / 4) for k in range(1, 17))})
    upper = [place_point(x, power(x)) for x in rates]
    lower = [place_point(1 - x, 1 - power(x)) for x in rates]
    parts = [_path("soft", [*upper, *lower], close=True)]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts += [
            _line("grid", *place_point(0, tick), *place_point(1, tick)),
            _line("grid", *place_point(tick, 0), *place_point(tick, 1)),
            _text(left - 8, place_point(0, tick)[1] + 4, f"{tick:g}", "end"),
            _text(place_point(tick, 0)[0], bottom + 18, f"{tick:g}", "middle"),
        ]
    parts += [_path("line", upper), _line("axis", *place_point(0, 0), *place_point(1, 1))]
    for x, x_low, x_high, y, y_low, y_high in points:
        parts += [
            _line("error", *place_point(x_low, y), *place_point(x_high, y)),
            _line("error", *place_point(x, y_low), *place_point(x, y_high)),
        ]
        px, py = place_point(x, y)
        parts.append(f'<circle class="dot" cx="{px:.1f}" cy="{py:.1f}" r="2.6"/>')
    parts += [
        _text(left + side / 2, bottom + 36, "false alarms", "middle"),
        _text(left + side - 8, bottom - 10, bound, "end", "strong"),
    ]
    return _picture(left + side + 14, bottom + 44, label, parts)


def belief(prior: float, low: float, high: float, *, label: str) -> str:
    """A belief before an answer, and where it may end after it, from 0 to 100 %."""
    left, right = 14.0, WIDTH - 14.0

    def place_share(x: float) -> float:
        return left + x * (right - left)

    parts = [
        _box("track", left, 44, right - left, 16),
        _box("mark", place_share(low), 44, place_share(high) - place_share(low), 16),
        _line("error", place_share(prior), 34, place_share(prior), 70),
        _text(place_share(prior), 26, "before", _anchor(prior, 0.06, 0.94), "strong"),
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(_text(place_share(tick), 88, f"{100 * tick:g} %", _anchor(tick, 0, 1)))
    return _picture(WIDTH, 96, label, parts)
