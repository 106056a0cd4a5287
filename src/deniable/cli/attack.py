"""`deniable attack`: what an unprotected release gives away, and that a protected one does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from deniable.attack import anonymity, attribute, fuzzy, hide, link, points, series, sticky, tables
from deniable.attack import difference as differencing
from deniable.attack import reconstruct as rebuilding
from deniable.attack.counts.solve import SolvingMethod, expected_share
from deniable.attack.learnt import Learnt, percent
from deniable.cli import attack_column, attack_gradients, attack_invert, attack_models, attack_poison, show
from deniable.cli.door import door
from deniable.cli.options import Json, Plot
from deniable.datasets import hospital
from deniable.errors import InvalidParameter
from deniable.plots import attack as picture

app = typer.Typer(help="What releases give away: attacks with and without protection.", no_args_is_help=True)

attack_models.register(app)
attack_invert.register(app)
attack_column.register(app)
attack_gradients.register(app)
attack_poison.register(app)

Epsilon = Annotated[
    float, typer.Option("--epsilon", help="The limit of the account that protects the same data.")
]
Seed = Annotated[
    int, typer.Option("--seed", help="Seed of the made-up data; the noise of an account is never seeded.")
]


THEOREMS = (
    "The theorem it shows: O(n) random counts, each within α·√n of the truth, give away all but O(α²)·n of n "
    "bits (Dinur, Nissim 2003; Dwork, McSherry, Talwar 2007). So noise has to grow with √n, or counts have "
    "to be refused.",
    "The theorem it shows: if all 2ⁿ counts are answered within α·n, every table that fits them is wrong "
    "about at most 4·α·n of n people (Dinur, Nissim 2003). The table above has random counts only; the "
    "picture (--plot) asks all 2ⁿ.",
)
CLASSES = (
    "That the join meets nobody in the 5-anonymous table does not make it safe: a class is found instead of "
    "a row, and says what its people have in common. Several such tables about the same people give "
    "everything away: deniable attack anonymity."
)


class Linked(StrEnum):
    """What is linked."""

    PEOPLE = "people"
    RATINGS = "ratings"
    STEPS = "steps"


@app.command()
@door
def reconstruct(
    people: Annotated[int, typer.Option("--people", help="People with one secret bit each.")] = 1024,
    queries: Annotated[
        int | None,
        typer.Option("--queries", help="Counts over random sets of people.", show_default="4 × people"),
    ] = None,
    noise: Annotated[
        float, typer.Option("--noise", help="Deviation of each answer's noise, in units of √people.")
    ] = 0.3,
    method: Annotated[
        SolvingMethod, typer.Option("--method", metavar="METHOD", help=f"One of {', '.join(SolvingMethod)}.")
    ] = SolvingMethod.LEAST_SQUARES,
    epsilon: Epsilon = 1.0,
    seed: Seed = 0,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """Everybody's secret bit from noisy counts over random sets (Dinur, Nissim 2003).

    [bold]deniable attack reconstruct --people 4096 --queries 16384 --noise .3[/]
    """
    query_count = 4 * people if queries is None else queries
    if plot is not None and 2 * query_count <= people:
        raise InvalidParameter(f"Expected more than {people // 2} queries for a picture, got {query_count}.")
    jobs: list[Callable[[], Learnt]] = [
        lambda: rebuilding.against_noise(people, query_count, noise, method=method, seed=seed),
        lambda: rebuilding.against_account(people, query_count, epsilon, batch=1, method=method, seed=seed),
        lambda: rebuilding.against_account(people, query_count, epsilon, method=method, seed=seed),
    ]
    naive, single_answers, batch_answers = [job() for job in show.progress(jobs, "Asking and solving")]
    if plot is not None:
        _draw_reconstruction(plot, naive, (single_answers, batch_answers), method, people, query_count, seed)
    if json:
        show.as_json(
            _reconstruction(naive, single_answers, batch_answers, people, query_count, noise, method)
        )
        return
    show.heading(f"{people:,} secret bits, {query_count:,} counts over random sets of people")
    _table((naive, single_answers, batch_answers))
    show.say("", naive.reading, batch_answers.reading, "", THEOREMS[method is SolvingMethod.EXHAUSTIVE])
    _say_where(plot)


def _reconstruction(
    naive: Learnt,
    refusal: Learnt,
    account_result: Learnt,
    people: int,
    queries: int,
    noise: float,
    method: SolvingMethod,
) -> dict[str, object]:
    facts: dict[str, object] = {"people": people, "queries": queries, "noise": noise, "method": str(method)}
    facts |= {
        "accuracy": naive.share,
        "expected": naive.facts.get("expected"),
        "seconds": naive.facts["seconds"],
    }
    return facts | {"releases": [learnt.to_dict() for learnt in (naive, refusal, account_result)]}


def _draw_reconstruction(
    path: Path,
    naive: Learnt,
    account_results: Sequence[Learnt],
    method: SolvingMethod,
    people: int,
    queries: int,
    seed: int,
) -> None:
    if method is SolvingMethod.EXHAUSTIVE:
        _draw_theorem(path, min(people, 12), seed)
        return
    ratio, small = queries / people, min(people, 1024)
    grid = [0.05 * 1.1**i for i in range(50)]
    # The curve is measured on at most 1,024 people, which takes a second; the run itself is a point of its
    # own.
    results = rebuilding.sweep(small, ratio, (0.1, 0.2, 0.3, 0.5, 0.8, 1.5, 3.0), seed=seed)
    picture.reconstruction(
        (grid, [expected_share(c, ratio) for c in grid]),
        [(result.facts["noise"], result.share) for result in results],
        (naive.facts["noise"], naive.share),
        {result.release: result.share for result in account_results},
        title=f"Share of secret bits found from {ratio:g} counts per person, by their noise",
        path=path,
    )


def _draw_theorem(path: Path, people: int, seed: int) -> None:
    errors = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
    attempts = rebuilding.exhaustive_errors(people, errors, seed=seed)
    wrong = {
        name: [attempt.wrong_bits for attempt in attempts if attempt.curator == name]
        for name in ("random", "misleading")
    }
    title = f"Wrong bits after all 2^{people} subsets were asked and all 2^{people} tables tried"
    picture.exhaustive(errors, wrong, [4 * e for e in errors], title=title, path=path)


@app.command()
@door
def difference(
    people: Annotated[int, typer.Option("--people", help="People with one secret bit each.")] = 500,
    targets: Annotated[int, typer.Option("--targets", help="How many people are attacked.")] = 100,
    noise: Annotated[float, typer.Option("--noise", help="Deviation of each answer's noise.")] = 2.0,
    pairs: Annotated[int, typer.Option("--pairs", help="Pairs of questions about each target.")] = 100,
    epsilon: Epsilon = 1.0,
    seed: Seed = 0,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """One person's bit from counts about many: with and without them, again and again; and a query that
    tricks sticky noise.

    [bold]deniable attack difference --noise 2 --pairs 100[/]
    """
    results = differencing.compare(people, targets, noise=noise, pairs=pairs, epsilon=epsilon, seed=seed)
    sticky_results = sticky.compare(epsilon=epsilon, seed=seed)
    releases = [*results[:-1], *sticky_results[:-1], results[-1], sticky_results[-1]]
    _tell(
        releases,
        f"One bit of each of {targets} people, from counts about many",
        "bits",
        json,
        plot,
        protected_count=2,
    )


@app.command("link")
@door
def link_(
    data: Annotated[
        Linked, typer.Option("--data", metavar="DATA", help=f"One of {', '.join(Linked)}.")
    ] = Linked.PEOPLE,
    people: Annotated[
        int | None,
        typer.Option("--people", help="People in the data.", show_default="20000, 1000 or 2000 by the data"),
    ] = None,
    epsilon: Epsilon = 1.0,
    seed: Seed = 0,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """Names joined to rows without names: by zip, birth date and sex, by a few ratings, by six days of step
    counts.

    [bold]deniable attack link --data ratings[/]
    """
    many = people
    if many is None:
        many = {Linked.PEOPLE: 20_000, Linked.RATINGS: 1000, Linked.STEPS: 2000}[data]
    match data:
        case Linked.PEOPLE:
            results = link.compare(many, epsilon=epsilon, seed=seed)
            title, secrets = "A register with names, joined to a table with diagnoses", "diagnoses"
        case Linked.RATINGS:
            results = fuzzy.compare(many, epsilon=epsilon, seed=seed)
            title, secrets = "Eight ratings known roughly, and whose record it is", "records"
        case Linked.STEPS:
            results = series.compare(many, epsilon=epsilon, seed=seed)
            title, secrets = "Six days of step counts, and whose series it is", "series"
    _tell(results, title, secrets, json, plot)
    if data is Linked.PEOPLE and not json:
        show.say(CLASSES)


@app.command("anonymity")
@door
def anonymity_(
    people: Annotated[int, typer.Option("--people", help="People in the made-up town.")] = 4000,
    k: Annotated[int, typer.Option("--k", help="The size of the smallest class.")] = 5,
    t: Annotated[
        float, typer.Option("--t", help="The largest distance of a class from the whole, where t-close.")
    ] = 0.2,
    epsilon: Epsilon = 1.0,
    seed: Seed = 0,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """How k-anonymity, t-closeness and swapping fail: nine rows of a hospital, and a town published in seven
    ways.

    [bold]deniable attack anonymity --k 5[/]
    """
    results = hide.compare(people, k, t=t, epsilon=epsilon, seed=seed)
    if not json:
        _hospital()
    _tell(results, f"The diagnoses of {people:,} people, by how they were published", "diagnoses", json, plot)


def _hospital() -> None:
    table = hospital()
    keys, secrets = anonymity.generalise(table), table["disease"].to_pylist()
    classes = anonymity.classes_of(keys)
    sure = anonymity.homogeneity(classes, secrets)
    inferences = anonymity.background(classes, secrets, {7: ["heart disease"]})
    show.heading("Nine patients, 3-anonymous")
    show.table(
        ("zip", "age", "disease", "certain"),
        [
            (*key, secret, "yes" if i in sure else "")
            for i, (key, secret) in enumerate(zip(keys, secrets, strict=True))
        ],
    )
    show.say(
        "",
        f"Whoever knows that a neighbour of 27 years is in the table knows the disease: {sure[2]} "
        "(homogeneity). Of a neighbour of 36 who surely has no heart disease, the table tells the rest: "
        f"{inferences[7]} (background knowledge).",
        "",
    )


@app.command("tables")
@door
def tables_(
    blocks: Annotated[int, typer.Option("--blocks", help="Census blocks of 5 to 12 people.")] = 20,
    epsilon: Epsilon = 1.0,
    seed: Seed = 0,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """People from published counts, medians and means of small blocks, by integer programming.

    [bold]deniable attack tables --blocks 20[/]
    """
    if blocks < 2:
        raise InvalidParameter(f"Expected blocks={blocks} to be at least 2.")
    plans = tables.plans(blocks, epsilon=epsilon, seed=seed)
    results = [plan() for plan in show.progress(plans, "Solving blocks")]
    _tell(results, f"The people of {blocks} census blocks", "people", json, plot)


@app.command("attribute")
@door
def attribute_(
    people: Annotated[int, typer.Option("--people", help="People in the made-up survey.")] = 2000,
    epsilon: Epsilon = 1.0,
    seed: Seed = 0,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """A sensitive answer from a model's confidence, and models that are training points: support vectors and
    medians.

    [bold]deniable attack attribute[/]
    """
    results = attribute.compare(people, epsilon=epsilon, seed=seed)
    extras = [
        *points.compare_vectors(epsilon=epsilon, seed=seed),
        *points.compare_medians(epsilon=epsilon, seed=seed),
    ]
    if not json:
        show.heading("Training rows that stand in a model, value for value")
        _table(extras)
        show.say("")
    _tell(
        results,
        f'Who of {people:,} people smokes, from models that predict "ill"',
        "answers",
        json,
        plot,
        extra=extras,
    )
    if not json:
        _by_group(results)


def _by_group(results: Sequence[Learnt]) -> None:
    """For each group the share of the people a model was made from, and that of strangers."""
    pairs = [(result.facts["by_group"], result.facts["strangers_by_group"]) for result in results]
    rows = [
        (group, *(f"{percent(own[group])} / {percent(strange.get(group, 0.0))}" for own, strange in pairs))
        for group in pairs[0][0]
    ]
    show.say("")
    show.heading("By group: right for its own people / for strangers")
    show.table((results[0].facts["group"], "memorises", "exact counts", "account"), rows, right=(1, 2, 3))


def _tell(
    results: Sequence[Learnt],
    title: str,
    secrets: str,
    json: bool,
    plot: Path | None,
    *,
    extra: Sequence[Learnt] = (),
    protected_count: int = 1,
) -> None:
    """Print what each release gave away; the last ones are protected and read out, and so is the worst of the
    others."""
    if plot is not None:
        columns = (
            [learnt.release for learnt in results],
            [learnt.share for learnt in results],
            [learnt.chance for learnt in results],
        )
        picture.releases(
            *columns,
            title=f"{secrets.capitalize()} learnt from each release\n{title}",
            secrets=secrets,
            protected_count=protected_count,
            path=plot,
        )
    if json:
        show.as_json({"releases": [learnt.to_dict() for learnt in (*extra, *results)]})
        return
    show.heading(title)
    _table(results)
    worst = max(results[:-protected_count], key=lambda learnt: learnt.share - learnt.chance)
    show.say("", worst.reading, *(learnt.reading for learnt in results[-protected_count:]))
    _say_where(plot)


def _say_where(plot: Path | None) -> None:
    if plot is not None:
        show.say(f"Picture: {plot}")


def _table(results: Sequence[Learnt]) -> None:
    rows = [
        (
            result.release,
            f"{result.right:,} of {result.total:,}",
            percent(result.share),
            percent(result.chance),
        )
        for result in results
    ]
    show.table(("release", "learnt", "share", "by chance"), rows, right=(1, 2, 3), best=len(rows) - 1)
