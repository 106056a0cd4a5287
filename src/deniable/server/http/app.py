"""The HTTP door, put together."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from deniable._version import VERSION
from deniable.server.console import routes as console
from deniable.server.http import (
    audit_routes,
    data_routes,
    errors,
    ledger_routes,
    oidc_routes,
    people_routes,
)
from deniable.server.http.door import Door
from deniable.server.http.guard import Guard
from deniable.server.http.jobs import Jobs


def api(door: Door) -> FastAPI:
    """The routes, and what they say of themselves at /v1/openapi.json."""
    app = FastAPI(
        title="Deniable",
        version=VERSION,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    app.state.door = door
    app.state.jobs = Jobs(door)
    for routes in (data_routes, people_routes, oidc_routes, ledger_routes, audit_routes):
        app.include_router(routes.router)
    console.install(app)
    errors.install(app)

    @app.get("/v1/health", tags=["service"])
    async def health() -> dict[str, Any]:
        """That this process answers; nothing about ledger or data. `Guard` answers it in the event loop."""
        return {"ok": True, "version": VERSION}

    @app.get("/v1/ready", tags=["service"])
    async def ready() -> JSONResponse:
        """That this process can serve: its ledger and its state can be read. 503 with the reason if not."""
        problems = await door.run(door.service.find_problems)
        return JSONResponse({"ok": not problems, "problems": problems}, 503 if problems else 200)

    return app


def add_guard(app: FastAPI, door: Door) -> Guard:
    return Guard(app, door)
