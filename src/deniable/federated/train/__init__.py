"""What a client does with the model it was sent: some epochs of gradient descent on its own rows.

Dense chains are trained five clients at a time in batched products, chains with convolutions one client after
the other without a graph, any other model by an ordinary loop; in several processes where one likes.
"""

from deniable.federated.train.recipe import LocalRecipe, LocalTraining, Pupil, parameters_of
from deniable.federated.train.trainers import Trainers, local_training

__all__ = ["LocalRecipe", "LocalTraining", "Pupil", "Trainers", "local_training", "parameters_of"]
