"""`deniable audit`: attack a mechanism and leave with an exit code.

0 consistent, 1 violation, 2 bad input, 3 underpowered, 4 no evidence, 5 answers repeat.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from deniable import numbers
from deniable.audit import Finding, replay
from deniable.audit import audit as attack
from deniable.audit.bench import CASES, NULLS
from deniable.audit.system import plan
from deniable.audit.system_options import SystemOptions
from deniable.audit.target_options import (
    AuditTarget,
    again,
    failing,
    from_scores,
    is_query,
    is_scores,
    named,
    query_target,
    read_pairs,
)
from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import Json, Plot
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
from deniable.plots import FORMATS
from deniable.plots import audit as plots
from deniable.plots.report import report as write_report
from deniable.units import Unit

BENCH = "bench"


class OneRun(StrEnum):
    """What is assumed of a single run."""

    FREE = "distribution-free"
    GAUSSIAN = "gaussian"
    INDEPENDENT = "independent"


Claimed: TypeAlias = Annotated[float | None, typer.Option("--epsilon", help="The claimed ε.")]
Slack: TypeAlias = Annotated[float, typer.Option("--delta", help="The claimed δ.")]
Pairs: TypeAlias = Annotated[
    Path | None, typer.Option("--pairs", metavar="FILE", help=r"JSON list of pairs: \[\[first, second], …].")
]
Protects: TypeAlias = Annotated[
    str | None,
    typer.Option("--unit", help="Check (or search) pairs for: row, client, value, column:NAME[:ROWS]."),
]
Tables: TypeAlias = Annotated[
    tuple[Path, Path] | None,
    typer.Option("--tables", metavar="FIRST SECOND", help="For a query: two tables that differ by one unit."),
]
Name: TypeAlias = Annotated[
    str | None, typer.Option("--name", help="What the query calls them, if not the first's name.")
]
SchemaFile: TypeAlias = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="For a query: types, bounds and keys.")
]
Bounds: TypeAlias = Annotated[
    list[str] | None, typer.Option("--bounds", metavar="COLUMN=LOW:HIGH", help="Bounds of a column; repeat.")
]
Keys: TypeAlias = Annotated[
    list[str] | None, typer.Option("--keys", metavar="COLUMN=A,B,…", help="Public group keys; repeat.")
]
Single: TypeAlias = Annotated[
    OneRun | None,
    typer.Option(
        "--one-run", help="Scores are those of the canaries of a single run; what is assumed of it."
    ),
]
Seconds: TypeAlias = Annotated[
    float, typer.Option("--time", help="About how many seconds to spend on one target.")
]
Samples: TypeAlias = Annotated[int | None, typer.Option("--samples", help="So many runs, instead of --time.")]
Confidence: TypeAlias = Annotated[
    float, typer.Option("--confidence", help="Confidence of what is certified.")
]
Seed: TypeAlias = Annotated[
    int | None, typer.Option("--seed", help="Reproduces the audit (with --replay: a new draw).")
]
Replay: TypeAlias = Annotated[
    Path | None,
    typer.Option("--replay", metavar="FILE", help="Run the decisive part of a finding (JSON) again."),
]
Save: TypeAlias = Annotated[
    Path | None, typer.Option("--save", metavar="FILE", help="Write the finding, for --replay.")
]
Program: TypeAlias = Annotated[
    str | None,
    typer.Option("--command", metavar="LINE", help="A program to audit; {data} is a neighbour's name."),
]
Address: TypeAlias = Annotated[
    str | None,
    typer.Option("--url", help="An address to audit that answers in JSON; {data} is a neighbour's name."),
]
Database: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--sql", metavar="DSN", help="A database to audit: the target is a query, {data} a table or schema."
    ),
]
Neighbours: TypeAlias = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--data", metavar="FIRST SECOND", help="Two made-up neighbours for {data}: files, tables or schemas."
    ),
]
Method: TypeAlias = Annotated[
    str, typer.Option("--method", help="For --url: GET, or POST to send the neighbour's file.")
]
JsonPath: TypeAlias = Annotated[
    str, typer.Option("--json-path", help="For --url: what to look at, like result.rows.0.")
]
Rate: TypeAlias = Annotated[float | None, typer.Option("--rate", help="At most so many runs a second.")]
Resume: TypeAlias = Annotated[
    Path | None,
    typer.Option("--resume", metavar="FILE", help="Keep every run in FILE, and go on from what it holds."),
]
OnlyPlan: TypeAlias = Annotated[
    bool, typer.Option("--plan", help="Say how many runs the claim needs, and stop.")
]
Report: TypeAlias = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Write an HTML report with pictures, to hand in."),
]
What: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        help=(
            "laplace, gaussian, a case of the bench, bench, module:name, a file of scores (.csv, .parquet), "
            "or a query."
        )
    ),
]


@door
def audit(
    target: What = None,
    epsilon: Claimed = None,
    delta: Slack = 0.0,
    pairs: Pairs = None,
    unit: Protects = None,
    tables: Tables = None,
    name: Name = None,
    schema: SchemaFile = None,
    bounds: Bounds = None,
    keys: Keys = None,
    family: Single = None,
    command: Program = None,
    url: Address = None,
    sql: Database = None,
    data: Neighbours = None,
    method: Method = "GET",
    json_path: JsonPath = "",
    rate: Rate = None,
    resume: Resume = None,
    only_plan: OnlyPlan = False,
    seconds: Seconds = 60.0,
    samples: Samples = None,
    confidence: Confidence = 0.95,
    seed: Seed = None,
    replay_file: Replay = None,
    save: Save = None,
    report: Report = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Attack a mechanism from the outside and certify what was found.

    [bold]deniable audit laplace --epsilon 1[/]

    [bold]deniable audit my_module:my_mechanism --pairs pairs.json --epsilon .1[/]

    [bold]deniable audit "SELECT COUNT(*) FROM t" --tables a.csv b.csv --name t --unit column:person:2
    --epsilon 1[/]

    [bold]deniable audit scores.csv --epsilon 1[/]

    [bold]deniable audit --command './count.sh {data}' --data with.csv without.csv --epsilon 1[/]

    [bold]deniable audit bench --time 5[/]

    [bold]deniable audit --replay finding.json[/]
    """
    budget = None
    if epsilon is not None:
        budget = Budget(epsilon, delta)
    of_queries = {"--tables": tables, "--name": name, "--schema": schema, "--bounds": bounds, "--keys": keys}
    asks = SystemOptions(command, url, sql, target, data, method, json_path, rate, resume)
    _sensible(
        None if asks.given else target, samples, seconds, family, pairs, of_queries, (plot, save, report)
    )
    if only_plan:
        _show_plan(budget, confidence, json)
        return
    options = {"time": seconds, "samples": samples, "confidence": confidence}
    if replay_file is not None:
        finding = _replay(replay_file, seed)
    elif asks.given:
        with _bar(asks.name) as tell:
            finding = asks.attack(budget, options | {"seed": seed or 0, "progress": tell}, _tell_resumed)
    elif target is None:
        raise InvalidParameter("Expected a target to audit, or --replay with the file of a finding.")
    elif target == BENCH:
        _bench(options | {"seed": seed or 0}, plot, json)
        return
    elif is_scores(target):
        finding = from_scores(
            Path(target), budget, confidence, seed, None if family is None else family.value
        )
    elif is_query(target):
        query = query_target(target, epsilon, delta, tables, unit, name, schema, bounds, keys)
        finding = _attacked(query, query.of.name, None, None, options | {"seed": seed or 0})
    else:
        finding = _attacked(named(target, budget), target, pairs, unit, options | {"seed": seed or 0})
    if save is not None:
        save.write_text(finding.to_json(), encoding="utf-8")
    if report is not None:
        write_report(finding, report)
    _show(finding, plot, json)
    if not json:
        show.say(
            *(f"{what}: {file}" for what, file in (("Finding", save), ("Report", report)) if file is not None)
        )
    raise typer.Exit(finding.exit_code)


def _tell_resumed(runs: int) -> None:
    Console(stderr=True).print(f"{runs:,} runs are kept from before; they are not made again.")


def _sensible(
    target: str | None,
    samples: int | None,
    seconds: float,
    family: OneRun | None,
    pairs: Path | None,
    of_queries: Mapping[str, Any],
    files: tuple[Path | None, ...],
) -> None:
    """Refuse what would be passed over in silence, or fail only when the audit is done."""
    for file in files:
        if file is not None and not file.parent.is_dir():
            raise InvalidParameter(f"{file}: there is no folder {file.parent}. Nothing was run.")
    if files[0] is not None and files[0].suffix not in FORMATS:
        raise InvalidParameter(f"Expected --plot {files[0]} to end in {', '.join(FORMATS)}. Nothing was run.")
    if not seconds > 0 or (samples is not None and samples < 1):
        raise InvalidParameter(
            f"Expected --time {seconds:g} above 0, and --samples of at least 1. Nothing was run."
        )
    scores, query = target is not None and is_scores(target), target is not None and is_query(target)
    if family is not None and not scores:
        raise InvalidParameter("--one-run is about a file of scores (.csv, .parquet). Nothing was run.")
    if pairs is not None and (target is None or scores or query or target == BENCH):
        raise InvalidParameter(
            "--pairs is about a mechanism or a callable: here the pair is given. Nothing was run."
        )
    unused = [option for option, value in of_queries.items() if value]
    if unused and not query:
        raise InvalidParameter(
            f'{unused[0]} is about a query, like "SELECT COUNT(*) FROM t". Nothing was run.'
        )


def _show(found: Finding, plot: Path | None, json: bool) -> None:
    if plot is not None:
        plots.overview(found, plot)
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


def _attacked(
    target: AuditTarget, name: str, pairs: Path | None, unit: str | None, options: dict[str, Any]
) -> Finding:
    neighbours = read_pairs(pairs) if pairs is not None else target.pairs
    privacy_unit = None
    if unit:
        privacy_unit = Unit.parse(unit)
    with _bar(name) as tell, failing(name):
        finding = attack(
            target.of, neighbours, target.claim, unit=privacy_unit, name=name, progress=tell, **options
        )
    return replace(finding, options={**(finding.options or {}), **target.options})


def _replay(path: Path, seed: int | None) -> Finding:
    finding = Finding.from_json(path.read_text(encoding="utf-8"))
    options = dict(finding.options or {})
    if finding.method == "scores" or finding.method.startswith("one run"):
        if "target" not in options:
            raise InvalidParameter(f'The finding on "{finding.target}" does not name the file of its scores.')
        replay_seed = options.get("seed", 0) if seed is None else seed
        return from_scores(
            Path(options["target"]), finding.claim, finding.confidence, replay_seed, options.get("family")
        )
    if "system" in options:
        return replace(
            replay(finding, SystemOptions(**options["system"]).target(), seed=seed), options=options
        )
    with failing(finding.target):
        return replay(finding, again(options, finding.target).of, seed=seed)


def _show_plan(claim: Budget | None, confidence: float, json: bool) -> None:
    """How many runs could tell which true ε from the claim."""
    if claim is None:
        raise InvalidParameter("A plan is made for a claim: add --epsilon (and --delta). Nothing was run.")
    rows = plan(claim, confidence)
    if json:
        show.as_json({"plan": [{"epsilon": epsilon, "runs": runs} for epsilon, runs in rows]})
        return
    show.say(
        f"Runs that could tell a true ε from the claimed {claim}, at confidence {confidence:g}, on the "
        "easiest target:",
        "",
    )
    show.table(("true ε", "runs"), [(f"{epsilon:.4g}", f"{runs:,}") for epsilon, runs in rows], right=(0, 1))


# ------------------------------------------------------------------------------------------------ the bench


def _bench(options: dict[str, Any], plot: Path | None, json: bool) -> None:
    """Every case of the bench; leaves with 1 if a broken one was missed or a sound one accused.

    Thirty sound verdicts at 95 % each would seldom all be right: the error is shared, so that all of them
    hold together.
    """
    findings, together = [], options["confidence"]
    if not 0 < together < 1:
        raise InvalidParameter(f"Expected confidence={together} in (0, 1).")
    cases = (*CASES, *NULLS)
    options = options | {"confidence": 1 - (1 - together) / len(cases)}
    for i, target in enumerate(cases):
        with _bar(f"{i + 1}/{len(cases)} {target.name}") as tell:
            findings.append(attack(target, target.pairs(), progress=tell, **options))
    misses = [c.name for c, f in zip(cases, findings, strict=True) if c.broken and f.exit_code != 1]
    accusations = [c.name for c, f in zip(cases, findings, strict=True) if not c.broken and f.exit_code == 1]
    if plot is not None:
        plots.ladder(findings, plot)
    if json:
        show.as_json({"cases": [_line(f) for f in findings], "wrong": misses + accusations})
    else:
        rows = [(f.target, *_figures(c.true_epsilon, f)) for c, f in zip(cases, findings, strict=True)]
        show.table(("case", "claimed ε", "true ε", "certified ε ≥", "verdict"), rows, right=(1, 2, 3))
        show.say("", *_judged(misses, accusations), f"All bounds hold together with confidence {together:g}.")
    raise typer.Exit(1 if misses or accusations else 0)


def _judged(missed: list[str], accused: list[str]) -> Iterator[str]:
    if missed:
        yield f"Not found: {', '.join(missed)}. More --time finds more."
    if accused:
        yield f"Accused, though sound: {', '.join(accused)}."
    if not missed and not accused:
        yield "Every verdict is right."


def _figures(true: float, found: Finding) -> tuple[str, str, str, str]:
    verdict = f"{found.verdict}, support differs" if found.support_differs else str(found.verdict)
    return numbers.up(float(found.claim.epsilon)), numbers.up(true), numbers.down(found.epsilon), verdict


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
