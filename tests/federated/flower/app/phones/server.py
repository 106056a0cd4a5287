"""The server: rounds over Flower's grid, paid for by an account; taken up again where a server was killed."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from flwr.serverapp import ServerApp

from deniable.federated import deploy, resume
from deniable.federated.devices.flower import FlowerTransport
from deniable.ledger import Ledger
from tests.federated.flower import scene

app = ServerApp()


class Mortal(FlowerTransport):
    """Kills the server at an exchange of its choice, after devices have answered."""

    left = int(os.environ.get("SCENE_EXCHANGES", "0"))

    def exchange(self, messages: Any) -> Any:
        replies = super().exchange(messages)
        self.left -= 1
        marker = Path(os.environ["SCENE"]) / "killed"
        if self.left == 0 and not marker.exists():
            marker.write_text("once", encoding="ascii")
            os.kill(os.getpid(), signal.SIGKILL)
        return replies


@app.main()
def main(grid: Any, context: Any) -> None:
    folder = Path(os.environ["SCENE"])
    play = scene.load(folder)
    transport = Mortal(grid, timeout=play.timeout)
    again = (folder / "run" / "run.json").exists()
    while len(transport.devices()) < (scene.LEAST if again else scene.DEVICES):
        time.sleep(1)
    with Ledger.open(play.url) as ledger:
        account = ledger.account("phones")
        opened = (resume if again else deploy)(
            play.run, transport, account, checkpoint=folder / "run", agreement=play.agreement
        )
        with opened as federation, (folder / "rounds.jsonl").open("a", encoding="utf-8") as told:
            while federation.taken < scene.ROUNDS:
                value = federation.step().value
                facts = {"number": value.number, "answered": value.answered, "missing": transport.missing}
                told.write(json.dumps(facts) + "\n")
                told.flush()
    (folder / "done").write_text("done", encoding="ascii")
