"""Real data sets of the field, from a folder, the user's cache, or their publishers.

>>> load("mist")
Traceback (most recent call last):
deniable.errors.InvalidParameter: Expected the name of a data set, got 'mist'. There are: adult, ...

    mnist               60,000 + 10,000 handwritten digits, 28 × 28 (LeCun, Cortes, Burges; CC BY-SA 3.0)
    cifar10             50,000 + 10,000 colour pictures, 32 × 32 (Krizhevsky 2009; no licence stated)
    adult               32,561 + 16,281 people of the 1994 US census (UCI, doi 10.24432/C5XW20, CC BY 4.0)
    census-kdd          199,523 + 99,762 people, 42 columns (UCI, doi 10.24432/C5N30T, CC BY 4.0)
    diabetes-hospitals  101,766 visits of 71,518 patients, 50 columns (UCI, doi 10.24432/C5230J, CC BY 4.0)
    german-credit       1,000 credits, 20 attributes (UCI, doi 10.24432/C5NC77, CC BY 4.0)
    california-housing  20,640 block groups of the 1990 census (Pace, Barry 1997, StatLib; no licence stated)
    location30          5,010 users' check-ins in Bangkok (Yang et al. 2016; Shokri et al. 2017; research use)
    orl-faces           40 people × 10 images, 112 × 92 (AT&T Laboratories Cambridge; credit asked)
    tiny-shakespeare    1,115,394 characters of plays (Karpathy's char-rnn; public domain)

Missing values stay as published ("?").
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, overload

from deniable.datasets import readers
from deniable.datasets.fetch import RemoteFile, fetch
from deniable.datasets.readers import CheckIns, Faces, FileTable, Images
from deniable.errors import DataError, InvalidParameter

__all__ = ["CheckIns", "Faces", "FileTable", "Images", "load", "names"]

VARIABLE = "DENIABLE_DATA"

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_GITHUB = "https://raw.githubusercontent.com"

Data = Images | FileTable | CheckIns | Faces | str


@dataclass(frozen=True)
class ImageSource:
    """How a set is read from a folder, and where its publisher keeps it."""

    read: Callable[[Path], Data]
    remotes: tuple[RemoteFile, ...]


def _file(base: str, name: str, checksum: str | None) -> RemoteFile:
    return RemoteFile(f"{base}/{name}", {name: checksum})


SOURCES = {
    "mnist": ImageSource(
        readers.mnist,
        (
            _file(
                _MNIST,
                "train-images-idx3-ubyte.gz",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            _file(
                _MNIST,
                "train-labels-idx1-ubyte.gz",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            _file(
                _MNIST,
                "t10k-images-idx3-ubyte.gz",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            _file(
                _MNIST,
                "t10k-labels-idx1-ubyte.gz",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
    ),
    "cifar10": ImageSource(
        readers.cifar10,
        (
            RemoteFile(
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                {
                    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
                },
            ),
        ),
    ),
    "adult": ImageSource(
        readers.adult,
        (
            _file(
                f"{_UCI}/adult",
                "adult.data",
                "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            ),
            _file(
                f"{_UCI}/adult",
                "adult.test",
                "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
            ),
        ),
    ),
    "census-kdd": ImageSource(
        readers.census_kdd,
        tuple(
            _file(f"{_UCI}/census-income-mld", f"census-income.{part}.gz", None) for part in ("data", "test")
        ),
    ),
    "diabetes-hospitals": ImageSource(
        readers.diabetes_hospitals,
        (
            RemoteFile(
                "https://archive.ics.uci.edu/static/public/296/"
                "diabetes+130-us+hospitals+for+years+1999-2008.zip",
                {"diabetic_data.csv": "502f0cc004e4cf71536ec2e61596e42f"},
            ),
        ),
    ),
    "german-credit": ImageSource(
        readers.german_credit,
        (
            _file(
                f"{_UCI}/statlog/german",
                "german.data",
                "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
            ),
        ),
    ),
    "california-housing": ImageSource(
        readers.california_housing,
        (
            _file(
                f"{_GITHUB}/ageron/handson-ml2/1e2115277b50f6c584cd668fa30e3af309a5b136/datasets/housing",
                "housing.csv",
                "8a3727f4cf54ac1a327f69b1d5b4db54c5834ea81c6e4efc0d163300022a685e",
            ),
        ),
    ),
    "location30": ImageSource(
        readers.location30,
        (
            _file(
                f"{_GITHUB}/privacytrustlab/datasets/169de9de00de049dd2e571cf7279e64698ac046a",
                "dataset_location.tgz",
                "927203f85a868f8ee17a0ded1dc61699efe602167beabe34fbf45b4b1de94b33",
            ),
        ),
    ),
    "orl-faces": ImageSource(
        readers.orl_faces,
        (_file("https://www.cl.cam.ac.uk/Research/DTG/attarchive/pub/data", "att_faces.zip", None),),
    ),
    "tiny-shakespeare": ImageSource(
        readers.tiny_shakespeare,
        (
            _file(
                f"{_GITHUB}/karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare",
                "input.txt",
                "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            ),
        ),
    ),
}

_Images = Literal["mnist", "cifar10"]
_Tables = Literal["adult", "census-kdd", "diabetes-hospitals", "german-credit", "california-housing"]


def names() -> list[str]:
    """Every data set there is."""
    return sorted(SOURCES)


@overload
def load(name: _Images, folder: str | Path | None = None) -> Images: ...
@overload
def load(name: _Tables, folder: str | Path | None = None) -> FileTable: ...
@overload
def load(name: Literal["location30"], folder: str | Path | None = None) -> CheckIns: ...
@overload
def load(name: Literal["orl-faces"], folder: str | Path | None = None) -> Faces: ...
@overload
def load(name: Literal["tiny-shakespeare"], folder: str | Path | None = None) -> str: ...
@overload
def load(name: str, folder: str | Path | None = None) -> Data: ...
def load(name: str, folder: str | Path | None = None) -> Data:
    """The data set `name`: from `folder`, else `$DENIABLE_DATA`, else the user's cache,
    else downloaded into the cache.

    A folder holds the files themselves or a sub-folder of the set's name with them. A download is checked
    against the checksum that is pinned here, where the publisher's file is known; files that you lay out
    yourself are taken as they are.
    """
    if name not in SOURCES:
        raise InvalidParameter(
            f"Expected the name of a data set, got {name!r}. There are: {', '.join(names())}."
        )
    source = SOURCES[name]
    for place in _places(name, folder):
        if place.is_dir():
            try:
                return source.read(place)
            except FileNotFoundError:
                continue
    if folder is not None:
        raise DataError(
            f"Expected the files of {name} in {folder} or in its folder {name!r}. {_describe_files(source)}"
        )
    _fetch_all(name, source)
    return source.read(cache() / name)


def cache() -> Path:
    """Where downloads are kept."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "deniable"


def _places(name: str, folder: str | Path | None) -> list[Path]:
    if folder is not None:
        return [Path(folder) / name, Path(folder)]
    setting = os.environ.get(VARIABLE)
    return [*([Path(setting) / name] if setting else []), cache() / name]


def _fetch_all(name: str, source: ImageSource) -> None:
    for remote in source.remotes:
        if all((cache() / name / file).is_file() for file in remote.files):
            continue
        try:
            fetch(remote, cache() / name)
        except OSError as error:
            raise DataError(
                f"The data set {name} is not in ${VARIABLE} or the cache {cache()}, and could not be "
                f"downloaded from {remote.url}: {cast(object, getattr(error, 'reason', error))}. Fetch it by "
                f"other means, and give its folder or set {VARIABLE}. {_describe_files(source)}"
            ) from None


def _describe_files(source: ImageSource) -> str:
    files = [file for remote in source.remotes for file in remote.files]
    return f"Its publisher's files are {', '.join(files)}."
