"""Settings say where doors are; what would send secrets in the clear is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from deniable.errors import InvalidParameter
from deniable.server.settings import Address, load, parse

BOTH = 'certificate = "c.pem"\nkey = "k.pem"\n'


def test_a_file_is_read_and_its_paths_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text(
        'folder = "state"\nroots = ["data"]\nhttp = "127.0.0.1:9000"\nwire = false\nfloor = 0.5\n[caps]\nday = 1.5\n',
        encoding="utf-8",
    )
    made = load(tmp_path / "server.toml")
    assert (made.folder, made.roots) == (tmp_path / "state", (tmp_path / "data",))
    assert (made.http, made.wire, made.floor, made.caps.day) == (Address("127.0.0.1", 9000), None, 0.5, 1.5)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('http = "0.0.0.0:8000"', "Expected TLS for http"),
        ('wire = "10.0.0.5:5432"\nproxy = true', "Expected TLS for wire"),
        ('certificate = "c.pem"', "certificate and key together"),
        ('colour = "red"', "'colour' is not known"),
        ("[caps]\nweek = 1", "'week' is not known"),
        ('http = "nowhere"', "Expected http like"),
        ("floor = 600", "Expected floor"),
        ("threads = true", "not of the right type"),
        ("= 3", "not TOML"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        'http = "0.0.0.0:8000"\nproxy = true\nwire = false',
        BOTH + 'http = "0.0.0.0:443"\nwire = "0.0.0.0:5432"',
        'http = "[::1]:80"',
    ],
)
def test_doors_are_opened_to_others_only_behind_tls(text: str) -> None:
    assert parse(text)


def test_settings_that_are_not_there_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="cannot be read"):
        load(tmp_path / "none.toml")
