"""The ASGI application: the routes, and what lies around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.middleware import Middleware

from geniex import __version__
from geniex.server import docs, errors, handlers, health, tokens
from geniex.server.body_type import BodyType
from geniex.server.chat_completions import router as chat_completions
from geniex.server.completions import router as completions
from geniex.server.embeddings import router as embeddings
from geniex.server.envelope import Envelope, Guard
from geniex.server.lifecycle import lifespan
from geniex.server.models import router as models
from geniex.server.recording import Recorder
from geniex.server.responses import router as responses
from geniex.server.security.body import BodyLimit
from geniex.server.security.gate import Gate
from geniex.server.security.head import HeadLimit
from geniex.server.security.hosts import HostCheck
from geniex.server.security.origins import PageCheck, cross_origin

if TYPE_CHECKING:
    from geniex.server.state import ServerState

# in the order of the page
_ROUTERS = (chat_completions, completions, responses, embeddings, models, tokens, health)


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
            Middleware(HeadLimit),
            Middleware(HostCheck, allowed=state.options.allowed_hosts),
            Middleware(PageCheck, origins=origins),
            Middleware(cross_origin, origins=origins),
            Middleware(Guard, state=state),
            Middleware(Gate, state=state),
            Middleware(BodyLimit, most=state.options.max_body),
            Middleware(BodyType),
            *([Middleware(Recorder, log=state.prompts)] if state.prompts is not None else []),
        ],
    )
    handlers.install(app, state)
    for routes in _ROUTERS:
        app.include_router(routes.router(state))
    docs.install(app, state)
    return app
