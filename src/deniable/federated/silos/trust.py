"""Who is trusted in a run over silos, in sentences for certificates."""

from __future__ import annotations

from deniable.federated.noise.placement import Central, Shared
from deniable.federated.noise.trust import SERVERS
from deniable.federated.silos.settings import SiloPlacement
from deniable.units import Unit, UnitKind


def list_assumptions(noise: SiloPlacement, unit: Unit, most_silos: int) -> tuple[str, ...]:
    """What the reader of a certificate must grant beside the loss."""
    return (
        *_placement(noise),
        "Each silo draws its lots in secret, and a row is in one silo.",
        *_time(noise),
        *_people(unit, most_silos),
    )


def _placement(noise: SiloPlacement) -> tuple[str, ...]:
    match noise:
        case Central():
            return ("The server is trusted: it sees what each silo sends and adds the noise.",)
        case Shared():
            silos = "1 silo colludes" if noise.colluders == 1 else f"{noise.colluders} silos collude"
            return (
                f"The server {SERVERS[noise.adversary]}, and at most {silos} with it.",
                f"Silos open no sum over fewer than {noise.least} of them, and the list of who may be a silo "
                "is right.",
            )
    return ("The server and the other silos may do anything: each silo adds its own noise.",)


def _time(noise: SiloPlacement) -> tuple[str, ...]:
    """What the time of an answer may tell, where the server is not trusted."""
    if isinstance(noise, Central):
        return ()
    return (
        "Each silo adds up a lot within the time that the run sets for an answer (answer_after). Where a lot "
        "takes longer, the silo answers one step of that time later, and how many steps it takes may tell "
        "about its rows.",
    )


def _people(unit: Unit, most_silos: int) -> tuple[str, ...]:
    if unit.kind is not UnitKind.COLUMN:
        return ()
    where = "1 silo" if most_silos == 1 else f"{most_silos} silos"
    return (
        f"Nobody has rows in more than {where}, and at most {unit.max_rows} rows of a {unit.column_name} "
        "count in each. For a person in more silos the loss is that of so many silos.",
    )
