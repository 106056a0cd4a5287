"""Packages that take seconds to import and that one file of tests needs: every process collects that file, few run it."""

from __future__ import annotations

import importlib
import warnings
from typing import Any


class Lazy:
    """A package that is imported when it is first asked for something.

    >>> Lazy("math").sqrt(4)
    2.0
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(importlib.import_module(self._name), attribute)
