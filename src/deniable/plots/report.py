"""A finding as one HTML file that an auditor can hand in: verdict, figures, pictures,
assumptions, how to run it again."""

from __future__ import annotations

import base64
import hashlib
import html
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from deniable.audit.finding import Finding, Verdict
from deniable.audit.sniper.certificate import BY_COIN, COUPLED
from deniable.numbers import down
from deniable.plots import audit as pictures

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "h1{font-size:1.4rem}table{border-collapse:collapse}td,th{border-bottom:1px solid #ddd;padding:.3rem "
    ".8rem;text-align:left}.violation{color:#b00020}.consistent{color:#00695c}img{max-width:100%}"
    "pre{background:#f6f6f6;padding:1rem;overflow:auto;max-height:30rem}summary{cursor:pointer}"
)
METHODS = {
    BY_COIN: "an event was chosen on the first runs, and counted on others",
    COUPLED: (
        "an event was chosen on the first runs, and counted on others; both neighbours had the same seeds"
    ),
}
MEANS = {
    Verdict.VIOLATION: "The claim is false, but for the small chance that is stated below.",
    Verdict.VIOLATION_IF: "The claim is false, if what never changes in the output is not remembered.",
    Verdict.LOOK_AGAIN: "The claim is in doubt, but not refuted surely enough for an accusation: look again.",
    Verdict.CONSISTENT: "Nothing that was tried contradicts the claim. This is no proof that it holds.",
    Verdict.UNDERPOWERED: "Too little was run to say anything about the claim.",
    Verdict.NO_EVIDENCE: (
        "The outputs look alike on both neighbours: nothing is shown for or against the claim."
    ),
    Verdict.REPEATS: "Runs depend on one another, so that counting them certifies nothing.",
}


def report(finding: Finding, path: Path) -> Path:
    """Write the report. It holds its pictures itself and asks nothing of a network."""
    rows = "".join(
        f"<tr><th>{name}</th><td>{html.escape(value)}</td></tr>" for name, value in _figures(finding)
    )
    sentences = "".join(f"<li>{html.escape(line)}</li>" for line in _sentences(finding))
    title = f"Audit of {html.escape(finding.target)}"
    body = (
        '<!doctype html><html lang="en"><head><meta '
        f'charset="utf-8"><title>{title}</title><style>{STYLE}</style></head><body><h1>{title}: <span '
        f'class="{finding.verdict.value.split()[0]}">{finding.verdict.value}</span></h1>'
        f"<p>{MEANS[finding.verdict]}</p><table>{rows}</table>{_picture(finding)}<h2>What this rests "
        f"on</h2><ul>{sentences}</ul><h2>The finding</h2><p>Saved as JSON it is run again by <code>deniable "
        f"audit --replay FILE</code>.</p><details><summary>The finding as JSON</summary>"
        f"<pre>{html.escape(finding.to_json())}</pre></details></body></html>\n"
    )
    path.write_text(body, encoding="utf-8")
    return path


def _figures(finding: Finding) -> list[tuple[str, str]]:
    at = ""
    if finding.delta:
        at = f" at δ = {finding.delta:g}"
    figures = [
        ("claimed", str(finding.claim)),
        ("certified", f"ε ≥ {down(finding.epsilon)}{at}, with confidence {finding.confidence:.10g}"),
        ("estimate, not certified", f"{finding.estimate:.4g}"),
        ("smallest ε that could have been told from the claim", f"{finding.detectable:.4g}"),
        ("runs", f"{finding.samples:,}"),
        ("seconds", f"{finding.seconds:.1f}"),
        ("method", METHODS.get(finding.method, finding.method)),
        ("written", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, by deniable {version('deniable')}"),
    ]
    if finding.witness is not None:
        w = finding.witness
        figures.append(
            ("guesses", f"{w.right:,} right and {w.wrong:,} wrong in {w.trials:,}, pair: {w.pair}")
        )
    return [*figures, *_system((finding.options or {}).get("system", {}))]


def _system(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What was asked of a system that is not ours, and on which neighbours."""
    if options.get("command"):
        yield "command", options["command"]
    if options.get("url"):
        yield "address", f"{options['method'].upper()} {options['url']}"
        yield "looked at", options["path"] or "the whole answer"
    if options.get("sql"):
        yield "database", options["sql"]
        yield "query", options["query"]
    if options.get("rate"):
        yield "runs a second", f"at most {options['rate']:g}"
    for neighbour in options.get("data") or ():
        yield "neighbour", neighbour + _digest(Path(neighbour))


def _digest(file: Path) -> str:
    """The digest by which somebody else sees that it is the same file."""
    if not file.is_file():
        return ""
    return f" (SHA-256 {hashlib.sha256(file.read_bytes()).hexdigest()})"


def _sentences(finding: Finding) -> list[str]:
    return [
        *finding.reasons,
        *(f"It assumes {sentence}" for sentence in finding.assumes),
        *(f"It cannot see {sentence}" for sentence in finding.cannot_see),
    ]


def _picture(finding: Finding) -> str:
    if finding.witness is None or not finding.witness.counts:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        image = pictures.overview(finding, Path(folder) / "finding.png").read_bytes()
    return (
        '<p><img alt="guesses against the claim" '
        f'src="data:image/png;base64,{base64.b64encode(image).decode()}"></p>'
    )
