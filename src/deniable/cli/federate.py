"""`deniable federate`: a classifier from the rows of many clients, each protected as a whole.

Its certificate is written beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deniable import accounting, numbers
from deniable.cli import federate_options as option
from deniable.cli import outputs, show, train_options
from deniable.cli.door import door
from deniable.cli.options import Json, limit_of
from deniable.curator.opening.file_account import account_of
from deniable.errors import InvalidParameter
from deniable.guarantee import DEFAULT_DELTA, Certificate
from deniable.plots import federated as picture
from deniable.units import Unit

if TYPE_CHECKING:
    from deniable.federated import FedAvg

TRUST = {
    option.Place.SERVER: "The server is trusted: it sees every update. Those who see models are held off.",
    option.Place.SHARED: (
        "Nobody sees a single update: each client adds a share of the noise, and a secure sum opens the "
        "total, whatever the server sends."
    ),
    option.Place.CLIENT: "Nobody is trusted: each update carries all of its noise when it leaves the client.",
}
SIMULATED = (
    "This was a simulation: one process held the rows of all clients and added their noise for them. Whoever "
    "ran it could see everything. The same run with devices keeps this promise: see the guide to federated "
    'learning, "Real devices".'
)

ADDED_BY = {place: place.value for place in option.Place} | {option.Place.SHARED: "clients together"}


@door
def federate(
    data: option.Data,
    user: option.User,
    target: train_options.Target,
    epsilon: train_options.Epsilon,
    delta: train_options.Delta = DEFAULT_DELTA,
    clients: option.Number = None,
    classes: train_options.Classes = None,
    feature: train_options.Features = None,
    schema: option.Schema = None,
    noise: option.Noise = option.Place.SERVER,
    roster: option.Roster = None,
    rate: option.Rate = 0.1,
    rounds: option.Rounds = 50,
    local_epochs: option.LocalEpochs = 1,
    batch: option.Batch = 10,
    learning_rate: option.LearningRate = 0.5,
    momentum: option.Momentum = 0.0,
    clip: option.Clip = 0.5,
    least: option.Least = None,
    participations: option.Participations = None,
    coins: option.Coins = 1.0,
    replace: option.Replaced = False,
    model: option.Trained = option.NetworkName.LINEAR,
    hidden: train_options.Hidden = 64,
    public: train_options.Public = None,
    out: train_options.Out = Path("model"),
    limit: train_options.Limit = None,
    account: train_options.Paying = None,
    ledger: train_options.Book = None,
    json: Json = False,
    plot: option.Shown = None,
) -> None:
    """Train a classifier on the rows of many clients by federated averaging; every client is protected as a
    whole.

    A simulation: the file holds what the clients hold. In each round some are drawn, each trains the model on
    its own rows, and the noisy sum of clipped updates moves it. How many clients there are, bounds and
    classes are what you state. With --noise shared or client you also state who the clients are: --roster
    names a text file with one client on each line, those without rows too.

    [bold]deniable federate phones.parquet --user phone --target app --classes a,b --feature age:0:99
    --clients 900 --epsilon 4[/]

    [bold]deniable federate phones.parquet --user phone --target app --classes a,b --feature age:0:99
    --noise shared --roster phones.txt --epsilon 4[/]
    """
    if plot is not None and public is None:
        raise InvalidParameter(
            "Expected --public FILE with --plot: what could be drawn otherwise? Nothing was charged."
        )
    outputs.check(plot)
    from deniable.learn import table_training as training

    settings = Wanted(noise, rate, rounds, least, participations, coins, replace, roster)
    names = settings.names(clients, data)
    count = clients if names is None else len(names)
    declaration = training.TableDeclaration.read(schema, count, classes, feature or (), size="clients")
    table = declaration.table(target, training.TableMethod(model.value), hidden)
    tables = _tables()
    evaluate = None
    if public is not None:
        training.check_public(table, data, public)
        evaluate = tables.accuracy_on(table, public)
    library = _federated()
    privacy = library.ClientPrivacy(
        settings.placement(declaration.n), clip, epsilon=epsilon, delta=delta, unit=settings.unit
    )
    run = library.FedAvg(
        table.model(),
        tables.CRITERION,
        cohorts=library.Cohorts(declaration.n, rate, rounds),
        privacy=privacy,
        local=library.LocalRecipe(local_epochs, batch or None, learning_rate),
        server=tables.averaging(momentum),
        how=library.RoundExecution(evaluate),
    )
    rows = training.read_quietly(table, data, lambda path: tables.read(table, path, user, names))
    with account_of(data, ledger, account, run.unit, limit_of(limit)) as paying:
        training.check_writable(out)
        release = paying.run(run, rows, delta=delta, description="deniable federate")
        head = paying.certificate(release, delta=delta).head
    assumptions = (*run.assumptions, *settings.simulation_notes)
    certificate = accounting.certify(run.loss, run.unit, delta, assumptions=assumptions, head=head)
    table.save(release.value.model, out)
    (out / "certificate.json").write_text(certificate.to_json(), encoding="utf-8")
    scores = release.value.history.score
    if plot is not None:
        picture.by_round(scores, title=f"ε ≤ {numbers.up(certificate.bound.upper)}, {run.unit}", path=plot)
    _tell(run, settings, certificate, out, scores, json)


@dataclass(frozen=True)
class Wanted:
    """What the caller says about rounds, and about where the noise is added."""

    place: option.Place
    rate: float
    rounds: int
    least: int | None
    participations: int | None
    coins: float
    replace: bool
    roster: Path | None

    def __post_init__(self) -> None:
        if self.place is option.Place.SERVER and self.roster is not None:
            raise InvalidParameter(
                "Expected --roster with --noise shared or client only: a trusted server protects whoever the "
                "rows name. Nothing was charged."
            )
        if self.place is not option.Place.SERVER and self.roster is None:
            raise InvalidParameter(
                f"--noise {self.place} needs a list of all clients: each of them adds noise, with rows or "
                "without, and a table cannot name those who have none. Write the name of each client on a "
                "line of a text file, and give it with --roster FILE. Nothing was charged."
            )
        if self.place is not option.Place.SHARED and self.least is not None:
            raise InvalidParameter("Expected --least with --noise shared only. Nothing was charged.")
        if self.place is option.Place.SERVER and (self.participations, self.coins) != (None, 1):
            raise InvalidParameter(
                "Expected --participations and --coins with --noise shared or client only: a trusted server "
                "draws clients by its own coins. Nothing was charged."
            )
        if not 0 < self.rate <= 1 or self.rounds < 1:
            raise InvalidParameter(
                f"Expected --rate {self.rate:g} in (0, 1] and --rounds {self.rounds} of at least 1. Nothing "
                "was charged."
            )

    @property
    def unit(self) -> Unit:
        if self.replace:
            return Unit.client(replace=True)
        return Unit.client(zero_out=self.place is not option.Place.SERVER)

    @property
    def simulation_notes(self) -> tuple[str, ...]:
        """What to say where the certificate speaks of a server that was not there."""
        return () if self.place is option.Place.SERVER else (SIMULATED,)

    def names(self, clients: int | None, data: Path) -> tuple[str, ...] | None:
        """All clients by name, where they are listed."""
        if self.roster is None:
            return None
        if data.exists() and self.roster.samefile(data):
            raise InvalidParameter(
                "--roster is the table itself. Write the name of each client, with rows or without, on a "
                "line of a text file of its own, and give that file. Nothing was charged."
            )
        names: tuple[str, ...] = _tables().read_roster(self.roster)
        if clients is not None and clients != len(names):
            raise InvalidParameter(
                f"--clients is {clients:,}, and --roster names {len(names):,}. Leave --clients out. Nothing "
                "was charged."
            )
        return names

    def placement(self, clients: int) -> Any:
        from deniable.federated import Central, OnClient, Shared
        from deniable.federated.noise.placement import usual_least

        most = self.participations
        if most is None:
            most = min(self.rounds, math.ceil(1.5 * self.rate * self.rounds))
        match self.place:
            case option.Place.SERVER:
                return Central()
            case option.Place.CLIENT:
                return OnClient(participations=most, coins=self.coins)
        least = self.least
        if least is None:
            least = usual_least(self.rate * clients, self.rate)
        return Shared(least=least, participations=most, coins=self.coins)


def _tables() -> Any:
    """What makes clients of a table. The table has said already if torch is missing."""
    from deniable.federated.data import tables

    return tables


def _federated() -> Any:
    from deniable import federated

    return federated


def _tell(
    run: FedAvg, settings: Wanted, certificate: Certificate, path: Path, scores: list[float], json: bool
) -> None:
    views = _views(run, settings.place, certificate.delta)
    facts = {
        "epsilon": certificate.bound.upper,
        "delta": certificate.delta,
        "unit": str(run.unit),
        "noise": settings.place.value,
        "noise_multiplier": run.multiplier,
        "epsilon_against": views,
        "rounds": run.rounds,
        "rate": float(run.cohorts.rate),
        "clients": run.cohorts.clients,
        "participations": run.participations,
        "coins": float(run.coins),
        "least": getattr(run.noise, "least", None),
        "simulated": True,
        "out": path,
        "accuracy_on_public_rows": scores[-1] if scores else None,
    }
    if json:
        show.as_json(facts)
        return
    show.heading(
        f"Trained: ε ≤ {numbers.up(certificate.bound.upper)} at δ = {certificate.delta:g}, {certificate.unit}"
    )
    show.say(
        f"{run.rounds:,} rounds of about {run.drawing_rate * run.cohorts.clients:g} clients, noise "
        "multiplier "
        f"{run.multiplier:.4g}, added by the {ADDED_BY[settings.place]}.",
        TRUST[settings.place],
        *settings.simulation_notes,
    )
    if len(views) > 1:
        show.say(
            f"Against the server, which knows who was drawn: ε ≤ {numbers.up(views['server'])}. Against "
            f"those who see models only, too: ε ≤ {numbers.up(views['models'])}, since the noise of clients "
            "tells how many they were."
        )
    show.say(
        f"Model: {path / 'model.pt'} (described in model.json). Certificate: {path / 'certificate.json'}."
    )
    if scores:
        show.say(f"Accuracy on the public rows: {100 * scores[-1]:.1f} %.")


def _views(run: FedAvg, place: option.Place, delta: float) -> dict[str, float]:
    """ε against each who looks: the server too, where it is not trusted."""
    observers = ["models"]
    if place is not option.Place.SERVER:
        observers = ["server", "models"]
    return {who: accounting.epsilon(run.loss_against(who), delta).upper for who in observers}
