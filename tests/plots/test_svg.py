"""Pictures as SVG: they are well-formed, escape what they are given, carry no style, and stand at the right places."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pytest

from deniable.plots import svg

EVIL = "<script>alert('x')</script>\"&"


def pictures() -> dict[str, str]:
    three = [3.0, None, -1.0], [2.0, None, -math.inf], [4.0, None, math.inf]
    return {
        "bars": svg.bars([EVIL, "b", "c"], *three, name=EVIL, label=EVIL),
        "lines": svg.lines([0.0, 1.0, 2.0], [EVIL, "b", "c"], *three, name=EVIL, label=EVIL),
        "heat": svg.heat(
            [EVIL], ["a", EVIL], {(0, 0): (1.0, EVIL), (0, 1): (math.inf, "x")}, name="n", label=EVIL
        ),
        "dial": svg.dial(0.4, middle=EVIL, caption=EVIL, label=EVIL),
        "meter": svg.meter(math.inf, label=EVIL),
        "steps": svg.steps([1.0, 2.0], [0.5, 1.0], [EVIL, "b"], limit=3, name=EVIL, label=EVIL),
        "region": svg.region(lambda x: min(1.0, 2 * x), [svg.Reached(*[0.5] * 6)], bound=EVIL, label=EVIL),
        "belief": svg.belief(0.1, 0.05, 0.3, label=EVIL),
        "nothing": svg.bars([], [], [], [], name="n", label="nothing"),
        "flat": svg.lines([5.0], ["a"], [0.0], [0.0], [0.0], name="n", label="flat"),
        "empty": svg.steps([], [], [], limit=0, name="n", label="empty"),
    }


@pytest.mark.parametrize("name", pictures())
def test_a_picture_is_sound_xml_without_styles_or_scripts(name: str) -> None:
    picture = pictures()[name]
    root = ET.fromstring(picture)
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert not any(node.get("style") for node in root.iter())
    assert not any(node.tag == "script" for node in root.iter())
    assert "nan" not in picture
    assert "inf" not in picture.replace("data-", "")


def test_a_document_stands_alone() -> None:
    root = ET.fromstring(svg.document(pictures()["bars"]))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root[0].tag.endswith("style")


def test_a_bar_is_as_long_as_its_value_and_its_error_bar_as_the_interval() -> None:
    root = ET.fromstring(svg.bars(["a", "b"], [10.0, 5.0], [8.0, 4.0], [12.0, 6.0], name="n", label="n"))
    bars = [float(node.get("width", "")) for node in root.iter("rect")]
    assert bars[0] == pytest.approx(2 * bars[1], abs=0.2)
    scale = bars[0] / 10
    whiskers = [
        node
        for node in root.iter("line")
        if node.get("class") == "error" and node.get("y1") == node.get("y2")
    ]
    spans = [float(node.get("x2", "")) - float(node.get("x1", "")) for node in whiskers]
    assert spans == pytest.approx([4 * scale, 2 * scale], abs=0.3)


def test_an_interval_without_an_end_is_not_drawn_as_one() -> None:
    picture = svg.bars(["a"], [10.0], [-math.inf], [math.inf], name="n", label="n")
    assert 'class="error"' not in picture
    assert 'class="soft"' in picture


def test_the_dial_is_filled_by_its_share() -> None:
    half = svg.dial(0.5, middle="", caption="", label="half")
    assert f'stroke-dasharray="{0.5 * math.pi * 80:.1f}' in half
    assert "used" not in svg.dial(0.0, middle="", caption="", label="none")


def test_every_attacker_of_the_region_is_below_its_edge() -> None:
    root = ET.fromstring(svg.region(lambda x: min(1.0, 3 * x, 2 / 3 + x / 3), (), bound="", label="r"))
    edge = next(node for node in root.iter("path") if node.get("class") == "line").get("d", "")
    points = [tuple(map(float, step[1:].split())) for step in edge.replace(" L", "|L").split("|")]
    assert points[0][1] == pytest.approx(294.0)  # nothing found without a false alarm
    assert points[-1] == pytest.approx((326.0, 14.0))
