"""What ε means."""

from deniable import numbers
from deniable.accounting import meaning
from deniable.cli import show

TITLE = "What ε means: how far one answer can move a belief about one person"


def play() -> None:
    rows = []
    for epsilon in (0.1, 0.5, 1, 3, 8):
        belief = meaning.posterior(0.4, epsilon)
        power = meaning.attacker_power(0.01, epsilon)
        rows.append(
            (
                epsilon,
                numbers.percent_down(belief.low),
                numbers.percent_up(belief.high),
                numbers.percent_up(power),
            )
        )
    show.table(("ε", "40 % falls to", "or rises to", "found at 1 % false alarms"), rows, right=range(4))
    show.say("", "Whoever asks and whatever she knows already. More: deniable explain --epsilon 1 --prior .4")
