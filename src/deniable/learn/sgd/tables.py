"""Classifiers for tables: declared bounds and classes in, a model and its description out.

Everything about the table is declared, nothing is read from data: which columns, their bounds or their words,
the classes, the number of rows. A row with a number that is missing or none, or with a target that is none of
the classes, is left out; values beyond the bounds are clamped. Numbers are scaled from their bounds to
[−1, 1]. A column of words is an input for each declared word, 1 where a row has it and else 0; a word that is
not declared, or none, is 0 in all of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from deniable import checks
from deniable.errors import DataError, InvalidParameter


class ModelShape(StrEnum):
    """The models on offer."""

    LINEAR = "linear"
    MLP = "mlp"


@dataclass(frozen=True)
class Feature:
    """A column of numbers with public bounds."""

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = (float(checks.number(f"bound of {self.name}", v)) for v in (self.low, self.high))
        if not low < high:
            raise InvalidParameter(f"Expected the bounds {low:g} < {high:g} of the feature {self.name!r}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def width(self) -> int:
        """How many inputs of a model it is."""
        return 1

    def inputs(self, column: Any) -> NDArray[np.float64]:
        """Numbers from the bounds to [−1, 1], clamped; NaN stays."""
        values = np.clip(_numbers(column), self.low, self.high)
        return np.asarray((values - self.low) / ((self.high - self.low) / 2) - 1)[:, None]


@dataclass(frozen=True)
class WordFeature:
    """A column of words, of which all that count are public."""

    name: str
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        words = [str(word).strip() for word in self.words]
        object.__setattr__(self, "words", tuple(checks.choices(f"words of {self.name}", words, at_least=2)))

    @property
    def width(self) -> int:
        return len(self.words)

    def inputs(self, column: Any) -> NDArray[np.float64]:
        """1 for the word that a row has, 0 for the others."""
        return np.asarray(_places(column, self.words)[:, None] == np.arange(self.width), np.float64)


AnyFeature: TypeAlias = Feature | WordFeature


def declared_feature(name: str, values: Sequence[Any]) -> AnyFeature:
    """Two numbers are bounds; anything else is a list of words.

    >>> declared_feature("ward", ["surgery", "maternity"])
    WordFeature(name='ward', words=('surgery', 'maternity'))
    """
    if len(values) == 2 and all(isinstance(value, int | float) for value in values):
        return Feature(name, *values)
    return WordFeature(name, tuple(map(_word, values)))


def parse_feature(text: str) -> AnyFeature:
    """`NAME:LOW:HIGH`, or `NAME:WORD,WORD,…`.

    >>> parse_feature("age:0:100"), parse_feature("ward:surgery,maternity")
    (Feature(name='age', low=0.0, high=100.0), WordFeature(name='ward', words=('surgery', 'maternity')))
    """
    name, _, rest = text.partition(":")
    low, _, high = rest.partition(":")
    if name and "," in rest:
        return WordFeature(name, tuple(rest.split(",")))
    try:
        bounds = float(low), float(high)
    except ValueError:
        raise InvalidParameter(
            f"Expected a feature like age:0:100, or ward:surgery,maternity for words, got {text!r}."
        ) from None
    return Feature(name, *bounds)


@dataclass(frozen=True)
class Table:
    """What is declared about a table, and a model for it."""

    features: tuple[AnyFeature, ...]
    target: str
    classes: tuple[str, ...]
    shape: ModelShape = ModelShape.LINEAR
    hidden: int = 64

    def __post_init__(self) -> None:
        names = [feature.name for feature in self.features]
        checks.choices("features", names)
        checks.choices("classes", self.classes, at_least=2)
        checks.whole("hidden", self.hidden, at_least=1)
        if self.target in names:
            raise InvalidParameter(f"Expected the target {self.target!r} to be none of the features.")

    @property
    def inputs(self) -> int:
        """The inputs of a model: a number is one, a column of words as many as it has words."""
        return sum(feature.width for feature in self.features)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Which inputs are numbers."""
        starts = np.cumsum([0, *(feature.width for feature in self.features)])
        return tuple(int(at) for at, f in zip(starts, self.features, strict=False) if isinstance(f, Feature))

    def model(self) -> nn.Module:
        """A new model with weights drawn at random."""
        inputs, outputs = self.inputs, len(self.classes)
        if self.shape is ModelShape.LINEAR:
            return nn.Linear(inputs, outputs)
        return nn.Sequential(nn.Linear(inputs, self.hidden), nn.Tanh(), nn.Linear(self.hidden, outputs))

    def read(self, path: Path) -> tuple[Tensor, Tensor]:
        """Inputs and targets from a parquet or CSV file; a row that is to be left out has NaN inputs."""
        return self._rows(_columns(path, self._names))

    def read_owned(self, path: Path, owner: str) -> tuple[Tensor, Tensor, Any]:
        """Inputs, targets, and the column that says whose a row is."""
        if owner in self._names:
            raise InvalidParameter(
                f"Expected the owner {owner!r} of a row to be neither a feature nor the target."
            )
        columns = _columns(path, [*self._names, owner])
        return *self._rows(columns), columns[owner]

    @property
    def _names(self) -> list[str]:
        return [*(feature.name for feature in self.features), self.target]

    def _rows(self, columns: dict[str, Any]) -> tuple[Tensor, Tensor]:
        labels = _places(columns[self.target], [name.strip() for name in self.classes])
        x = np.empty((len(labels), self.inputs), np.float32)
        start = 0
        for feature in self.features:
            x[:, start : start + feature.width] = feature.inputs(columns[feature.name])
            start += feature.width
        x[labels < 0] = np.nan
        return torch.from_numpy(x), torch.from_numpy(np.maximum(labels, 0))

    def refuse_types(self, path: Path) -> None:
        """Raise if a feature's column is of a type that holds no numbers, whatever its
        rows are: each would be left out."""
        if path.suffix != ".parquet":
            return  # a CSV file has no types
        schema = pyarrow.parquet.read_schema(path)
        words = [
            f.name
            for f in self.features
            if isinstance(f, Feature) and f.name in schema.names and not _is_number(schema.field(f.name).type)
        ]
        if words:
            raise DataError(
                f"The column {', '.join(map(repr, words))} of {path.name} is no column of numbers by its "
                "type: every row would be left out. Nothing was charged. Declare its words instead of "
                f"bounds: --feature {words[0]}:WORD,WORD,… or a list of them in the schema."
            )

    def accuracy(self, model: nn.Module, path: Path) -> float:
        """The share of a public file's readable rows that the model names rightly; NaN if there is none."""
        x, y = self.read(path)
        good = torch.isfinite(x).all(dim=1)
        with torch.no_grad():
            right = model(x[good]).argmax(dim=1) == y[good]
        return float(right.float().mean()) if len(right) else math.nan

    def save(self, model: nn.Module, folder: Path) -> None:
        """`model.pt`, the weights, and `model.json`, all that is needed to use them."""
        torch.save(model.state_dict(), folder / "model.pt")
        (folder / "model.json").write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def cross_entropy(outputs: Tensor, classes: Tensor) -> Tensor:
    """One loss per row."""
    return nn.functional.cross_entropy(outputs, classes, reduction="none")


def load(folder: Path) -> tuple[Table, nn.Module]:
    """What `Table.save` wrote."""
    description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    features = tuple(
        WordFeature(f["name"], tuple(f["words"])) if "words" in f else Feature(**f)
        for f in description["features"]
    )
    table = Table(
        features,
        description["target"],
        tuple(description["classes"]),
        ModelShape(description["shape"]),
        description["hidden"],
    )
    model = table.model()
    model.load_state_dict(torch.load(folder / "model.pt", weights_only=True))
    return table, model


def columns_of(path: Path) -> list[str]:
    """The names of a file's columns, for the owner."""
    if path.suffix == ".parquet":
        return list(pyarrow.parquet.read_schema(path).names)
    with pyarrow.csv.open_csv(path) as file:
        return list(file.schema.names)


def _columns(path: Path, names: Sequence[str]) -> dict[str, Any]:
    if path.suffix not in (".parquet", ".csv"):
        raise DataError(f"Expected a file that ends in .parquet or .csv, got {path.name}.")
    missing = [name for name in names if name not in columns_of(path)]
    if missing:
        raise DataError(
            f"The file {path.name} has no column {', '.join(map(repr, missing))}. Nothing was charged. (A "
            "CSV file begins with a line of names, with commas between them.)"
        )
    if path.suffix == ".parquet":
        table = pyarrow.parquet.read_table(path, columns=list(dict.fromkeys(names)))
    else:
        # As text: the type that a reader would infer for a column depends on every row.
        kinds = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), include_columns=list(names)
        )
        table = pyarrow.csv.read_csv(path, convert_options=kinds)
    return {name: table.column(name) for name in names}


def _places(column: Any, words: Sequence[str]) -> NDArray[np.int64]:
    """The place of each value among the words, −1 for none of them; blanks around a word do not count."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind):
        texts = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
        indices = pc.index_in(texts, value_set=pa.array(words, pa.large_string()))
        return np.array(pc.fill_null(indices, -1).to_numpy(), np.int64)
    places = {word: place for place, word in enumerate(words)}
    return np.array([places.get(_word(value).strip(), -1) for value in column.to_pylist()], np.int64)


def _numbers(column: Any) -> NDArray[np.float64]:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
    return np.array([_number(value) for value in column.to_pylist()], np.float64)


def _is_number(kind: Any) -> bool:
    types = pa.types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _word(value: Any) -> str:
    """A class as text: 3.0 is "3", as in a column of whole numbers with a gap."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
