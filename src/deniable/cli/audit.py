"""`deniable audit`: attack a mechanism and leave with an exit code. 0 consistent, 1 violation, 3 underpowered, 2 bad input."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from deniable.audit import Pair, replay
from deniable.audit import audit as attack
from deniable.audit.bench import CASES, case
from deniable.audit.finding import Finding
from deniable.audit.sgd import scores
from deniable.audit.target import load
from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import Json, Plot, parse_unit
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.mechanisms import Gaussian, Laplace
from deniable.plots import audit as plots

BENCH = "bench"


@door
def audit(
    target: Annotated[
        str | None,
        typer.Argument(help="laplace, gaussian, a case of the bench, bench, module:name, or a file of scores (.csv)."),
    ] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="The claimed ε.")] = None,
    delta: Annotated[float, typer.Option("--delta", help="The claimed δ.")] = 0.0,
    pairs: Annotated[
        Path | None, typer.Option("--pairs", metavar="FILE", help="JSON list of pairs: [[first, second], …].")
    ] = None,
    unit: Annotated[
        str | None, typer.Option("--unit", help="Check (or search) pairs for: row, client, value, column:NAME.")
    ] = None,
    seconds: Annotated[float, typer.Option("--time", help="About how many seconds to spend on one target.")] = 60.0,
    samples: Annotated[int | None, typer.Option("--samples", help="So many runs, instead of --time.")] = None,
    confidence: Annotated[float, typer.Option("--confidence", help="Confidence of what is certified.")] = 0.95,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Reproduces the audit (with --replay: a new draw).")
    ] = None,
    replay_file: Annotated[
        Path | None, typer.Option("--replay", metavar="FILE", help="Run the decisive part of a finding (JSON) again.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write the finding, for --replay.")
    ] = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Attack a mechanism from the outside and certify what was found.

    [bold]deniable audit laplace --epsilon 1[/]

    [bold]deniable audit my_module:my_mechanism --pairs pairs.json --epsilon .1[/]

    [bold]deniable audit bench --time 5[/]

    [bold]deniable audit --replay finding.json[/]
    """
    budget = None if epsilon is None else Budget(epsilon, delta)
    options = {"time": seconds, "samples": samples, "confidence": confidence}
    if replay_file is not None:
        found = _replay(replay_file, seed)
    elif target is None:
        raise InvalidParameter("Expected a target to audit, or --replay with the file of a finding.")
    elif target == BENCH:
        _bench(options | {"seed": seed or 0}, plot, json)
        return
    elif target.endswith(".csv"):
        found = _scores(Path(target), budget, confidence)
    else:
        found = _one(target, budget, pairs, unit, options | {"seed": seed or 0})
    if save is not None:
        save.write_text(found.to_json(), encoding="utf-8")
    _show(found, plot, json)
    raise typer.Exit(found.exit_code)


def _show(found: Finding, plot: Path | None, json: bool) -> None:
    if plot is not None:
        plots.roc(found, plot)
    if json:
        show.as_json({**_jsonable(found), "exit_code": found.exit_code})
    else:
        show.say(*str(found).split("\n"))
        if plot is not None:
            show.say(f"Picture: {plot}")


def _jsonable(found: Finding) -> dict[str, Any]:
    value = json.loads(found.to_json())
    return dict(value)


# ------------------------------------------------------------------------------------------------ targets


def _one(name: str, budget: Budget | None, pairs: Path | None, unit: str | None, options: dict[str, Any]) -> Finding:
    target, known, fixed = _resolve(name, budget)
    chosen = _read_pairs(pairs) if pairs is not None else known
    with _bar(name) as tell:
        found = attack(
            target,
            chosen,
            budget,
            unit=parse_unit(unit, replace=False) if unit else None,
            name=name,
            progress=tell,
            **options,
        )
    return _labelled(found, {"target": name} | fixed)


def _resolve(name: str, budget: Budget | None) -> tuple[Any, Any, dict[str, Any]]:
    """The target, its own pairs, and what is needed to build it again."""
    if name in ("laplace", "gaussian"):
        if budget is None:
            raise InvalidParameter(f'The target "{name}" is made for a budget: add --epsilon (and --delta).')
        size = {"epsilon": float(budget.epsilon), "delta": float(budget.delta)}
        if name == "laplace":
            return Laplace.for_budget(epsilon=budget.epsilon, sensitivity=1), (0, 1), size
        return Gaussian.for_budget(epsilon=budget.epsilon, delta=budget.delta, sensitivity=1), (0, 1), size
    if ":" in name:
        target = load(name)
        return target, target.pairs() if callable(getattr(target, "pairs", None)) else None, {}
    found = case(name)
    return found, found.pairs(), {}


def _labelled(found: Finding, options: dict[str, Any]) -> Finding:
    return replace(found, options=options)


def _read_pairs(path: Path) -> list[Pair]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return [Pair(_input(first), _input(second), f"pair {i + 1}") for i, (first, second) in enumerate(value)]
    except (ValueError, TypeError) as error:
        raise InvalidParameter(f"{path}: expected a JSON list of pairs, [[first, second], …]: {error}.") from None


def _input(value: Any) -> Any:
    numbers = isinstance(value, list) and value and all(isinstance(v, int | float) for v in value)
    return np.array(value, np.float64) if numbers else value


def _replay(path: Path, seed: int | None) -> Finding:
    found = Finding.from_json(path.read_text(encoding="utf-8"))
    options = dict(found.options or {})
    budget = Budget(options["epsilon"], options["delta"]) if "epsilon" in options else None
    target, _, _ = _resolve(str(options.get("target", found.target)), budget)
    return replay(found, target, seed=seed)


def _scores(path: Path, budget: Budget | None, confidence: float) -> Finding:
    """A file with the columns score and member (0 or 1)."""
    if budget is None:
        raise InvalidParameter("A file of scores claims nothing by itself: add --epsilon (and --delta).")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    try:
        values = np.array([float(row["score"]) for row in rows])
        member = np.array([int(row["member"]) == 1 for row in rows], np.bool_)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidParameter(f"{path}: expected the columns score and member (0 or 1): {error}.") from None
    return scores(values[member], values[~member], budget, confidence=confidence, name=path.name)


# ------------------------------------------------------------------------------------------------ the bench


def _bench(options: dict[str, Any], plot: Path | None, json: bool) -> None:
    """Every case of the bench; leaves with 1 if a broken one was missed or a sound one accused."""
    findings = []
    for i, target in enumerate(CASES):
        with _bar(f"{i + 1}/{len(CASES)} {target.name}") as tell:
            findings.append(attack(target, target.pairs(), progress=tell, **options))
    wrong = [c.name for c, f in zip(CASES, findings, strict=True) if c.broken != (f.exit_code == 1)]
    if plot is not None:
        plots.ladder(findings, plot)
    if json:
        show.as_json({"cases": [_line(f) for f in findings], "wrong": wrong})
    else:
        rows = [(f.target, *_figures(c.true_epsilon, f)) for c, f in zip(CASES, findings, strict=True)]
        show.table(("case", "claimed ε", "true ε", "certified ε ≥", "verdict"), rows, right=(1, 2, 3))
        show.say("", "Every verdict is right." if not wrong else f"Wrong verdicts: {', '.join(wrong)}.")
    raise typer.Exit(1 if wrong else 0)


def _figures(true: float, found: Finding) -> tuple[str, str, str, str]:
    verdict = f"{found.verdict}, support differs" if found.support_differs else str(found.verdict)
    return show.up(float(found.claim.epsilon)), show.up(true), show.down(found.epsilon), verdict


def _line(found: Finding) -> dict[str, Any]:
    keep = ("verdict", "target", "epsilon", "delta", "confidence", "detectable", "samples", "support_differs")
    return {k: v for k, v in _jsonable(found).items() if k in keep} | {"claimed": float(found.claim.epsilon)}


@contextmanager
def _bar(label: str) -> Iterator[Callable[[float, str], None]]:
    """A bar on stderr while an audit runs; nothing of it stays, and nothing is drawn into a pipe."""
    screen = Console(stderr=True)
    columns = (TextColumn("{task.fields[label]}"), BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("", total=1.0, label=label)
        yield lambda share, text: bar.update(task, completed=share, description=text)
