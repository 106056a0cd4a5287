"""Steps of private training with planted flaws, of any number of layers, for `deniable.audit.sgd.canaries`.

numpy's generator, floating point: they exist to be attacked and protect nobody.

flaws  what can be wrong
sums   sums of a batch that are not those of clipped rows
noise  noise that is not what the claim says
step   one step with one flaw
"""

from deniable.audit.bench.steps.flaws import Flaw
from deniable.audit.bench.steps.step import FlawedStep

__all__ = ["Flaw", "FlawedStep"]
