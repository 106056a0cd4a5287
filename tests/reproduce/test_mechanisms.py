"""What the three reproductions show, as numbers."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from deniable.reproduce import laplace_utility, laplace_vs_exponential, randomized_response


def quietly(items: Sequence[float], label: str) -> Iterable[float]:
    return items


@pytest.fixture(autouse=True)
def fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller samples than the figures have."""
    monkeypatch.setattr(randomized_response, "PEOPLE", (100, 1000))
    monkeypatch.setattr(laplace_vs_exponential, "DRAWS", 100)
    monkeypatch.setattr(laplace_utility, "DRAWS", 20_000)


def test_randomized_response_falls_as_1_over_n_and_laplace_adds_1_over_n_squared(tmp_path: Path) -> None:
    report = randomized_response.run(tmp_path, quietly)
    assert "0.02 to 0.058" in report.reading
    small, large = report.rows
    for row in (small, large):
        people, truthful, response, measured, with_noise, added = row
        assert response >= 4 * truthful
        assert measured == pytest.approx(response, rel=0.6)  # six deviations of 200 squares
        assert with_noise == truthful + added
        assert added == pytest.approx(1.5 / people**2)
    assert small[2] / large[2] == pytest.approx(10)
    assert report.figure.read_bytes().startswith(b"\x89PNG")


def test_the_exponential_mechanism_loses_a_factor_of_n(tmp_path: Path) -> None:
    report = laplace_vs_exponential.run(tmp_path, quietly)
    assert "N^-2.00" in report.reading
    assert "N^-1.00" in report.reading
    for tosses, laplace, laplace_seen, exponential, exponential_seen in report.rows:
        assert laplace < exponential
        assert laplace_seen == pytest.approx(
            laplace, rel=1.4
        )  # six deviations of 100 squares of Laplace noise
        assert exponential_seen == pytest.approx(exponential, rel=0.9)
        if tosses >= 1000:
            power = 1 / 2.1972246
            assert exponential == pytest.approx(0.24 / (power * tosses), rel=0.01)
    assert report.figure.exists()


def test_the_utility_of_laplace_is_what_is_measured(tmp_path: Path) -> None:
    report = laplace_utility.run(tmp_path, quietly)
    assert "ε = 1.1941" in report.reading
    assert "1.1513" in report.reading
    for _, mean, typical, measured, rare, norm, union in report.rows:
        assert mean < typical < rare
        assert measured == pytest.approx(typical, rel=0.06, abs=1)
        assert norm < union / 5
    assert report.figure.exists()
