"""The files of the real data sets, read as their publishers (or the usual copies) lay them out."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from deniable.datasets.fetch import member
from deniable.errors import DataError

Bytes = NDArray[np.uint8]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Images:
    """`images` are [n, height, width] or [n, 3, height, width], 0 to 255; `labels` count from 0."""

    images: Bytes
    labels: Labels
    test_images: Bytes
    test_labels: Labels
    classes: tuple[str, ...]


@dataclass(frozen=True)
class FileTable:
    """A table, its test part where the publisher made one, the column to predict, and
    the column that tells people apart."""

    table: pa.Table
    target: str
    test: pa.Table | None = None
    person: str | None = None


@dataclass(frozen=True)
class CheckIns:
    """`features` [users, 446] are 0 or 1: visits to a region or a kind of place;
    `labels` are one of 30 clusters."""

    features: Bytes
    labels: Labels


@dataclass(frozen=True)
class Faces:
    """`images` [400, 112, 92], ten of each `person`, 0 to 39."""

    images: Bytes
    person: Labels


CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

ADULT = (
    "age workclass fnlwgt education education_num marital_status occupation relationship race sex "
    "capital_gain capital_loss hours_per_week native_country income"
)

GERMAN = (
    "checking_status duration credit_history purpose credit_amount savings employment installment_rate "
    "personal_status other_parties residence_since property age other_payment_plans housing existing_credits "
    "job dependents telephone foreign_worker class"
)

CENSUS = (
    "age class_of_worker detailed_industry_recode detailed_occupation_recode education wage_per_hour "
    "enroll_in_edu_inst_last_wk marital_stat major_industry_code major_occupation_code race hispanic_origin "
    "sex member_of_a_labor_union reason_for_unemployment full_or_part_time_employment_stat capital_gains "
    "capital_losses dividends_from_stocks tax_filer_stat region_of_previous_residence "
    "state_of_previous_residence detailed_household_and_family_stat detailed_household_summary_in_household "
    "instance_weight migration_code_change_in_msa migration_code_change_in_reg "
    "migration_code_move_within_reg live_in_this_house_1_year_ago migration_prev_res_in_sunbelt "
    "num_persons_worked_for_employer family_members_under_18 country_of_birth_father country_of_birth_mother "
    "country_of_birth_self citizenship own_business_or_self_employed "
    "fill_inc_questionnaire_for_veterans_admin veterans_benefits weeks_worked_in_year year income"
)


def content(folder: Path, name: str) -> bytes:
    """What the file `name` holds, or `name`.gz unpacked."""
    gzip_path = folder / f"{name}.gz"
    if gzip_path.is_file():
        return gzip.decompress(gzip_path.read_bytes())
    raw = (folder / name).read_bytes()
    if name.endswith(".gz"):
        return gzip.decompress(raw)
    return raw


def idx(raw: bytes) -> Bytes:
    """LeCun's format: two zero bytes, a type (8: bytes), the number of dimensions, their sizes, the
    values."""
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise DataError("Expected an idx file of bytes, which begins with 00 00 08; this one does not.")
    sizes = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(sizes).copy()


def mnist(folder: Path) -> Images:
    train, train_labels, test, test_labels = (
        idx(content(folder, f"{part}-{kind}-ubyte"))
        for part in ("train", "t10k")
        for kind in ("images-idx3", "labels-idx1")
    )
    digits = tuple(map(str, range(10)))
    return Images(train, train_labels.astype(np.int64), test, test_labels.astype(np.int64), digits)


def cifar10(folder: Path) -> Images:
    train = np.concatenate([_batch(content(folder, f"data_batch_{i}.bin")) for i in range(1, 6)])
    test = _batch(content(folder, "test_batch.bin"))
    return Images(*_pictures(train), *_pictures(test), CIFAR10)


def _batch(raw: bytes) -> Bytes:
    """One byte of label, then 3 × 32 × 32 bytes, for each picture."""
    return np.frombuffer(raw, np.uint8).reshape(-1, 3073)


def _pictures(rows: Bytes) -> tuple[Bytes, Labels]:
    return np.ascontiguousarray(rows[:, 1:]).reshape(-1, 3, 32, 32), rows[:, 0].astype(np.int64)


def adult(folder: Path) -> FileTable:
    return FileTable(
        _adult(content(folder, "adult.data")),
        test=_adult(content(folder, "adult.test")),
        target="income",
        person=None,
    )


def _adult(raw: bytes) -> pa.Table:
    """Blanks after commas, a comment in the first line of the test file, and full stops
    after its labels are left out."""
    lines = [
        line.replace(b", ", b",").rstrip(b".")
        for line in raw.splitlines()
        if line and not line.startswith(b"|")
    ]
    return _csv(b"\n".join(lines), ADULT)


def german_credit(folder: Path) -> FileTable:
    return FileTable(_csv(content(folder, "german.data"), GERMAN, " "), target="class")


def california_housing(folder: Path) -> FileTable:
    return FileTable(_csv(content(folder, "housing.csv")), target="median_house_value")


def census_kdd(folder: Path) -> FileTable:
    train, test = (_census(folder, *names) for names in (("train", "data"), ("test", "test")))
    return FileTable(train, test=test, target="income")


def _census(folder: Path, parquet: str, text: str) -> pa.Table:
    copy = folder / f"census_income_{parquet}.parquet"
    if copy.is_file():
        return pa.parquet.read_table(copy)
    lines = content(folder, f"census-income.{text}").splitlines()
    return _csv(b"\n".join(line.replace(b", ", b",").strip() for line in lines if line), CENSUS)


def diabetes_hospitals(folder: Path) -> FileTable:
    copy = folder / "diabetic_data.parquet"
    table = pa.parquet.read_table(copy) if copy.is_file() else _csv(content(folder, "diabetic_data.csv"))
    return FileTable(table, target="readmitted", person="patient_nbr")


def _csv(raw: bytes, names: str | None = None, delimiter: str = ",") -> pa.Table:
    options = {"parse_options": pa.csv.ParseOptions(delimiter=delimiter)}
    if names is None:
        return pa.csv.read_csv(io.BytesIO(raw), **options)
    return pa.csv.read_csv(
        io.BytesIO(raw), read_options=pa.csv.ReadOptions(column_names=names.split()), **options
    )


def location30(folder: Path) -> CheckIns:
    copy = folder / "location30.npz"
    if copy.is_file():
        with np.load(copy) as arrays:
            bits = np.unpackbits(arrays["features"], axis=1)[:, : int(arrays["n_features"])]
            return CheckIns(bits, arrays["labels"].astype(np.int64))
    with (folder / "dataset_location.tgz").open("rb") as archive:
        text = member(archive, "bangkok").replace(b'"', b"").decode("ascii")
    rows = np.array([line.split(",") for line in text.splitlines() if line], np.int64)
    return CheckIns(rows[:, 1:].astype(np.uint8), rows[:, 0] - 1)


def orl_faces(folder: Path) -> Faces:
    copy = folder / "orl_faces.npz"
    if copy.is_file():
        with np.load(copy) as arrays:
            return Faces(arrays["images"], arrays["person"].astype(np.int64))
    with zipfile.ZipFile(folder / "att_faces.zip") as archive:
        paths = {path.rsplit("s", 1)[-1]: path for path in archive.namelist() if path.endswith(".pgm")}
        images = [_pgm(archive.read(paths[f"{s}/{i}.pgm"])) for s in range(1, 41) for i in range(1, 11)]
    return Faces(np.stack(images), np.repeat(np.arange(40), 10))


def _pgm(raw: bytes) -> Bytes:
    """A binary grey map: P5, width, height, 255, one blank, then the pixels."""
    head = re.match(rb"P5\s+(\d+)\s+(\d+)\s+255\s", raw)
    if head is None:
        raise DataError("Expected a binary grey map (P5) of 256 levels, which the face images are.")
    return np.frombuffer(raw, np.uint8, offset=head.end()).reshape(int(head[2]), int(head[1]))


def tiny_shakespeare(folder: Path) -> str:
    return content(folder, "input.txt").decode("utf-8")
