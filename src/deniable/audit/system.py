"""Any system as a target: a command, an address, a database. Neighbours are made-up
tables, never the system's real data.

Each run asks the system once, so runs count against its budget and its rate: `Paced` waits between them, and
`Recorded` keeps what it said, so that an audit that was broken off goes on where it was. `plan` says
beforehand how many runs a claim needs.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
import time as clock
import urllib.error
import urllib.parse
import urllib.request
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import SQLAlchemyError

from deniable.audit.levels import Levels
from deniable.audit.rules.support import UNSEEN
from deniable.audit.runs.independence import SHARE
from deniable.audit.runs.looks import Look, LookBook, LookTerms
from deniable.audit.sniper.audits import LEAST_SAMPLES
from deniable.audit.sniper.campaign import EXPLORE
from deniable.audit.statistics import detectable
from deniable.errors import InvalidParameter
from deniable.guarantee import Budget

DATA = "{data}"
AUTHORIZATION = "DENIABLE_AUDIT_AUTHORIZATION"
"""The environment variable with what an address wants as its Authorization header, like "Bearer …": a secret
stands neither in a command line nor in a finding."""
PASSWORD = re.compile(r"(?<=://)([^/:@]*):[^/]*@")
SECONDS = 60.0
"""After which a run is given up."""
TOO_OFTEN = (429, 503)
"""Statuses by which a service says that it is asked too often: of the pace, not of the data."""
TRIES = 5
FIRST_ANSWERS = 3
"""Of each neighbour: if all of them are errors, the address is wrong."""
TIMES = (1.1, 1.25, 1.5, 2.0, 4.0)
MOST_RUNS = 1 << 30

TOO_LONG = {"(raised)": "TimeoutExpired"}
"""The output of a run that was given up."""

System = Callable[[str], Any]


class Unusable(InvalidParameter):
    """A system that cannot be asked. Anything else that goes wrong in a run is an output of it."""

    ends_audit = True


@dataclass(frozen=True)
class Command:
    """A program: {data} in its arguments is the name of a neighbour. What it prints and
    how it ends are the output.

    >>> Command("echo {data} 3")("7")
    [0, 7, 3]
    """

    template: str
    seconds: float = SECONDS
    remembers = False  # every run is a process of its own

    def __post_init__(self) -> None:
        _check_template(self.template, "--command")

    def __call__(self, data: str) -> Any:
        parts = [part.replace(DATA, data) for part in shlex.split(self.template)]
        try:
            # The person who audits names the program; no shell reads the line.
            process = subprocess.run(parts, capture_output=True, text=True, timeout=self.seconds, check=False)
        except OSError as error:
            raise Unusable(f'The command "{parts[0]}" did not run: {error}. Nothing was certified.') from None
        except subprocess.TimeoutExpired:
            return TOO_LONG
        return [process.returncode, *_words(process.stdout)]


@dataclass(frozen=True)
class Url:
    """An address that answers in JSON: {data} in it is the name of a neighbour, or
    `body` sends the neighbour's file.

    `path` leads to what is looked at, like "result.rows.0"; a status other than 200 is an output too. That it
    leads to nothing may depend on the data, and is an output; if it never led anywhere for two neighbours, or
    the first answers of both are errors, it is a slip of the pen, and the audit ends before it has used up a
    budget. Where the service says that it is asked too often, the run is made again after the time it names.
    """

    template: str
    method: str = "GET"
    path: str = ""
    body: bool = False
    seconds: float = SECONDS
    hits: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)
    """For each neighbour, whether the path led to something in any answer."""
    errors: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    """For each neighbour, how many errors came before any other answer."""
    remembers = True  # or may: it goes on between runs

    def __post_init__(self) -> None:
        if not self.template.startswith(("http://", "https://")):
            raise InvalidParameter(
                f"Expected --url {self.template} to begin with http:// or https://. Nothing was run."
            )
        if not self.body:
            _check_template(self.template, "--url")

    def __call__(self, data: str) -> Any:
        url = self.template.replace(DATA, urllib.parse.quote(data, safe=""))
        address, headers = _authorize(url)
        payload = None
        if self.body:
            payload = Path(data).read_bytes()
            headers["Content-Type"] = "application/json" if data.endswith(".json") else "text/csv"
        request = urllib.request.Request(address, payload, headers, method=self.method)
        for _ in range(TRIES):
            try:
                with urllib.request.urlopen(request, timeout=self.seconds) as answer:
                    return [answer.status, self._look_at(data, _parse_json(address, answer.read()))]
            except urllib.error.HTTPError as error:
                if error.code not in TOO_OFTEN:
                    return self._error(data, address, error.code)
                clock.sleep(_named_pause(error.headers.get("Retry-After")))
            except (OSError, HTTPException) as error:
                raise Unusable(f"{address} did not answer: {error}. Nothing was certified.") from None
        raise Unusable(
            f"{address} says that it is asked too often, {TRIES} times on end. Nothing was certified. Ask "
            "more slowly (--rate); with --resume the runs that were made are not lost."
        )

    def _error(self, data: str, address: str, status: int) -> list[Any]:
        if not any(self.hits.values()):
            self.errors[data] = self.errors.get(data, 0) + 1
            if len(self.errors) > 1 and min(self.errors.values()) >= FIRST_ANSWERS:
                raise Unusable(
                    f"{address} answers by the status {status}, on both neighbours and from the beginning. "
                    "Nothing was certified. What it wants as its Authorization is taken from "
                    f"{AUTHORIZATION}."
                )
        return [status, None]

    def _look_at(self, data: str, body: Any) -> Any:
        value = _follow_path(body, self.path)
        self.hits[data] = self.hits.get(data, False) or value is not None
        if self.path and len(self.hits) > 1 and not any(self.hits.values()):
            raise Unusable(
                f"--json-path {self.path} leads to nothing in {json.dumps(body)[:200]}. Nothing was "
                "certified."
            )
        return value


def _parse_json(address: str, body: bytes) -> Any:
    try:
        return json.loads(body or b"null")
    except ValueError as error:
        raise InvalidParameter(f"{address} gave no JSON: {error}. Nothing was certified.") from None


def _named_pause(header: str | None) -> float:
    """Seconds to wait that a service names; one, where it names a date or nothing."""
    try:
        return min(SECONDS, max(0.0, float(header or 1)))
    except ValueError:
        return 1.0


def _authorize(address: str) -> tuple[str, dict[str, str]]:
    """The address without a name and password in it, and the headers that carry them: those of the address,
    or what the environment says."""
    parts = urllib.parse.urlsplit(address)
    bare = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    if parts.password is not None:
        secret = f"{urllib.parse.unquote(parts.username or '')}:{urllib.parse.unquote(parts.password)}"
        return bare, {"Authorization": "Basic " + base64.b64encode(secret.encode()).decode("ascii")}
    if header := os.environ.get(AUTHORIZATION):
        return bare, {"Authorization": header}
    return bare, {}


@dataclass(frozen=True)
class Sql:
    """A query through any database address: {data} in it is the table or schema of a neighbour. PostgreSQL is
    spoken to by psycopg, the driver that `deniable[postgres]` brings, unless the address names another."""

    address: str
    query: str
    engine: Any = field(init=False, repr=False, compare=False)
    remembers = True

    def __post_init__(self) -> None:
        _check_template(self.query, "the query")
        try:
            address = make_url(self.address)
            if address.drivername in ("postgresql", "postgres"):
                address = address.set(drivername="postgresql+psycopg")
            object.__setattr__(self, "engine", create_engine(address))
        except (SQLAlchemyError, ImportError) as error:
            raise InvalidParameter(
                f"The database cannot be opened: {str(error).splitlines()[0]}. Nothing was run."
            ) from None

    def __call__(self, data: str) -> Any:
        try:
            with self.engine.connect() as connection:
                return [list(row) for row in connection.execute(text(self.query.replace(DATA, data)))]
        except SQLAlchemyError as error:
            reason = str(error).splitlines()[0]
            raise InvalidParameter(
                f"The database refused the query: {reason}. Nothing was certified."
            ) from None


def without_password(address: str | None) -> str | None:
    """An address as it may stand in a report: a password in it is left out. (A driver finds it elsewhere when
    the finding is replayed, like PGPASSWORD.)

    >>> without_password("postgresql://auditor:secret@db/test")
    'postgresql://auditor@db/test'
    >>> without_password("https://a:b@dp.example/{data}")
    'https://a@dp.example/{data}'
    """
    return None if address is None else PASSWORD.sub(r"\1@", address)


def _check_template(template: str, option: str) -> None:
    if DATA not in template:
        raise InvalidParameter(
            f"Expected {{data}} in {option} {template}: the neighbour's name. Nothing was run."
        )


def _words(output: str) -> list[Any]:
    """What was printed: JSON if it is, else its words, numbers as such."""
    try:
        return [json.loads(output)]
    except ValueError:
        return [_number(word) for word in output.split()]


def _number(word: str) -> Any:
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        return word


def _follow_path(value: Any, path: str) -> Any:
    for part in filter(None, path.split(".")):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (LookupError, TypeError, ValueError):
            return None  # that it is missing may depend on the data
    return value


# -------------------------------------------------------------------------------------------- pace and memory


@dataclass
class Paced:
    """A system that is run at most `rate` times a second."""

    system: System
    rate: float
    last: float = 0.0

    @property
    def remembers(self) -> bool:
        return bool(getattr(self.system, "remembers", True))

    def __call__(self, data: str) -> Any:
        clock.sleep(max(0.0, self.last + 1 / self.rate - clock.monotonic()))
        self.last = clock.monotonic()
        return self.system(data)


@dataclass
class Renewed:
    """A system that a command renews before every run, so that nothing of an earlier run is remembered.
    {data} in the command is the name of the neighbour that is asked about next."""

    system: System
    command: str
    seconds: float = SECONDS
    remembers = False

    def __call__(self, data: str) -> Any:
        parts = [part.replace(DATA, data) for part in shlex.split(self.command)]
        try:
            process = subprocess.run(parts, capture_output=True, text=True, timeout=self.seconds, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unusable(f'--fresh "{parts[0]}" did not run: {error}. Nothing was certified.') from None
        if process.returncode:
            raise Unusable(
                f"--fresh {self.command} ended with the code {process.returncode}: "
                f"{process.stderr.strip()[:200]}. Nothing was certified."
            )
        return self.system(data)


class Recorded(LookBook):
    """Keeps every output in a file of JSON lines, each written before it is used; runs
    that are there are not made again.

    Outputs of one neighbour are used in the order in which they were made, so an audit with the same options
    goes on as if it had not been broken off. A last line that is not whole is taken away. Seeds and looks
    stand in the file too (`runs.looks`). Files of version 0.2.0 have neither: all their runs count as shown
    by one look, with the seed 0 that was the default.
    """

    def __init__(self, system: System, path: Path, subject: str) -> None:
        self.system, self.path = system, path
        lines = _whole_lines(path)
        if lines and lines[0].get("about") != subject:
            raise InvalidParameter(
                f"{path}: these runs are of another target or other neighbours. Nothing was run."
            )
        if not lines:
            self._append({"about": subject, "looks": []})
        self._outputs = [(line["data"], line["output"]) for line in lines if "output" in line]
        self._looks = [dict(line["look"]) for line in lines if "look" in line]
        self._seed: int | None = next((line["seed"] for line in reversed(lines) if "seed" in line), None)
        if self._outputs and "looks" not in lines[0]:
            self._count_first_look(lines[1:])
        self.count, self._shown_runs = len(self._outputs), 0
        self._run_queues = self._queues(0)

    def _count_first_look(self, lines: list[dict[str, Any]]) -> None:
        """A file of 0.2.0: what stands before the first line of another kind may have been looked at."""
        runs = next((i for i, line in enumerate(lines) if "output" not in line), len(lines))
        self._seed = self._seed or 0
        self._looks.insert(0, {"runs": runs})

    @property
    def remembers(self) -> bool:
        return bool(getattr(self.system, "remembers", True))

    @property
    def seed(self) -> int | None:
        return self._seed

    def open_look(self, terms: LookTerms) -> Look:
        if terms.seed != self._seed:
            self._append({"seed": terms.seed})
            self._seed = terms.seed
        self._run_queues = self._queues(0)
        earlier = [0, *(int(look["runs"]) for look in self._looks)]
        for number, look in enumerate(self._looks, 1):
            if look.get("terms") == asdict(terms):
                self._shown_runs = earlier[number - 1]
                return Look(number, self._shown_runs, is_repeat=True)
        self._shown_runs = earlier[-1]
        return Look(len(earlier), self._shown_runs)

    def skip_shown(self) -> None:
        for data, queue in self._queues(self._shown_runs).items():
            rest = self._run_queues.get(data, deque())
            while len(rest) > len(queue):
                rest.popleft()

    def close_look(self, look: Look, terms: LookTerms, verdict: str) -> None:
        if not look.is_repeat:
            entry = {"terms": asdict(terms), "runs": self.count, "verdict": verdict}
            self._append({"look": entry})
            self._looks.append(entry)
        self._run_queues = self._queues(0)

    def __call__(self, data: str) -> Any:
        queue = self._run_queues.get(data)
        if queue:
            return queue.popleft()
        output = json.loads(json.dumps(self.system(data), default=str))
        self._append({"data": data, "output": output})
        self._outputs.append((data, output))
        self.count += 1
        return output

    def _queues(self, start: int) -> dict[str, deque[Any]]:
        """The outputs of each neighbour from one run on, in their order."""
        queues: dict[str, deque[Any]] = {}
        for data, output in self._outputs[start:]:
            queues.setdefault(data, deque()).append(output)
        return queues

    def _append(self, line: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    file_text = path.read_text(encoding="utf-8")
    complete_text = file_text[: file_text.rfind("\n") + 1]
    if complete_text != file_text:
        path.write_text(complete_text, encoding="utf-8")
    try:
        return [dict(json.loads(line)) for line in complete_text.splitlines()]
    except (ValueError, TypeError):
        raise InvalidParameter(
            f"{path}: expected the runs of an audit, a JSON object in each line."
        ) from None


# ------------------------------------------------------------------------------------------------ plans


def smallest_seen(claim: Budget, runs: int, confidence: float = 0.95) -> float:
    """The smallest true ε that so many runs could tell from the claim, with probability .95, on the easiest
    target of that ε.

    >>> smallest_seen(Budget(1), 100_000) < smallest_seen(Budget(1), 1000)
    True
    """
    alpha = (1 - SHARE - UNSEEN) * Levels.for_look(confidence).accusing
    certifying = int((1 - EXPLORE) * runs)
    return detectable(certifying, epsilon=float(claim.epsilon), delta=float(claim.delta), alpha=alpha)


def runs_needed(claim: Budget, true: float, confidence: float = 0.95) -> int:
    """How many runs could tell a true ε from the claim, with probability .95, on the
    easiest target of that ε.

    >>> runs_needed(Budget(1), 2.0) < runs_needed(Budget(1), 1.5) < runs_needed(Budget(1), 1.1)
    True
    """
    if not true > float(claim.epsilon):
        raise InvalidParameter(f"Expected true={true} above the claim of ε = {float(claim.epsilon):g}.")

    def suffices(runs: int) -> bool:
        return smallest_seen(claim, runs, confidence) <= true

    high = LEAST_SAMPLES
    if suffices(high):
        return high
    while not suffices(high):
        high *= 2
        if high > MOST_RUNS:
            raise InvalidParameter(
                f"No number of runs up to {MOST_RUNS:,} tells ε = {true:g} from the claim {claim}."
            )
    low = high // 2
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def plan(claim: Budget, confidence: float = 0.95) -> list[tuple[float, int]]:
    """(a true ε, the runs that could tell it from the claim), from the smallest violation to the largest."""
    return [
        (times * float(claim.epsilon), runs_needed(claim, times * float(claim.epsilon), confidence))
        for times in TIMES[::-1]
    ]
