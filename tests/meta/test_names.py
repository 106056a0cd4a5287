"""One public class name has one meaning in the whole package."""

from __future__ import annotations

from tools.house import source, twice

TWINS = {"Laplace", "TruncatedGeometric", "Rappor"}
"""Cases of the auditor's bench are named after the mechanism that they imitate, soundly or not."""

INPUTS = {"Gaussian", "Laplace", "Uniform"}
"""Noise on an input (`accounting.input_noise`), beside the mechanism and the weights of the same name."""

LAYERS = {"Convolution", "Linear", "Link", "Pool", "Table"}
"""A layer of a network as a link of a chain, as a tap, and stacked over clients: the word is torch's."""

FLAVOURS = {"PrivateStrategy"}
"""The same class for `lightning.pytorch` and for `pytorch_lightning`, whose classes do not know one another."""

KEPT = {"Filter"}
"""A filter of losses, and the node of a query. The node's name stands in the keys of answers that are kept: under
another one they would be asked, and charged, again."""

ALLOWED = TWINS | INPUTS | LAYERS | FLAVOURS | KEPT
"""No more than there are: a name that stands once leaves the list."""


def test_a_public_class_name_has_one_meaning() -> None:
    assert set(twice(source())) == ALLOWED
