"""The pictures of the documentation, made by the project's own code (`make figures`).

    python -m tools.figures              those that are missing
    python -m tools.figures --all        all of them, anew
    python -m tools.figures cost answer  these

They are kept in docs/images, so that a reader of the repository sees them too.
"""

from __future__ import annotations

import argparse
import io
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from typer.testing import CliRunner

import deniable as dp
from deniable.accounting.radius import radius
from deniable.accounting.radius.input_noise import Gaussian, Laplace, Uniform
from deniable.cli.app import app
from deniable.mechanisms import Gaussian as GaussianMechanism
from deniable.mechanisms import Laplace as LaplaceMechanism
from deniable.plots import COLOURS, axes, empty, save
from deniable.randomness import SeededRandom
from deniable.reproduce import load
from tools import diagrams

IMAGES = Path(__file__).parent.parent / "docs" / "images"

COMMANDS = {
    "cost": "cost --rate .01 --noise 4 --steps 10000 --delta 1e-5 --plot {}",
    "explain": "explain --epsilon 1 --prior .4 --plot {}",
    "reconstruct": "attack reconstruct --people 512 --queries 2048 --noise .3 --plot {}",
    "link": "attack link --plot {}",
    "invert": "attack invert --data digits --plot {}",
    "invert-faces": "attack invert --data faces --plot {}",
    "audit": "audit HalvedNoise --samples 200000 --seed 1 --plot {}",
}
"""Pictures that a command draws with --plot."""

PAPERS = {
    "laplace-vs-exponential": "laplace-vs-exponential",
    "randomized-response": "randomized-response",
    "moments-accountant": "abadi-figure2",
    "laplace-utility": "laplace-utility",
    "local-vs-central": "local-vs-central",
    "hospital-visits": "hospital-visits",
    "forgetting": "forgetting",
    "who-pays": "who-pays",
}
"""Pictures that a reproduction draws; those from published data need the data (`DENIABLE_DATA`)."""

TERMINALS = {
    "terminal-cost": "cost --rate .01 --noise 4 --steps 10000 --delta 1e-5",
    "terminal-explain": "explain --epsilon 1 --prior .4",
}
"""What a terminal shows, as a drawing of its text."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="pictures, without their ending")
    parser.add_argument("--all", action="store_true", help="those that are there already too")
    options = parser.parse_args()
    IMAGES.mkdir(exist_ok=True)
    for name, draw in figures().items():
        path = IMAGES / name
        if (path.stem in options.names) if options.names else (options.all or not path.exists()):
            draw(path)
            print(path.relative_to(IMAGES.parent.parent))  # noqa: T201


def figures() -> dict[str, Callable[[Path], object]]:
    """Every picture by the name of its file."""
    commands = {f"{name}.png": _command(words) for name, words in COMMANDS.items()}
    papers = {f"{name}.png": _paper(paper) for name, paper in PAPERS.items()}
    terminals = {f"{name}.svg": _terminal(words) for name, words in TERMINALS.items()}
    own = {
        "answer.png": answer,
        "noise.png": noise,
        "budget.png": budget,
        "radius.png": radii,
        "gaussian.png": gaussian,
        "membership.png": membership,
        "dpsgd.png": training,
        "federated.png": federated,
        "pate.png": votes,
        "leaves.png": leaves,
    }
    walks = {f"{name}.svg": _walk(name) for name in diagrams.WALKS}
    return commands | papers | terminals | walks | own


def _run(words: str) -> str:
    result = CliRunner().invoke(app, shlex.split(words), env={"COLUMNS": "88"}, catch_exceptions=False)
    return result.output


def _command(words: str) -> Callable[[Path], object]:
    def draw(path: Path) -> None:
        _run(words.format(shlex.quote(str(path))))
        if not path.exists():
            raise SystemExit(f"deniable {words} drew nothing.")

    return draw


def _paper(name: str) -> Callable[[Path], object]:
    def draw(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(load(name).run(Path(folder), lambda items, _: items).figure, path)

    return draw


def _terminal(words: str) -> Callable[[Path], object]:
    def draw(path: Path) -> None:
        screen = Console(record=True, width=88, file=io.StringIO(), highlight=False)
        screen.print(f"[bold]$ deniable {words}[/]")
        screen.print(_run(words), markup=False)
        screen.save_svg(str(path), title="deniable")

    return draw


def _walk(name: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(diagrams.walk(name) + "\n", encoding="utf-8")


def answer(path: Path) -> None:
    """Visits by diagnosis, as the README asks for them."""
    with tempfile.TemporaryDirectory() as folder:
        hospital = dp.Curator.open(
            dp.datasets.visits(200_000),
            name="visits",
            unit=dp.Unit.column("patient_id", max_rows=12),
            limit=dp.Budget(epsilon=3, delta=1e-6),
            bounds={"days": (0, 60)},
            ledger=f"sqlite:///{folder}/hospital.db",
        )
        hospital.sql(
            "SELECT diagnosis, COUNT(*) AS n, AVG(days) AS days FROM visits GROUP BY diagnosis ORDER BY n DESC",
            epsilon=0.5,
            most_rows=12,
        ).plot(path=path)


def noise(path: Path) -> None:
    """Draws of integer Laplace noise beside their exact law, for two values of ε."""
    picture, plane = axes(title="Integer Laplace noise on a count: draws and law", x="noise", y="probability")
    rng = SeededRandom(0)
    for epsilon, colour in ((0.5, COLOURS[0]), (2, COLOURS[1])):
        mechanism = LaplaceMechanism.for_budget(epsilon=epsilon)
        draws = np.array([mechanism(0, rng=rng) for _ in range(20_000)])
        values, counts = np.unique(draws[abs(draws) <= 10], return_counts=True)
        plane.bar(
            values, counts / len(draws), width=0.8, color=colour, alpha=0.4, label=f"ε = {epsilon:g}, draws"
        )
        a = np.exp(-epsilon)
        law = (1 - a) / (1 + a) * a ** np.abs(np.arange(-10, 11))
        plane.plot(
            np.arange(-10, 11),
            law,
            "o-",
            color=colour,
            markersize=3,
            linewidth=1,
            label=f"ε = {epsilon:g}, law",
        )
    plane.legend(frameon=False)
    save(picture, path)


def budget(path: Path) -> None:
    """What k equal Gaussian counts cost together: added up, and as accounting composes them."""
    counts = np.unique(np.geomspace(1, 300, 24).astype(int))
    one = GaussianMechanism.for_budget(0.1, 1e-8).loss
    single = dp.epsilon(one, 1e-6).upper
    picture, plane = axes(
        title="What k counts cost together (δ = 1e-6)", x="number of counts", y="ε of all of them"
    )
    plane.plot(counts, counts * single, "--", label="added up")
    plane.plot(
        counts,
        [dp.epsilon(one * int(k), 1e-6).upper for k in counts],
        label="composed (what an account charges)",
    )
    plane.legend(frameon=False)
    save(picture, path)


def radii(path: Path) -> None:
    """The certified radius by the probability of the first class, for three noises of the same deviation."""
    picture, plane = axes(
        title="How far an answer certainly holds (noise of deviation 1)",
        x="probability of the class",
        y="certified radius",
    )
    chances = np.linspace(0.51, 0.995, 60)
    noises = {"Gaussian, ℓ2": Gaussian(1), "Laplace, ℓ1": Laplace(2**-0.5), "uniform, ℓ1": Uniform(3**0.5)}
    for label, drawn in noises.items():
        bounds = [radius(lambda r, drawn=drawn: drawn.loss_at(r), p, 1 - p).lower for p in chances]
        plane.plot(chances, bounds, label=label)
    plane.legend(frameon=False)
    save(picture, path)


def gaussian(path: Path) -> None:
    """δ against ε for Gaussian noise of several sizes."""
    picture, plane = axes(title="Gaussian noise: every ε has its δ", x="ε", y="δ")
    values = np.linspace(0, 8, 60)
    for multiplier in (0.5, 1, 2, 4):
        loss = dp.GaussianNoise(multiplier)
        plane.plot(
            values, [dp.delta(loss, e).upper for e in values], label=f"σ = {multiplier:g} × the sensitivity"
        )
    plane.set_yscale("log")
    plane.set_ylim(1e-12, 1)
    plane.legend(frameon=False, loc=(0.66, 0.42))
    save(picture, path)


def membership(path: Path) -> None:
    """Members that the best attacker finds, by her false alarms, for several ε."""
    picture, plane = axes(
        title="Membership: the best attack there can be", x="false alarms (FPR)", y="members found (TPR)"
    )
    alarms = np.geomspace(1e-4, 1, 80)
    for epsilon in (0.5, 1, 2, 4, 8):
        plane.plot(alarms, dp.tradeoff(dp.Pure(epsilon), alarms).power, label=f"ε = {epsilon:g}")
    plane.plot(alarms, alarms, "--", color=COLOURS[7], label="guessing")
    plane.set_xscale("log")
    plane.set_yscale("log")
    plane.legend(frameon=False)
    save(picture, path)


def training(path: Path) -> None:
    """ε of DP-SGD by noise multiplier, for several numbers of epochs."""
    picture, plane = axes(title="DP-SGD: lots of 1 % of the rows, δ = 1e-5", x="noise multiplier", y="ε")
    noises = np.geomspace(0.6, 8, 16)
    for epochs in (1, 10, 100):
        costs = [
            dp.epsilon(dp.GaussianNoise(float(z)).sampled(0.01) * (100 * epochs), 1e-5).upper for z in noises
        ]
        plane.plot(noises, costs, label=f"{epochs} epoch{'s' * (epochs > 1)}")
    plane.set_xscale("log")
    plane.set_yscale("log")
    plane.legend(frameon=False)
    save(picture, path)


def federated(path: Path) -> None:
    """Noise on the mean update by where it is added, at equal ε."""
    picture, plane = axes(
        title="Noise on the mean of 100 clients (clip 1, ε = 2, δ = 1e-5, 50 rounds)",
        x="where the noise is added",
        y="deviation of the noise",
    )
    central = float(dp.accounting.calibrate_noise(2, 1e-5, rate=0.1, steps=50))
    local = 2 * float(dp.accounting.calibrate_noise(2, 1e-5, rate=1, steps=5))
    places = {"central\n(server trusted)": central / 100, "on each client\n(nobody trusted)": local / 10}
    plane.bar(list(places), list(places.values()), color=[COLOURS[0], COLOURS[1]], width=0.5)
    save(picture, path)


def votes(path: Path) -> None:
    """How often noisy votes of 250 teachers name the right class, by the lead of the winner."""
    picture, plane = axes(
        title="PATE: 250 teachers vote, noise is added", x="lead of the winner, votes", y="right label"
    )
    leads, rng = np.arange(0, 161, 8), np.random.default_rng(0)
    for sigma in (20, 40, 80):
        noises = rng.normal(0, sigma, (4000, 2))
        plane.plot(
            leads, [np.mean(lead + noises[:, 0] > noises[:, 1]) for lead in leads], label=f"σ = {sigma}"
        )
    plane.legend(frameon=False)
    save(picture, path)


def leaves(path: Path) -> None:
    """What the features for photographs are learnt from: drawn leaves that cover one another."""
    from deniable.learn.recipes.leaves import pictures

    picture = empty(7.0, 1.6)
    for i, drawing in enumerate(pictures(6, 32)):
        plane = picture.add_subplot(1, 6, i + 1)
        plane.imshow(drawing.permute(1, 2, 0).numpy(), interpolation="nearest")
        plane.set_axis_off()
    picture.suptitle("Drawn pictures that take the place of photographs: nobody is in them", fontsize=10)
    save(picture, path)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
