"""The same data attacked with and without protection."""

from deniable.attack import reconstruct
from deniable.attack.learnt import percent, percent_up
from deniable.cli import show

TITLE = "An attack with and without protection: 1,024 secret bits, 4,096 counts over random sets of people"
PEOPLE, QUERIES = 1024, 4096


def play() -> None:
    results = [
        reconstruct.against_noise(PEOPLE, QUERIES, 0.0),
        reconstruct.against_noise(PEOPLE, QUERIES, 0.3),
        reconstruct.against_account(PEOPLE, QUERIES, 1),
    ]
    rows = [(result.release, f"{result.facts['answered']:,}", percent(result.share)) for result in results]
    show.table(("answers", "questions answered", "bits found"), rows, right=(1, 2), best=2)
    ceiling = percent_up(reconstruct.ceiling(1, 1e-6))
    show.say(
        "",
        f"Guessing finds 50 %. From an account of ε = 1, no attack whatever can expect more than {ceiling} "
        "of the bits. More: deniable attack reconstruct --people 4096 --queries 16384 --noise .3",
    )
