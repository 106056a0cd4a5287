"""How messages travel between the server and devices: bytes go out to some, and bytes
come back from some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from deniable.errors import DeniableError

Handler = Callable[[bytes], bytes]


class Transport(Protocol):
    """Carries one exchange. A device that does not answer, for whatever reason, is missing from the
    replies."""

    def devices(self) -> frozenset[int]:
        """The devices that can be reached now."""

    def exchange(self, messages: Mapping[int, bytes]) -> dict[int, bytes]:
        """Send each device its message and gather the replies that come."""


class InProcess:
    """Devices in this process: for simulations and tests. An error in a device is a
    reply that does not come."""

    def __init__(self, handlers: Mapping[int, Handler], *, threads: int = 1) -> None:
        self._handlers = dict(handlers)
        self._threads = threads

    def devices(self) -> frozenset[int]:
        return frozenset(self._handlers)

    def exchange(self, messages: Mapping[int, bytes]) -> dict[int, bytes]:
        with ThreadPoolExecutor(self._threads) as pool:
            replies = pool.map(self._reply, messages.items())
            return {device: reply for device, reply in replies if reply is not None}

    def _reply(self, item: tuple[int, bytes]) -> tuple[int, bytes | None]:
        device, message = item
        if device not in self._handlers:
            return device, None
        try:
            return device, self._handlers[device](message)
        except DeniableError:
            return device, None
