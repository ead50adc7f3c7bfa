"""Whether the server lives, whether it is ready, and what it has counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from geniex import __version__
from geniex_catalogue.errors import ServerBusyError

if TYPE_CHECKING:
    from geniex.server.state import ServerState


class Health(BaseModel):
    """The server answers."""

    status: Literal["ok"] = "ok"


class About(BaseModel):
    """Which server this is."""

    object: Literal["server"] = "server"
    name: Literal["geniex"] = "geniex"
    version: str = __version__


def router(state: ServerState) -> APIRouter:
    """The routes for who watches the server."""
    routes = APIRouter(tags=["server"])
    state.metrics.watch(state)

    @routes.get("/v1", operation_id="about")
    async def about() -> About:
        """Which server this is."""
        return About()

    @routes.get("/health", operation_id="health")
    async def health() -> Health:
        """Whether the server lives: it does, if it answers."""
        return Health()

    @routes.get("/ready", operation_id="ready")
    async def ready() -> Health:
        """Whether requests are welcome: the first model is in memory, and no end is near."""
        if state.draining:
            raise ServerBusyError("the server is about to end")
        if state.not_ready is not None:
            raise ServerBusyError(state.not_ready)
        return Health()

    @routes.get(
        "/metrics",
        operation_id="metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    def metrics() -> Response:
        """Counters, speeds and queues, in the text format of Prometheus."""
        return Response(state.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return routes
