"""The console's packages for Node.js: installed once, from the versions that are locked."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "console"


def modules() -> Path:
    """Where they are; put there first, if they are not."""
    place = FOLDER / "node_modules"
    with (FOLDER / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the workers of a test run share it
        if not (place / ".package-lock.json").exists():
            command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
            subprocess.run(command, cwd=FOLDER, check=True, timeout=300)
    return place
