"""Real data sets are read as published, found where they lie, and never kept if their checksum is wrong."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from deniable.datasets import fetch, real
from deniable.datasets.fetch import RemoteFile
from deniable.errors import DataError, InvalidParameter

RNG = np.random.default_rng(0)


def idx(values: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return gzip.compress(b"\0\0\x08" + bytes([values.ndim]) + sizes + values.tobytes())


def write_mnist(folder: Path) -> np.ndarray:
    folder.mkdir(parents=True)
    images = RNG.integers(0, 256, (7, 28, 28)).astype(np.uint8)
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(idx(images))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(idx(np.arange(7, dtype=np.uint8)))
    return images


def test_mnist_is_read_from_its_own_files(tmp_path: Path) -> None:
    images = write_mnist(tmp_path / "mnist")
    data = real.load("mnist", tmp_path)
    assert np.array_equal(data.images, images)
    assert data.labels.tolist() == list(range(7))
    assert np.array_equal(real.load("mnist", tmp_path / "mnist").test_images, images)


def test_cifar10_keeps_colours_apart(tmp_path: Path) -> None:
    rows = RNG.integers(0, 256, (3, 3073)).astype(np.uint8)
    rows[:, 0] = [3, 0, 9]
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        (tmp_path / name).write_bytes(rows.tobytes())
    data = real.load("cifar10", tmp_path)
    assert data.images.shape == (15, 3, 32, 32)
    assert np.array_equal(data.images[1, 2], rows[1, 1 + 2048 :].reshape(32, 32))
    assert [data.classes[label] for label in data.test_labels] == ["cat", "airplane", "truck"]


ADULT = b"39, State-gov, 77516, Bachelors, 13, Never-married, ?, Not-in-family, White, Male, 2174, 0, 40, United-States, <=50K"


def test_the_two_parts_of_adult_have_the_same_labels(tmp_path: Path) -> None:
    (tmp_path / "adult.data").write_bytes(ADULT + b"\n\n")
    (tmp_path / "adult.test.gz").write_bytes(gzip.compress(b"|1x3 Cross validator\n" + ADULT + b".\n"))
    data = real.load("adult", tmp_path)
    assert data.test is not None
    assert data.table.to_pylist() == data.test.to_pylist()
    assert (
        data.table.to_pylist()[0] | {"age": 39, "occupation": "?", "income": "<=50K"}
        == data.table.to_pylist()[0]
    )


def test_census_is_read_as_text_and_as_parquet(tmp_path: Path) -> None:
    columns = real.readers.CENSUS.split()
    line = ", ".join(["73", " Not in universe", *["0"] * 39, "- 50000."]).encode()
    for part in ("data", "test"):
        (tmp_path / f"census-income.{part}.gz").write_bytes(gzip.compress(line + b"\n"))
    text = real.load("census-kdd", tmp_path)
    assert text.table.column_names == columns
    assert text.table["income"].to_pylist() == ["- 50000."]
    for part in ("train", "test"):
        pa.parquet.write_table(pa.table({"age": [1, 2]}), tmp_path / f"census_income_{part}.parquet")
    assert real.load("census-kdd", tmp_path).table.num_rows == 2


def test_tables_with_and_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "german.data").write_bytes(
        b"A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1\n"
    )
    (tmp_path / "housing.csv.gz").write_bytes(
        gzip.compress(b"longitude,median_house_value\n-122.2,452600.0\n")
    )
    (tmp_path / "diabetic_data.csv").write_bytes(b"patient_nbr,readmitted\n8222157,NO\n")
    german = real.load("german-credit", tmp_path)
    assert german.table.to_pylist()[0]["credit_amount"] == 1169
    assert real.load("california-housing", tmp_path).table["longitude"].to_pylist() == [-122.2]
    hospitals = real.load("diabetes-hospitals", tmp_path)
    assert hospitals.person == "patient_nbr"
    assert hospitals.table[hospitals.target].to_pylist() == ["NO"]


def test_check_ins_are_the_same_from_the_archive_and_from_bits(tmp_path: Path) -> None:
    bits = RNG.integers(0, 2, (4, 446)).astype(np.uint8)
    text = "".join(
        f'"{label}",{",".join(map(str, row))}\n' for label, row in zip((1, 30, 5, 5), bits, strict=True)
    )
    with tarfile.open(tmp_path / "dataset_location.tgz", "w:gz") as archive:
        info = tarfile.TarInfo("bangkok")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text.encode()))
    first = real.load("location30", tmp_path)
    assert np.array_equal(first.features, bits)
    assert first.labels.tolist() == [0, 29, 4, 4]
    np.savez(
        tmp_path / "location30.npz", features=np.packbits(bits, axis=1), n_features=446, labels=first.labels
    )
    assert np.array_equal(real.load("location30", tmp_path).features, bits)


def test_faces_come_in_the_order_of_people_whatever_the_archive_says(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "att_faces.zip", "w") as archive:
        for s in range(40, 0, -1):
            for i in range(10, 0, -1):
                # A first pixel that looks like a blank must not be taken for one.
                archive.writestr(f"att_faces/s{s}/{i}.pgm", b"P5\n3 2\n255\n" + bytes([10, s, i, 0, 0, 32]))
    faces = real.load("orl-faces", tmp_path)
    assert faces.images.shape == (400, 2, 3)
    assert faces.images[:, 0, 1].tolist() == (faces.person + 1).tolist()
    assert faces.images[:10, 0, 2].tolist() == list(range(1, 11))


def test_a_folder_of_the_environment_is_searched_before_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DENIABLE_DATA", str(tmp_path / "given"))
    for root, text in (("cache/deniable", "from the cache"), ("given", "from the environment")):
        (tmp_path / root / "tiny-shakespeare").mkdir(parents=True)
        (tmp_path / root / "tiny-shakespeare" / "input.txt").write_text(text, encoding="utf-8")
    assert real.load("tiny-shakespeare") == "from the environment"
    monkeypatch.delenv("DENIABLE_DATA")
    assert real.load("tiny-shakespeare") == "from the cache"


def test_what_is_missing_is_said_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        DataError, match=r"Expected the files of mnist in .* publisher's files are train-images"
    ):
        real.load("mnist", tmp_path)
    with pytest.raises(InvalidParameter, match="There are: adult, california-housing, census-kdd"):
        real.load("mnits")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("DENIABLE_DATA", raising=False)
    nowhere = (RemoteFile("http://127.0.0.1:9/input.txt", {"input.txt": None}),)
    monkeypatch.setitem(
        real.SOURCES, "tiny-shakespeare", real.ImageSource(real.readers.tiny_shakespeare, nowhere)
    )
    with pytest.raises(
        DataError, match=r"could not be downloaded from http://127.0.0.1:9/input.txt: .*set DENIABLE_DATA"
    ):
        real.load("tiny-shakespeare")


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A web server on this machine, and the folder that it shows."""
    shown = tmp_path / "shown"
    shown.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(shown)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield shown, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_download_is_checked_and_kept(tmp_path: Path, publisher: tuple[Path, str]) -> None:
    shown, url = publisher
    (shown / "input.txt").write_bytes(b"To be")
    kept = tmp_path / "kept"
    fetch.fetch(RemoteFile(f"{url}/input.txt", {"input.txt": hashlib.sha256(b"To be").hexdigest()}), kept)
    assert (kept / "input.txt").read_bytes() == b"To be"


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_a_download_with_another_checksum_is_not_kept(
    tmp_path: Path, publisher: tuple[Path, str], algorithm: str
) -> None:
    shown, url = publisher
    (shown / "input.txt").write_bytes(b"Not to be")
    kept = tmp_path / "kept"
    wrong = hashlib.new(algorithm, b"To be").hexdigest()
    with pytest.raises(DataError, match=f"{wrong} was expected. It was not kept"):
        fetch.fetch(RemoteFile(f"{url}/input.txt", {"input.txt": wrong}), kept)
    assert list(kept.iterdir()) == []


def test_members_are_taken_out_of_archives_by_name_only(tmp_path: Path, publisher: tuple[Path, str]) -> None:
    shown, url = publisher
    with tarfile.open(shown / "all.tar.gz", "w:gz") as archive:
        for name in ("../outside.bin", "batches/inside.bin"):
            info = tarfile.TarInfo(name)
            info.size = len(name)
            archive.addfile(info, io.BytesIO(name.encode()))
    kept = tmp_path / "a" / "kept"
    fetch.fetch(RemoteFile(f"{url}/all.tar.gz", {"inside.bin": None, "outside.bin": None}), kept)
    assert (kept / "inside.bin").read_bytes() == b"batches/inside.bin"
    assert sorted(path.name for path in kept.parent.rglob("*.bin")) == ["inside.bin", "outside.bin"]
    assert (kept / "outside.bin").is_file()
    with pytest.raises(DataError, match="does not hold absent"):
        fetch.fetch(RemoteFile(f"{url}/all.tar.gz", {"absent.bin": None}), kept)


def test_every_checksum_is_one_that_can_be_computed() -> None:
    sums = [
        s
        for source in real.SOURCES.values()
        for r in source.remotes
        for s in r.files.values()
        if s is not None
    ]
    assert len(sums) >= 15
    assert all(len(s) in fetch.ALGORITHM and int(s, 16) for s in sums)
