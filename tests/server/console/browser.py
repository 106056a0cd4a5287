"""A person at a browser: logs in, goes to pages, and hears everything that the browser complains about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.server.hospital import PASSWORD

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
REFUSED = "Failed to load resource: the server responded with a status of"
"""What Chromium writes for every refusal; not a fault of the page."""


@dataclass
class Person:
    """Somebody at a page. `said` is what the browser wrote to its console."""

    url: str
    context: Any
    page: Any
    said: list[str] = field(default_factory=list)

    @classmethod
    def new(cls, chromium: Any, url: str, **options: Any) -> Person:
        context = chromium.new_context(viewport={"width": 1280, "height": 900}, **options)
        page = context.new_page()
        page.set_default_timeout(15_000)
        person = cls(url, context, page)
        page.on("console", person._hear)
        page.on("pageerror", lambda error: person.said.append(str(error)))
        page.on("dialog", lambda dialog: person.said.append(f"dialog: {dialog.message}"))
        return person

    def _hear(self, message: Any) -> None:
        if not message.text.startswith(REFUSED):
            self.said.append(f"{message.text} {message.location}")

    def log_in(self, name: str, password: str, *, first: bool = False) -> Person:
        """With a one-time password, change it on the way."""
        self.go("/login")
        self.page.fill("[name=name]", name)
        self.page.fill("[name=password]", password)
        self.page.click("main button")
        if first:
            self.page.wait_for_url("**/password")
            self.page.fill("[name=new]", PASSWORD)
            self.page.fill("[name=again]", PASSWORD)
            self.page.click("main button.main")
        self.page.wait_for_selector("nav")
        return self

    def go(self, path: str) -> Person:
        self.page.goto(self.url + path)
        return self

    def text(self, place: str = "main") -> str:
        return str(self.page.inner_text(place))

    def write(self, sql: str) -> None:
        """Into the editor, as from a keyboard."""
        self.page.click(".cm-content")
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(sql)

    def ask(self, sql: str, epsilon: str = "0.1") -> str:
        """What stands below after it was asked."""
        self.write(sql)
        self.page.fill("[name=epsilon]", epsilon)
        self.page.evaluate("document.querySelector('#result').replaceChildren()")
        self.page.click("#run")
        self.page.wait_for_selector("#result .card")
        return self.text("#result")

    def leave(self) -> None:
        self.context.close()
        assert not self.said, "\n".join(self.said)
