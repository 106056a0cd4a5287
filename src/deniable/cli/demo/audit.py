"""The auditor finds a planted bug, and accuses nobody else."""

from deniable import numbers
from deniable.audit import audit
from deniable.audit.bench import case
from deniable.cli import show

TITLE = "The auditor: honest noise, halved noise, and a seed that was used twice"


def play() -> None:
    for name in ("Laplace", "HalvedNoise", "ReusedSeed"):
        target = case(name)
        finding = audit(target, target.pairs(), seed=0, samples=1_000_000)
        claim, bound = numbers.up(float(finding.claim.epsilon)), numbers.down(finding.epsilon)
        differs = " The support differs: one answer betrays the person." if finding.support_differs else ""
        show.say(f"{name}: claimed ε = {claim}, certified ε ≥ {bound}: {finding.verdict}.{differs}")
