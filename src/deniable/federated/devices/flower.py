"""Flower as a transport, and as nothing else: it carries bytes between the server and the relays of devices.

Keys, masks, clipping, noise, charges and the numbers of rounds are ours (Flower's own wrappers for
differential privacy and secure aggregation are not used). A node of Flower only hands messages to the `Relay`
of the device on its machine. Who a node is Flower decides by the node's key; who a *device* is its signature
decides, inside the secure sum.

    server:   @app.main()
              def main(grid, context):
                  with deploy(run, FlowerTransport(grid), account, checkpoint=…) as federation: …
    clients:  app = relay_app()        # and in the node's config: device="/run/user/…/device.sock"

Needs `deniable[flower]` (Flower 1.41). docs/guide/federated.md deploys it on three machines.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from deniable import extras
from deniable.federated.devices import relay

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid

log = logging.getLogger("deniable.federated")

RECORD, CONTENT = "deniable", "bytes"
TIMEOUT = 120.0
"""Seconds for one exchange. Flower polls, and starts a process for every message: an
exchange takes some seconds at the least."""


class FlowerTransport:
    """Devices behind the nodes of a Flower grid, each under the number that its relay names.

    Flower can lose a reply without a word, on a starved machine above all: replies that are missing are
    counted and logged. A number that two nodes claim is nobody's until one of them is gone.
    """

    def __init__(self, grid: Grid, *, timeout: float = TIMEOUT) -> None:
        self._grid, self._timeout = grid, timeout
        self._numbers: dict[int, int] = {}
        self.missing = 0
        """Replies that did not come, so far."""

    def devices(self) -> frozenset[int]:
        return frozenset(self._nodes())

    def exchange(self, messages: Mapping[int, bytes]) -> dict[int, bytes]:
        nodes = self._nodes()
        node_messages = {nodes[device]: message for device, message in messages.items() if device in nodes}
        replies = self._deliver(node_messages)
        self._count(len(messages) - len(replies), len(messages))
        return {self._numbers[node]: reply for node, reply in replies.items()}

    def _nodes(self) -> dict[int, int]:
        """The node of each device that can be reached now. Nodes that are new are asked whose they are."""
        node_ids = set(self._list_nodes())
        strangers = dict.fromkeys(node_ids - self._numbers.keys(), b"")
        for node, reply in self._deliver(strangers).items():
            number = relay.number_of(reply)
            if number is not None:
                self._numbers[node] = number
        nodes: dict[int, list[int]] = {}
        for node in node_ids & self._numbers.keys():
            nodes.setdefault(self._numbers[node], []).append(node)
        return {device: claimants[0] for device, claimants in nodes.items() if len(claimants) == 1}

    def _list_nodes(self) -> Iterable[int]:
        try:
            return list(self._grid.get_node_ids())
        except Exception as error:  # the network, not what a device holds
            log.warning("Flower could not be asked for its nodes: %s.", type(error).__name__)
            return []

    def _deliver(self, messages: Mapping[int, bytes]) -> dict[int, bytes]:
        """The replies that came and are not empty. Whatever fails on the way is a reply that did not come."""
        if not messages:
            return {}
        try:
            letters = [_letter(node, content, self._timeout) for node, content in messages.items()]
            answers = list(self._grid.send_and_receive(letters, timeout=self._timeout))
        except Exception as error:  # the network; what a device did comes as an answer
            log.warning("Flower could not carry messages: %s.", type(error).__name__)
            return {}
        read = {answer.metadata.src_node_id: _content(answer) for answer in answers if not answer.has_error()}
        return {node: content for node, content in read.items() if content and node in messages}

    def _count(self, missing: int, total: int) -> None:
        if missing:
            self.missing += missing
            log.warning("%d of %d devices did not answer within %g s.", missing, total, self._timeout)


def relay_app(*, timeout: float = relay.PATIENCE) -> ClientApp:
    """The app of a node: it hands each message to the device whose socket the node's
    config names as `device`."""
    _need_flower()
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query()  # type: ignore[untyped-decorator]
    def hand_over(message: Any, context: Any) -> Any:
        reply = relay.ask(str(context.node_config["device"]), _content(message), timeout=timeout)
        return Message(content=RecordDict({RECORD: ConfigRecord({CONTENT: reply})}), reply_to=message)

    return app


def _letter(node: int, content: bytes, timeout: float) -> Any:
    """It expires with the exchange, so that no device answers a round that is over."""
    from flwr.app import ConfigRecord, Message, MessageType, RecordDict

    record = RecordDict({RECORD: ConfigRecord({CONTENT: content})})
    return Message(content=record, dst_node_id=node, message_type=MessageType.QUERY, ttl=timeout)


def _content(message: Any) -> bytes:
    try:
        content = message.content[RECORD][CONTENT]
    except (KeyError, TypeError, ValueError):
        return b""
    if not isinstance(content, bytes):
        return b""
    return content


def _need_flower() -> None:
    try:
        import flwr  # noqa: F401
    except ModuleNotFoundError:
        raise extras.missing("This transport needs Flower", "flower") from None
