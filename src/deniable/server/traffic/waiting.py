"""Places of connections that have not said yet what they want, or wait with nothing to say.

Nobody has proved anything at that point, so nothing but an address tells them apart. An address has a few
places, all together have more; whoever comes when they are full takes the place of the one that has waited
longest, of its own address first. A client that means it is through in milliseconds, so a crowd of silent
sockets drives out itself.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

EACH = 100
"""Places for one address."""
TOTAL = 400
"""Places for all together."""


class WaitingRoom:
    """Connections that wait, in the order in which they came. Used in one event loop."""

    def __init__(self, per_address: int = EACH, total: int = TOTAL) -> None:
        self._per_address, self._total = per_address, total
        self._places: OrderedDict[asyncio.BaseTransport, str] = OrderedDict()
        self._rows: dict[str, OrderedDict[asyncio.BaseTransport, None]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def count(self, address: str) -> int:
        return len(self._rows.get(address, ()))

    def enter(self, transport: asyncio.BaseTransport, address: str | None) -> None:
        """Take the last place. A proxy that the operator trusts has no address of its own (None): it brings
        everybody."""
        self.leave(transport)
        self._places[transport] = address or ""
        if address is not None:
            row = self._rows.setdefault(address, OrderedDict())
            row[transport] = None
            if len(row) > self._per_address:
                self._end(next(iter(row)))
        if len(self._places) > self._total:
            self._end(next(iter(self._places)))

    def leave(self, transport: asyncio.BaseTransport) -> None:
        """It is served now, or has gone."""
        address = self._places.pop(transport, None)
        row = self._rows.get(address or "")
        if row is not None:
            row.pop(transport, None)
            if not row:
                del self._rows[address or ""]

    def _end(self, transport: asyncio.BaseTransport) -> None:
        self.leave(transport)
        if isinstance(transport, asyncio.WriteTransport):
            transport.abort()
        else:
            transport.close()
