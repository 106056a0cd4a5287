"""Pictures of the console for README and docs, from the demo in a real Chromium: `python -m
tools.screenshots`.

Looks: light for the docs; with `--all FOLDER`, every page in light, dark and on a phone, to be looked at.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import threading
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from deniable.server import demo
from deniable.server.run import Doors
from deniable.server.service import Service
from tests.requirements import find_browser
from tests.server.console.browser import FLAGS, Person
from tests.server.hospital import PASSWORD

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images" / "console"
PAGES = ("ask", "budget", "ledger", "audits", "data", "people", "explain")
LOOKS = {
    "light": {"color_scheme": "light", "width": 1280, "height": 860},
    "dark": {"color_scheme": "dark", "width": 1280, "height": 860},
    "phone": {"color_scheme": "light", "width": 390, "height": 844},
}
QUESTION = "SELECT ward, COUNT(*) AS visits\nFROM visits\nGROUP BY ward"


def take(
    browser: Any, url: str, people: dict[str, str], look: str, folder: Path, wanted: dict[str, str]
) -> None:
    """One picture of each page that is wanted: its path by its name. An analyst asks, an owner sees the
    rest."""
    size = LOOKS[look]
    for who in ("ada", "olga"):
        own = {name: path for name, path in wanted.items() if (path == "/ask") == (who == "ada")}
        if not own:
            continue
        person = Person.new(browser, url, color_scheme=size["color_scheme"])
        person.page.set_viewport_size({"width": size["width"], "height": size["height"]})
        person.log_in(who, people[who], first=people[who] != PASSWORD)
        people[who] = PASSWORD
        for name, path in own.items():
            person.go(path)
            if path == "/ask":
                person.ask(QUESTION, "0.2")
                person.page.fill("[name=epsilon]", "0.5")  # what a closer answer would cost
                person.page.wait_for_selector("#preview .left")
            person.page.wait_for_timeout(400)
            person.page.screenshot(path=folder / f"{name}.png", full_page=True)
        person.leave()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--all", metavar="FOLDER", type=Path, help="every page in every look, into this folder"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        service = Service(demo.settings(Path(folder), 0))
        people = demo.fill(service, print)
        doors, ready = Doors(service), threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(doors.serve(lambda _: ready.set())), daemon=True)
        thread.start()
        ready.wait(60)
        browser = play.chromium.launch(executable_path=find_browser(), args=FLAGS)
        url = f"http://{doors.http}"
        if chosen.all is None:
            IMAGES.mkdir(parents=True, exist_ok=True)
            wanted = {"ask": "/ask", "budget": "/budget", "audit": "/audits/1", "explain": "/explain"}
            take(browser, url, people, "light", IMAGES, wanted)
            take(browser, url, people, "dark", IMAGES, {"ask-dark": "/ask"})
            take(browser, url, people, "phone", IMAGES, {"ask-phone": "/ask"})
        else:
            chosen.all.mkdir(parents=True, exist_ok=True)
            for look in LOOKS:
                wanted = {f"{page}-{look}": f"/{page}" for page in PAGES} | {f"audit-{look}": "/audits/1"}
                take(browser, url, people, look, chosen.all, wanted)
        browser.close()
        doors.stop()
        thread.join(60)
        service.close()


if __name__ == "__main__":
    main()
