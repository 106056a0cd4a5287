"""Who is trusted where noise is placed, in sentences for certificates."""

from __future__ import annotations

from deniable.federated.noise.placement import AnyPlacement, Central, Correlated, OnClient, Shared
from deniable.federated.secure_sum.agreement import Adversary

SERVERS = {
    Adversary.LYING: "may send anything to anybody (adversary: lying)",
    Adversary.CURIOUS: "keeps to the protocol and only reads along (adversary: curious)",
}


def list_assumptions(noise: AnyPlacement) -> tuple[str, ...]:
    """What the reader of a certificate must grant beside the loss."""
    match noise:
        case Central():
            return (
                "The server is trusted: it sees every update, draws cohorts in secret and adds the noise.",
            )
        case Correlated():
            return ("The server is trusted: it sees every update and adds the noise.",)
        case OnClient():
            return (
                "The server may do anything (adversary: lying), and any number of other clients may collude "
                "with it.",
                _rounds(noise.participations),
            )
        case Shared():
            return (
                f"The server {SERVERS[noise.adversary]}, and at most {_clients(noise.colluders)} with it.",
                f"Clients open no sum over fewer than {noise.least} of them, and the list of who may be a "
                "client is right.",
                _rounds(noise.participations),
            )


def adversary_of(noise: AnyPlacement) -> Adversary | None:
    """What the server may do where clients add the noise; None where it is trusted with all they send."""
    match noise:
        case OnClient():
            return Adversary.LYING
        case Shared():
            return noise.adversary
    return None


def _clients(colluders: int) -> str:
    return "1 client colludes" if colluders == 1 else f"{colluders} clients collude"


def _rounds(participations: int) -> str:
    most = "1 round" if participations == 1 else f"{participations} rounds"
    return f"Each client takes part in at most {most}, and keeps count of them itself."
