"""`deniable local report` and `collect`: bytes from devices, estimates from a file, and a device that stops at its
limit."""

from __future__ import annotations

import json
import math
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from deniable.cli.local import app
from deniable.errors import BudgetExceeded, InvalidParameter
from deniable.guarantee import Budget
from deniable.local import Rappor
from deniable.local.collecting.device_file import DeviceFile
from deniable.local.collecting.estimates import NAMES, client_of, collect, read_domain, value_of
from deniable.local.hashing import digests
from deniable.randomness import SecureRandom, SeededRandom

WIDE = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
SITES = ("a.org", "b.org", "c.org", "d.org", "e.org")


def run(*arguments: Any, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(word) for word in arguments], env=WIDE, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def domain(tmp_path: Path) -> Path:
    path = tmp_path / "sites.txt"
    path.write_text("\n".join(SITES) + "\n")
    return path


@pytest.mark.parametrize("name", NAMES)
def test_what_devices_report_is_collected(name: str, domain: Path, tmp_path: Path) -> None:
    """20,000 made-up devices through the same client, and one through the shell."""
    client = client_of(name, 3, SITES)
    values = [value_of(client, SITES, site) for site in ["b.org"] * 12_000 + ["d.org"] * 8000]
    reports = tmp_path / "reports.bin"
    reports.write_bytes(client.reports(values, rng=SeededRandom(1)).tobytes())
    run("report", "--protocol", name, "--epsilon", 3, "--domain", domain, "--out", reports, "b.org")
    said = run(
        "collect",
        reports,
        "--protocol",
        name,
        "--epsilon",
        3,
        "--domain",
        domain,
        "--json",
        "--plot",
        tmp_path / "p.svg",
    )
    found = json.loads(said.stdout)
    assert (found["reports"], found["left_out"]) == (20_001, 0)
    assert [each["value"] for each in found["values"][:2]] == ["b.org", "d.org"]
    for each, truth in zip(found["values"][:2], (12_001, 8000), strict=True):
        half = each["high"] - each["count"]
        assert abs(each["count"] - truth) < 3.2 * half  # 6 deviations; the seed is fixed but for one report
        assert 0 < half < 1500
    assert "b.org" in (tmp_path / "p.svg").read_text() or (tmp_path / "p.svg").stat().st_size > 1000


def test_a_report_is_bytes_on_stdout(domain: Path) -> None:
    result = run("report", "--domain", domain, "a.org")
    assert len(result.stdout_bytes) == client_of("olh", 1.0, SITES).size


def test_reports_of_other_settings_and_a_cut_one_are_left_out(domain: Path, tmp_path: Path) -> None:
    client, other = client_of("olh", 1.0, SITES), client_of("olh", 2.0, SITES)
    reports = tmp_path / "reports.bin"
    good, foreign = (each.reports([0] * 3, rng=SecureRandom()).tobytes() for each in (client, other))
    assert client.header != other.header
    reports.write_bytes(good + foreign + good[:-1])
    assert "6 reports" not in run("collect", reports, "--domain", domain).stdout
    collected = collect(client, SITES, reports.read_bytes())
    assert (collected.users, collected.dropped) == (5, 4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", ["no such site", "", "\udcff\udcfe"])
def test_a_value_that_is_not_listed_is_reported_as_a_random_one(name: str, value: str, domain: Path) -> None:
    client = client_of(name, 8.0, SITES)
    replacements = [value_of(client, SITES, value) for _ in range(2000)]
    listed = [value_of(client, SITES, site) for site in SITES]
    counts = [replacements.count(own) for own in listed]
    assert sum(counts) == 2000
    assert max(counts) - min(counts) < 250  # 400 each, with a deviation of 18
    said = run("report", "--protocol", name, "--epsilon", 8, "--domain", domain, value)
    assert len(said.stdout_bytes) == client.size


def test_text_that_is_no_unicode_is_hashed_like_other_text() -> None:
    names = digests(["\udcff", "\udcfe", "a"], b"key")
    assert len(set(names.tolist())) == 3


@pytest.mark.parametrize("epsilon", [0.1, 1, 4.0, 12])
def test_rappor_spends_no_more_than_epsilon_in_a_period(epsilon: float) -> None:
    client = client_of("rappor", epsilon, SITES)
    assert isinstance(client, Rappor)
    assert 0.999 * epsilon < client.memo_epsilon <= epsilon
    assert client.epsilon < client.memo_epsilon


# ------------------------------------------------------------------------------------------ reports over time


def device(
    folder: Path,
    limit: float = 2.5,
    epsilon: float = 1.0,
    name: str = "rappor",
    sites: tuple[str, ...] = SITES,
) -> DeviceFile:
    return DeviceFile(folder / "me.json", client_of(name, epsilon, sites), sites, Budget(limit))


def test_a_device_refuses_beyond_its_limit_and_replays_before(domain: Path, tmp_path: Path) -> None:
    def tell(period: str, value: str, code: int = 0) -> Any:
        return run("report", "--protocol", "grr", "--epsilon", 1, "--domain", domain, "--device", tmp_path / "me.json",
                   "--period", period, "--limit", 2, value, code=code)  # fmt: skip

    first = {tell("1", value).stdout_bytes for value in SITES * 3}
    assert len(first) == 1  # one memo a period, whatever the value is
    tell("2", "a.org")
    refused = tell("3", "a.org", code=2)
    assert "over its limit" in refused.stderr
    assert not refused.stdout_bytes
    assert tell("2", "b.org").stdout_bytes  # the last period's goes on
    assert stat.S_IMODE((tmp_path / "me.json").stat().st_mode) == 0o600


def test_reports_of_one_rappor_memo_differ_and_its_permanent_response_stays(tmp_path: Path) -> None:
    own = device(tmp_path)
    reports = [own.report("a.org", "now", rng=SecureRandom()) for _ in range(6)]
    kept = {json.loads(own.path.read_text())["memo"] for _ in range(2)}
    assert len(set(reports)) > 1
    assert len(kept) == 1


@pytest.mark.parametrize("name", ["rappor", "grr"])
def test_one_listed_value_stands_for_all_that_are_not_listed_for_ever(name: str, tmp_path: Path) -> None:
    own = device(tmp_path, limit=1000, epsilon=30, name=name)  # a memo at ε = 30 is that of its value
    stand_ins, memos = set(), set()
    for period in range(20):
        own.report("secret" * period, str(period), rng=SecureRandom())
        content = json.loads(own.path.read_text())
        stand_ins.add(content["stand_in"])
        memos.add(content["memo"])
    (place,) = stand_ins
    assert place in range(len(SITES))
    if name == "grr":
        assert len(memos) == 1


def test_a_value_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"as text, got int\. Nothing was reported"):
        device(tmp_path).report(3, "1", rng=SecureRandom())  # type: ignore[arg-type]


def test_going_back_to_an_earlier_period_is_a_new_one(tmp_path: Path) -> None:
    own = device(tmp_path)
    for period in ("1", "2"):
        own.report("a.org", period, rng=SecureRandom())
    with pytest.raises(BudgetExceeded):
        own.report("a.org", "1", rng=SecureRandom())


def test_another_limit_list_or_protocol_is_refused(tmp_path: Path) -> None:
    device(tmp_path).report("a.org", "1", rng=SecureRandom())
    others = [device(tmp_path, limit=50), device(tmp_path, epsilon=0.5), device(tmp_path, name="grr"),
              device(tmp_path, sites=SITES[::-1])]  # fmt: skip
    for other in others:
        with pytest.raises(InvalidParameter, match="another protocol"):
            other.report("a.org", "1", rng=SecureRandom())


@pytest.mark.parametrize(
    "text", ["", "{}", '{"form": 1}', "[]", "null", '{"form":1,"terms":"","limit":"1","periods":"x"}']
)
def test_a_memory_that_cannot_be_read_reports_nothing(tmp_path: Path, text: str) -> None:
    own = device(tmp_path)
    own.path.write_text(text)
    with pytest.raises(InvalidParameter, match="Nothing was reported"):
        own.report("a.org", "1", rng=SecureRandom())
    assert own.path.read_text() == text


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("periods", math.inf), ("periods", math.nan), ("periods", 2.9), ("periods", True), ("periods", "1"),
        ("periods", 10**400), ("periods", 3), ("period", 3), ("period", None), ("memo", ""), ("memo", "00"),
        ("memo", "zz"), ("memo", 3), ("memo", "00" * 20), ("stand_in", -1), ("stand_in", 5),
        ("stand_in", 1.0),
    ],
)  # fmt: skip
def test_a_memory_with_something_impossible_in_it_reports_nothing(
    tmp_path: Path, name: str, wrong: object
) -> None:
    own = device(tmp_path)
    own.report("a.org", "1", rng=SecureRandom())
    own.path.write_text(json.dumps(json.loads(own.path.read_text()) | {name: wrong}))
    for period in ("1", "2"):
        with pytest.raises(
            InvalidParameter, match=r"me.json cannot be read as the memory of a device\. Nothing"
        ):
            own.report("a.org", period, rng=SecureRandom())


def test_a_memory_nested_without_end_or_a_folder_in_its_place_reports_nothing(tmp_path: Path) -> None:
    own = device(tmp_path)
    own.path.write_text("[" * 100_000)
    with pytest.raises(InvalidParameter, match="Nothing was reported"):
        own.report("a.org", "1", rng=SecureRandom())
    own.path.unlink()
    own.path.mkdir()
    with pytest.raises(InvalidParameter, match="Nothing was reported"):
        own.report("a.org", "1", rng=SecureRandom())


def test_a_memory_of_before_stand_ins_goes_on(tmp_path: Path) -> None:
    own = device(tmp_path)
    own.report("a.org", "1", rng=SecureRandom())
    content = json.loads(own.path.read_text())
    del content["stand_in"]
    own.path.write_text(json.dumps(content))
    assert own.report("a.org", "1", rng=SecureRandom())
    assert own.report("secret", "2", rng=SecureRandom())
    assert json.loads(own.path.read_text())["stand_in"] in range(len(SITES))


def test_a_device_whose_memory_is_gone_does_not_begin_again(tmp_path: Path) -> None:
    own = device(tmp_path)
    own.report("a.org", "1", rng=SecureRandom())
    kept = own.path.read_text()
    own.path.unlink()
    for period in ("1", "2"):
        with pytest.raises(
            InvalidParameter, match=r"me.json is gone, but this device has reported before\. Nothing"
        ):
            own.report("a.org", period, rng=SecureRandom())
    own.path.write_text(kept)
    assert own.report("a.org", "1", rng=SecureRandom())


def test_a_device_that_was_refused_at_once_has_not_reported(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceeded):
        device(tmp_path, limit=0.5).report("a.org", "1", rng=SecureRandom())
    assert device(tmp_path).report("a.org", "1", rng=SecureRandom())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"--limit": "nan"}, "--limit is nan. Nothing was reported. Give"),
        ({"--limit": "inf"}, "--limit is inf. Nothing was reported. Give"),
        ({"--limit": "0"}, "--limit is 0. Nothing was reported. Give"),
        ({"--period": ""}, "--period is empty. Nothing was reported. Name"),
        ({"--out": "none/r.bin"}, "none/r.bin cannot be opened (No such file or directory). Nothing was"),
        ({"--out": "."}, "cannot be opened (Is a directory). Nothing was reported. Name"),
        (
            {"--device": "none/me.json"},
            "none/me.json cannot be written (No such file or directory). Nothing was",
        ),
    ],
)
def test_a_wrong_option_is_named_before_a_period_is_charged(
    domain: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], said: str
) -> None:
    monkeypatch.chdir(domain.parent)
    options = {"--device": "me.json", "--period": "1", "--limit": "3", "--out": "r.bin"} | changed
    words = [word for option in options.items() for word in option]
    assert said in run("report", "--domain", domain, *words, "a.org", code=2).stderr
    assert not Path("me.json").exists()


def test_two_threads_draw_one_memo_for_a_period(tmp_path: Path) -> None:
    own = device(tmp_path, name="grr")
    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(lambda k: own.report(SITES[k % 5], "1", rng=SecureRandom()), range(40)))
    assert len(answers) == 1
    assert json.loads(own.path.read_text())["periods"] == 1


def test_a_report_that_could_not_be_noted_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = device(tmp_path)
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        own.report("a.org", "1", rng=SecureRandom())
    assert not own.path.exists()


def test_options_that_do_not_go_together_are_refused(domain: Path, tmp_path: Path) -> None:
    assert "need --device" in run("report", "--domain", domain, "--limit", 3, "a.org", code=2).stderr
    assert (
        "--device needs"
        in run("report", "--domain", domain, "--device", tmp_path / "x", "a.org", code=2).stderr
    )
    assert "none of" in run("report", "--domain", domain, "--protocol", "cms", "a.org", code=2).stderr
    (tmp_path / "twice.txt").write_text("a\na\n")
    with pytest.raises(InvalidParameter, match="each once"):
        read_domain(tmp_path / "twice.txt")
    assert np.isfinite(collect(client_of("olh", 1.0, SITES), SITES, b"").users)
