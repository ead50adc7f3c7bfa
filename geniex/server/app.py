"""The ASGI application: the routes, and what lies around them."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.middleware import Middleware

from geniex import __version__
from geniex.server import docs, errors, handlers
from geniex.server.envelope import Envelope, Guard
from geniex.server.lifecycle import lifespan
from geniex.server.security import BodyLimit, Gate, cross_origin

if TYPE_CHECKING:
    from geniex.server.state import ServerState

_ROUTERS = (
    "geniex.server.chat_completions.router",
    "geniex.server.completions.router",
    "geniex.server.responses.router",
    "geniex.server.embeddings.router",
    "geniex.server.models.router",
    "geniex.server.tokens",
    "geniex.server.health",
)


def build_app(state: ServerState) -> FastAPI:
    """The application over a pool; its start and end are those of the pool."""
    origins = state.options.origins
    app = FastAPI(
        title="geniex",
        version=__version__,
        description=docs.DESCRIPTION,
        openapi_tags=docs.TAGS,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=errors.ANSWERS,
        lifespan=lifespan(state),
        middleware=[
            Middleware(Envelope, state=state),
            *([Middleware(cross_origin, origins=origins)] if origins else []),
            Middleware(Guard),
            Middleware(Gate, state=state),
            Middleware(BodyLimit, most=state.options.max_body),
        ],
    )
    handlers.install(app, state)
    for name in _ROUTERS:
        if find_spec(name) is not None:
            app.include_router(importlib.import_module(name).router(state))
    docs.install(app, state)
    return app
