"""The route of completions, with and without `/v1`."""

from fastapi import APIRouter, Request, Response

from geniex.server.completions.protocol import CompletionRequest
from geniex.server.completions.serving import complete
from geniex.server.schema import CompletionObject, answers_with
from geniex.server.security.json_body import StrictRoute
from geniex.server.state import ServerState


def router(state: ServerState) -> APIRouter:
    """The routes over a server's models."""
    routes = APIRouter(tags=["chat"], route_class=StrictRoute)
    answers = answers_with(CompletionObject)

    @routes.post("/completions", include_in_schema=False)
    @routes.post("/v1/completions", responses=answers, summary="Go on from a text")
    async def completions(body: CompletionRequest, request: Request) -> Response:
        """Go on from a text or token ids as they are: no chat template, nothing split off."""
        return await complete(state, body, request)

    return routes
