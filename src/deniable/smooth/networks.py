"""Small networks as sequences of plain layers, saved as numbers and names: no file that
is read here runs code."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

from deniable.errors import DataError, InvalidParameter

FORMAT = "deniable network 1"
PLAIN: dict[str, tuple[type[nn.Module], tuple[str, ...]]] = {
    "Linear": (nn.Linear, ("in_features", "out_features", "bias")),
    "Conv2d": (
        nn.Conv2d,
        ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias"),
    ),
    "BatchNorm1d": (nn.BatchNorm1d, ("num_features", "eps")),
    "BatchNorm2d": (nn.BatchNorm2d, ("num_features", "eps")),
    "ReLU": (nn.ReLU, ()),
    "GELU": (nn.GELU, ()),
    "Tanh": (nn.Tanh, ()),
    "Flatten": (nn.Flatten, ("start_dim", "end_dim")),
    "MaxPool2d": (nn.MaxPool2d, ("kernel_size", "stride", "padding")),
    "AvgPool2d": (nn.AvgPool2d, ("kernel_size", "stride", "padding")),
    "AdaptiveAvgPool2d": (nn.AdaptiveAvgPool2d, ("output_size",)),
    "Dropout": (nn.Dropout, ("p",)),
    "Identity": (nn.Identity, ()),
}
"""Layers that a saved network may have, with what makes each."""


def save(network: nn.Sequential, path: Path) -> Path:
    """Write a sequence of plain layers with its weights."""
    layers = [_describe(layer) for layer in network]
    torch.save({"format": FORMAT, "layers": layers, "state": network.state_dict()}, path)
    return path


def load(path: Path) -> nn.Module:
    """Read what `save` wrote, or a program of `torch.export` (ending in .pt2); neither
    runs code of the file."""
    if path.suffix == ".pt2":
        program: nn.Module = torch.export.load(path).module()
        return program
    try:
        value = torch.load(path, weights_only=True, map_location="cpu")
    except FileNotFoundError:
        raise
    except Exception as error:  # what torch raises on files that are none of its own is not one kind
        raise DataError(
            f"{path} is no network that can be read without running its code ({type(error).__name__}): write "
            "it by deniable.smooth.networks.save, or export it (torch.export.save, ending in .pt2)."
        ) from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise DataError(
            f"{path} holds no network but {type(value).__name__}: write it by deniable.smooth.networks.save, "
            "which keeps the layers beside the weights."
        )
    network = nn.Sequential(*(_layer(layer) for layer in value["layers"]))
    network.load_state_dict(value["state"])
    return network.eval()


def perceptron(inputs: int = 784, classes: int = 10, widths: tuple[int, ...] = (256, 64)) -> nn.Sequential:
    """Linear layers with ReLU between: the first is what a noise bank saves."""
    sizes = (inputs, *widths)
    hidden: list[nn.Module] = []
    for a, b in pairwise(sizes):
        hidden += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(sizes[-1], classes))


def convolutional(channels: int = 1, side: int = 28, classes: int = 10, width: int = 16) -> nn.Sequential:
    """Two convolutions of stride 2 and two linear layers."""
    small = (side + 3) // 4
    return nn.Sequential(
        nn.Conv2d(channels, width, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * width * small * small, 8 * width),
        nn.ReLU(),
        nn.Linear(8 * width, classes),
    )


def patches(channels: int = 1, side: int = 28, classes: int = 10, width: int = 16) -> nn.Sequential:
    """One convolution over overlapping patches, then linear layers: most of the work is
    what a noise bank saves."""
    grid_side = (side - 4) // 4 + 1
    return nn.Sequential(
        nn.Conv2d(channels, width, 8, stride=4, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(width * grid_side * grid_side, 64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )


def colour(classes: int = 10, width: int = 32) -> nn.Sequential:
    """Four convolutions with batch normalisation, for 32 × 32 colour pictures in CPU minutes."""
    return nn.Sequential(
        *_block(3, width, 2),
        *_block(width, 2 * width, 1),
        *_block(2 * width, 2 * width, 2),
        *_block(2 * width, 4 * width, 1),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * width, classes),
    )


def _block(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs), nn.ReLU()]


def _describe(layer: nn.Module) -> dict[str, Any]:
    name = type(layer).__name__
    if PLAIN.get(name, (None,))[0] is not type(layer):
        raise InvalidParameter(
            f"Expected plain layers ({', '.join(PLAIN)}), got {name}: export the module instead."
        )
    settings = {key: getattr(layer, key) for key in PLAIN[name][1]}
    return {"kind": name} | {k: v is not None if k == "bias" else v for k, v in settings.items()}


def _layer(value: dict[str, Any]) -> nn.Module:
    options = dict(value)
    name = str(options.pop("kind"))
    if name not in PLAIN or not set(options) <= set(PLAIN[name][1]):
        raise DataError(f"Expected plain layers in a saved network ({', '.join(PLAIN)}), got {name}.")
    return PLAIN[name][0](**options)
