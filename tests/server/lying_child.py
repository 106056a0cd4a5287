"""A process that does not do what one of ours does (`deniable.sql.after.closed.child`): it says what the text that it is
asked names (`test_after_limits`). Arrow is loaded only where a table is told: most lies start without."""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from typing import Any


def reply(text: str) -> bytes:
    """What a process of another mind writes when it is asked `text`."""
    header = b'{"seconds": 0.1, "sizes": [%d]}'
    match text:
        case "a header without an end":
            return struct.pack("!I", 2**32 - 1)
        case "a table without an end":
            return _framed(header % 2**40)
        case "no header":
            return _framed(b"[1, 2]")
        case "no JSON":
            return _framed(b"{" * 1000)
        case "no table":
            return _framed(b'{"seconds": 0.1, "sizes": []}')
        case "no seconds":
            return _framed(b'{"seconds": "x", "sizes": [0]}')
        case "garbage":
            return _framed(header % 100) + os.urandom(100)
        case "a damaged table":
            content = _table({"x": ["a" * 50] * 9})
            return _framed(header % len(content)) + content.replace(
                struct.pack("<i", 50), struct.pack("<i", 2**30)
            )
        case "a text that is none":
            content = _table({"x": ["aaaa"]})
            return _framed(header % len(content)) + content.replace(b"aaaa", b"\xff\xfe\xfd\xfc")
        case "another type":
            content = _table({"x": [{"a": 1}]})
            return _framed(header % len(content)) + content
        case "too many rows":
            content = _table({"x": [None] * 200_000})
            return _framed(header % len(content)) + content
    return b""


def _table(columns: dict[str, Any]) -> bytes:
    import pyarrow as pa

    from deniable.sql.after.closed import messages

    return messages.packed(pa.table(columns)).to_pybytes()


def _framed(content: bytes) -> bytes:
    return struct.pack("!I", len(content)) + content


def main() -> None:
    out = sys.stdout.buffer
    out.write(_framed(b'{"ready": true, "sizes": []}'))
    out.flush()
    (length,) = struct.unpack("!I", sys.stdin.buffer.read(4))
    text = json.loads(sys.stdin.buffer.read(length))["text"]
    if text == "an end":
        return
    out.write(reply(text))
    out.flush()
    time.sleep(3600)  # until it is ended: whoever reads on waits for nothing


if __name__ == "__main__":
    main()
