"""Which file a path shows: its device and inode, asked for so that the file costs no more to write.

`os.stat` asks for times too. Where times are fine (Linux 6.13 and later, "multigrain timestamps"), whoever
writes a file next must then give it a new time, and a sync must write that as well: asking a log for its
status twice a charge cost a tenth of the charge. `statx` can be asked for the inode alone. Where it is
missing, or is not let through to the kernel, `os.stat` is asked.
Reference: statx(2); Documentation/filesystems/multigrain-ts.rst of Linux.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

Identity = tuple[int, int]
"""Device and inode."""

FOLDER_OF_PROCESS, INODE, SIZE = -100, 0x100, 256
"""AT_FDCWD, STATX_INO, and the bytes of a `struct statx`."""
FIELDS = struct.Struct("=32xQ96xII")
"""Of that: the inode, and the two numbers of the device."""


def identity(path: str) -> Identity | None:
    """Device and inode of the file that a path shows; None if it shows none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


@cache
def _statx() -> Any:
    """The call of the system's library; None where it has none."""
    if sys.platform != "linux":
        return None
    call = getattr(ctypes.CDLL(None), "statx", None)
    if call is not None:
        call.argtypes = ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p
    return call


def watch(path: str) -> Callable[[], Identity | None]:
    """A function that tells `identity(path)` again and again, for one thread at a time."""

    def ask_status() -> Identity | None:
        return identity(path)

    call = _statx()
    if call is None:
        return ask_status
    name, room = os.fsencode(path), ctypes.create_string_buffer(SIZE)
    place = ctypes.addressof(room)
    unpack, join = FIELDS.unpack_from, os.makedev

    def ask_inode() -> Identity | None:
        if call(FOLDER_OF_PROCESS, name, 0, INODE, place) != 0:
            return None
        inode, major, minor = unpack(room)
        return join(major, minor), inode

    # A filter of system calls may refuse this one, and an old library stand in for it.
    if ask_inode() != ask_status():
        return ask_status
    return ask_inode
