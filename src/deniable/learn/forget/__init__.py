"""Models to forget from: exactly, by shards, or provably nearly, by one Newton step.

    Shards     an ensemble of models on parts of the rows; to forget is to train one part anew (Bourtoule et
    al. 2021) Removal    a linear model that forgets by a Newton step and publishes with noise (Guo et al.
    2020; Sekhari et al. 2021)

Neither protects those who stay: both are trained on the rows as they are. A model under a guarantee needs
neither, up to the number of people that was declared (`Account.forget`)."""

from deniable.learn.forget.removal import Removal
from deniable.learn.forget.shards import Shards

__all__ = ["Removal", "Shards"]
