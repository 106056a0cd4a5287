"""The console, put together: its pages, its script and its style."""

from __future__ import annotations

import gzip
from functools import lru_cache

from fastapi import APIRouter, FastAPI, Request, Response

from deniable.errors import NotFound
from deniable.server.console.page import STATIC
from deniable.server.console.pages import ask, audits, budget, data, explain, journal, login, people

router = APIRouter(include_in_schema=False)
FILES = {
    "app.js": "text/javascript; charset=utf-8",
    "app.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
PARTS = (login, ask, budget, journal, audits, data, people, explain)
YEAR = "public, max-age=31536000, immutable"
"""Their addresses change with them."""


@router.get("/static/{stamp}/{name}")
async def static(stamp: str, name: str, request: Request) -> Response:
    if name not in FILES:
        raise NotFound("There is nothing at this address.")
    headers = {"cache-control": YEAR, "vary": "accept-encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response((STATIC / name).read_bytes(), media_type=FILES[name], headers=headers)
    return Response(_pack_file(name), media_type=FILES[name], headers=headers | {"content-encoding": "gzip"})


@lru_cache(maxsize=8)
def _pack_file(name: str) -> bytes:
    return gzip.compress((STATIC / name).read_bytes(), 9, mtime=0)


def install(app: FastAPI) -> None:
    app.include_router(router)
    for part in PARTS:
        app.include_router(part.router)
