"""`deniable audit`: attack a mechanism and leave with an exit code.

0 consistent, 1 violation, 2 bad input, 3 underpowered, 4 no evidence, 5 answers repeat, 6 violation if,
7 look again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum, StrEnum, auto
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from deniable import numbers
from deniable.audit import Finding, Verdict, replay
from deniable.audit import audit as attack
from deniable.audit.bench import CASES, NULLS
from deniable.audit.bench.case import Case
from deniable.audit.levels import draw_seed
from deniable.audit.one_run import RUNS, Family
from deniable.audit.sniper.audits import CONFIRMATIONS
from deniable.audit.system import plan
from deniable.audit.system_options import SystemOptions
from deniable.audit.target_options import (
    AuditTarget,
    failing,
    find_target,
    from_scores,
    is_query,
    is_scores,
    query_target,
    read_pairs,
    restore_target,
)
from deniable.cli import outputs, show
from deniable.cli.door import door
from deniable.cli.options import Json, Plot
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget
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
Confirms: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--confirms",
        metavar="FILE",
        help='For --one-run: the finding (JSON) of an earlier run that says "look again".',
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
    int | None,
    typer.Option("--seed", help="Reproduces the audit; random by default. With --replay: a fresh sample."),
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
Fresh: TypeAlias = Annotated[
    str | None,
    typer.Option("--fresh", metavar="COMMAND", help="Run this before every run, to make the service forget."),
]
Copies: TypeAlias = Annotated[
    int | None,
    typer.Option("--copies", help="Copies of each neighbour under new names: with_1, without_1, and so on."),
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
    confirms: Confirms = None,
    command: Program = None,
    url: Address = None,
    sql: Database = None,
    data: Neighbours = None,
    method: Method = "GET",
    json_path: JsonPath = "",
    rate: Rate = None,
    resume: Resume = None,
    fresh: Fresh = None,
    copies: Copies = None,
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
    asks = SystemOptions(command, url, sql, target, data, method, json_path, rate, resume, fresh, copies)
    subject = Subject.from_target(target, elsewhere=asks.is_given)
    outputs.check(plot, save, report)
    _check_effort(seconds, samples)
    _check_about(
        subject,
        {"--one-run": family, "--confirms": confirms, "--pairs": pairs, "--tables": tables, "--name": name,
         "--schema": schema, "--bounds": bounds, "--keys": keys},
    )  # fmt: skip
    if only_plan:
        _show_plan(budget, confidence, json)
        return
    effort = {"time": seconds, "samples": samples, "confidence": confidence}
    options = effort | {"seed": seed}
    text = target or ""
    assumption: Family | None = None
    if family is not None:
        assumption = family.value
    ways: dict[Subject, Callable[[], Finding]] = {
        Subject.SYSTEM: lambda: _system(asks, budget, options),
        Subject.BENCH: lambda: _bench(options, plot, json),
        Subject.SCORES: lambda: from_scores(
            Path(text), budget, confidence, seed, assumption, _read_finding(confirms) if confirms else None
        ),
        Subject.QUERY: lambda: _query(
            query_target(text, epsilon, delta, tables, unit, name, schema, bounds, keys), options
        ),
        Subject.MECHANISM: lambda: _attack_target(find_target(text, budget), text, pairs, unit, options),
        Subject.NOTHING: _refuse_nothing,
    }
    if replay_file is not None:
        ways[subject] = partial(_replay, replay_file, seed)
    finding = ways[subject]()
    _write(finding, save, report, plot)
    if json:
        show.as_json({**_jsonable(finding), "exit_code": finding.exit_code})
    else:
        show.say(*str(finding).split("\n"), *_next_steps(finding, save, resume))
        show.say_files(picture=plot, finding=save, report=report)
    raise typer.Exit(finding.exit_code)


def _next_steps(finding: Finding, save: Path | None, resume: Path | None) -> Iterator[str]:
    """The seed, and the command that looks again where an audit is not sure enough."""
    options = finding.options or {}
    if "seed" in options:
        yield f"Seed: {options['seed']}."
    if finding.verdict is not Verdict.LOOK_AGAIN or finding.method.startswith("one run"):
        return
    if finding.method == "scores":
        yield "Look again: run the target anew, and audit the new scores. Another seed is no fresh sample."
    elif save is not None:
        yield f"Look again: deniable audit --replay {save} --seed {draw_seed()}"
    elif resume is not None:
        yield f"Look again: the same command with --samples {4 * finding.samples}"
    else:
        yield f"Look again: the same command with --samples {4 * finding.samples} --seed {draw_seed()}"


class Subject(Enum):
    """What is attacked: each kind is run in its own way, and takes options of its own."""

    SYSTEM = auto()
    BENCH = auto()
    SCORES = auto()
    QUERY = auto()
    MECHANISM = auto()
    NOTHING = auto()

    @classmethod
    def from_target(cls, target: str | None, *, elsewhere: bool) -> Subject:
        """The subject that the argument names, unless options name a system that is attacked from outside."""
        if elsewhere:
            return cls.SYSTEM
        if target is None:
            return cls.NOTHING
        if target == BENCH:
            return cls.BENCH
        if is_scores(target):
            return cls.SCORES
        if is_query(target):
            return cls.QUERY
        return cls.MECHANISM


OF_A_QUERY = (Subject.QUERY, 'is about a query, like "SELECT COUNT(*) FROM t"')
ABOUT = {
    "--one-run": (Subject.SCORES, "is about a file of scores (.csv, .parquet)"),
    "--confirms": (Subject.SCORES, "is about the scores of one run"),
    "--pairs": (Subject.MECHANISM, "is about a mechanism or a callable: here the pair is given"),
    "--tables": OF_A_QUERY,
    "--name": OF_A_QUERY,
    "--schema": OF_A_QUERY,
    "--bounds": OF_A_QUERY,
    "--keys": OF_A_QUERY,
}
"""Options that only one kind of subject takes; with another they would be passed over in silence."""


def _check_about(subject: Subject, options: Mapping[str, object]) -> None:
    for option, value in options.items():
        only, words = ABOUT[option]
        if value and subject is not only:
            raise InvalidParameter(f"{option} {words}. Nothing was run.")


def _check_effort(seconds: float, samples: int | None) -> None:
    if not seconds > 0 or (samples is not None and samples < 1):
        raise InvalidParameter(
            f"Expected --time {seconds:g} above 0, and --samples of at least 1. Nothing was run."
        )


def _write(finding: Finding, save: Path | None, report: Path | None, plot: Path | None) -> None:
    if save is not None:
        save.write_text(finding.to_json(), encoding="utf-8")
    if report is not None:
        write_report(finding, report)
    if plot is not None:
        plots.overview(finding, plot)


def _jsonable(finding: Finding) -> dict[str, Any]:
    return dict(json.loads(finding.to_json()))


# ------------------------------------------------------------------------------------------------ targets


def _refuse_nothing() -> NoReturn:
    raise InvalidParameter("Expected a target to audit, or --replay with the file of a finding.")


def _system(asks: SystemOptions, budget: Budget | None, options: dict[str, Any]) -> Finding:
    with _bar(asks.name) as tell:
        return asks.attack(budget, options | {"progress": tell}, _tell_first)


def _tell_first(sentence: str) -> None:
    """On stderr, so that --json stays whole."""
    Console(stderr=True).print(sentence)


def _query(target: AuditTarget, options: dict[str, Any]) -> Finding:
    return _attack_target(target, target.subject.name, None, None, options)


def _attack_target(
    target: AuditTarget, name: str, pairs: Path | None, unit: str | None, options: dict[str, Any]
) -> Finding:
    neighbours = target.pairs
    if pairs is not None:
        neighbours = read_pairs(pairs)
    privacy_unit = None
    if unit:
        privacy_unit = Unit.parse(unit)
    with _bar(name) as tell, failing(name):
        finding = attack(
            target.subject, neighbours, target.claim, unit=privacy_unit, name=name, progress=tell, **options
        )
    return replace(finding, options={**(finding.options or {}), **target.options})


def _read_finding(path: Path) -> Finding:
    return Finding.from_json(path.read_text(encoding="utf-8"))


def _confirmed_finding(finding: Finding) -> Finding | None:
    """What stands for the finding of the run before, which this one confirmed."""
    options = finding.options or {}
    earlier = int(options.get(RUNS, 1)) - 1
    if not earlier:
        return None
    return replace(finding, verdict=Verdict.LOOK_AGAIN, options={**options, RUNS: earlier})


def _replay(path: Path, seed: int | None) -> Finding:
    finding = _read_finding(path)
    options = dict(finding.options or {})
    if finding.method == "scores" or finding.method.startswith("one run"):
        if "target" not in options:
            raise InvalidParameter(f'The finding on "{finding.target}" does not name the file of its scores.')
        if seed not in (None, options.get("seed", 0)):
            raise InvalidParameter(
                "Another --seed on the same scores is no fresh sample. Run the target anew, and audit the "
                "new scores. Nothing was certified."
            )
        return from_scores(
            Path(options["target"]),
            finding.claim,
            finding.confidence,
            options.get("seed", 0),
            options.get("family"),
            _confirmed_finding(finding),
        )
    with _bar(finding.target) as tell, failing(finding.target):
        second = replay(finding, _target_of(finding, options), seed=seed, progress=tell)
    if (second.options or {}).get(CONFIRMATIONS) != options.get(CONFIRMATIONS):
        # The next fresh sample has a smaller part of the error, whatever this one says.
        record = replace(finding, options={**options, CONFIRMATIONS: (second.options or {})[CONFIRMATIONS]})
        path.write_text(record.to_json(), encoding="utf-8")
    return second


def _target_of(finding: Finding, options: Mapping[str, Any]) -> Any:
    """What a saved finding is about, built again."""
    if "system" in options:
        return SystemOptions(**options["system"]).target()
    return restore_target(options, finding.target).subject


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


def _bench(options: dict[str, Any], plot: Path | None, json: bool) -> NoReturn:
    """Every case of the bench; leaves with 1 if a broken one was missed or a sound one accused.

    Thirty sound verdicts at 95 % each would seldom all be right: the error is shared, so that all of them
    hold together.
    """
    together = options["confidence"]
    if not 0 < together < 1:
        raise InvalidParameter(f"Expected confidence={together} in (0, 1).")
    cases = (*CASES, *NULLS)
    share = options | {"confidence": 1 - (1 - together) / len(cases)}
    findings = []
    for i, target in enumerate(cases):
        with _bar(f"{i + 1}/{len(cases)} {target.name}") as tell:
            findings.append(attack(target, target.pairs(), progress=tell, **share))
    verdicts = list(zip(cases, findings, strict=True))
    wrong = [case for case, finding in verdicts if case.is_broken != (finding.exit_code == 1)]
    wrong.sort(key=lambda case: not case.is_broken)
    if plot is not None:
        plots.ladder(findings, plot)
    if json:
        show.as_json({"cases": [_line(f) for f in findings], "wrong": [case.name for case in wrong]})
    else:
        rows = [(finding.target, *_figures(case.true_epsilon, finding)) for case, finding in verdicts]
        show.table(("case", "claimed ε", "true ε", "certified ε ≥", "verdict"), rows, right=(1, 2, 3))
        show.say("", *_judge_cases(wrong), f"All bounds hold together with confidence {together:g}.")
    raise typer.Exit(int(bool(wrong)))


def _judge_cases(cases: Sequence[Case]) -> Iterator[str]:
    if not cases:
        yield "Every verdict is right."
    misses = [case.name for case in cases if case.is_broken]
    accusations = [case.name for case in cases if not case.is_broken]
    if misses:
        yield f"Not found: {', '.join(misses)}. More --time finds more."
    if accusations:
        yield f"Accused, though sound: {', '.join(accusations)}."


def _figures(true: float, finding: Finding) -> tuple[str, str, str, str]:
    verdict = str(finding.verdict)
    if finding.support_differs:
        verdict += ", support differs"
    return numbers.up(float(finding.claim.epsilon)), numbers.up(true), numbers.down(finding.epsilon), verdict


def _line(finding: Finding) -> dict[str, Any]:
    keep = ("verdict", "target", "epsilon", "delta", "confidence", "detectable", "samples", "support_differs")
    return {k: v for k, v in _jsonable(finding).items() if k in keep} | {
        "claimed": float(finding.claim.epsilon)
    }


@contextmanager
def _bar(label: str) -> Iterator[Callable[[float, str], None]]:
    """A bar on stderr while an audit runs; nothing of it stays, and nothing is drawn into a pipe."""
    screen = Console(stderr=True)
    columns = (TextColumn("{task.fields[label]}"), BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("", total=1.0, label=label)
        yield lambda share, text: bar.update(task, completed=share, description=text)
