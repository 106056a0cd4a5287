"""`deniable attack invert`: what a model that recognises people shows of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deniable import extras
from deniable.attack.learnt import percent
from deniable.cli import show
from deniable.cli.door import door
from deniable.cli.options import Json, Plot
from deniable.plots import faces

if TYPE_CHECKING:
    from deniable.attack.models.invert import Album, InvertedImages
    from deniable.attack.models.stationary import RecoveredImages


def register(app: typer.Typer) -> None:
    """Add the command to `deniable attack`."""
    app.command("invert")(invert)


@door
def invert(
    data: Annotated[
        str, typer.Option("--data", help="faces (ORL), or digits for images that need no download.")
    ] = "digits",
    people: Annotated[
        int | None,
        typer.Option(
            "--people", help="Private people; the others teach the generator.", show_default="half of them"
        ),
    ] = None,
    epsilon: Annotated[
        float, typer.Option("--epsilon", help="The guarantee of the private model for an image, at δ = 1e-5.")
    ] = 2.0,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of the split, and of the models' first weights.")
    ] = 0,
    json: Json = False,
    plot: Plot = None,
) -> None:
    """What do the people look like? Images that a model takes for them, found by its confidence and by a
    generator.

    [bold]deniable attack invert --data faces --plot faces.png[/]
    """
    missing = [name for name in ("torch", "sklearn") if find_spec(name) is None]
    if missing:
        raise extras.missing(f"Model inversion needs {' and '.join(missing)}", "learn")
    from deniable.attack import invert as inversion
    from deniable.attack import stationary

    album = inversion.album(data, people, seed=seed)
    inversions = inversion.compare(album, epsilon=epsilon, seed=seed, watch=_watch)
    solutions = stationary.compare(album, epsilon=epsilon, seed=seed, watch=_watch)
    if plot is not None:
        title = f"What models show of {album.people} of the {data}"
        faces.side_by_side(_rows(album, inversions, solutions), album.shape, title=title, path=plot)
    releases = [*(result.learnt() for result in inversions), *(result.learnt() for result in solutions)]
    if json:
        show.as_json(
            {"data": data, "people": album.people, "releases": [result.to_dict() for result in releases]}
        )
        return
    show.heading(
        f"{len(album.train):,} private images of {album.people} people ({data}), {len(album.public):,} "
        "public ones"
    )
    head = ("model", "attack", "accuracy", "named", "to own", "to others", "to mean")
    show.table(head, [_line(result, album.people) for result in inversions], right=(2, 3, 4, 5, 6))
    show.say("", *(result.reading for result in releases))
    show.say(
        "Confidence, public mean and generator find the class. DP for an image hides whether that image was "
        "there, not what all images of a class have in common: a private model that works can be inverted "
        "all the same. Stationarity finds the images themselves, and that is what DP bounds."
    )


def _rows(
    album: Album, inversions: Sequence[InvertedImages], solutions: Sequence[RecoveredImages]
) -> dict[str, Any]:
    """Images for the picture: the people's own first, then what each attack made of them."""
    rows: dict[str, Any] = {"trained on": album.first, "mean": album.means}
    rows |= {f"{result.model},\nby {result.attack}": result.images for result in inversions}
    return rows | {
        f"{result.model},\nby stationarity": result.nearest[: album.people] for result in solutions
    }


def _line(result: InvertedImages, people: int) -> tuple[str, ...]:
    return (
        result.model,
        result.attack,
        percent(result.accuracy),
        f"{result.hits.sum()} of {people}",
        f"{result.nearest_own.mean():.2f}",
        f"{result.nearest_other.mean():.2f}",
        f"{result.to_mean.mean():.2f}",
    )


def _watch(steps: Iterable[int], words: str) -> Iterable[int]:
    return show.progress(list(steps), words)
