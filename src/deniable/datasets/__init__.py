"""Example data: made up from a seed, so that nobody is in it, or printed in a paper.

`hospital` nine rows · `people` zip, birth date, sex and a diagnosis · `ratings` sparse, with dates · `steps`
daily step counts · `blocks` census blocks · `survey` a yes/no question that a model learns from · `visits` to
a hospital, several a person

`load("mnist")` and its like read real data sets from a folder, `$DENIABLE_DATA`, the
user's cache, or their publisher.
"""

from deniable.datasets.blocks import blocks
from deniable.datasets.hospital import hospital
from deniable.datasets.people import people
from deniable.datasets.ratings import Ratings, ratings
from deniable.datasets.real import load
from deniable.datasets.steps import steps
from deniable.datasets.survey import Survey, survey
from deniable.datasets.visits import visits

__all__ = [
    "Ratings",
    "Survey",
    "blocks",
    "hospital",
    "load",
    "people",
    "ratings",
    "steps",
    "survey",
    "visits",
]
