"""The route of embeddings, with and without `/v1`."""

from fastapi import APIRouter, Request, Response

from geniex.server.embeddings.protocol import EmbeddingsRequest
from geniex.server.embeddings.serving import embed
from geniex.server.schema import EmbeddingsObject, answers_with
from geniex.server.security.json_body import StrictRoute
from geniex.server.state import ServerState


def router(state: ServerState) -> APIRouter:
    """The routes over a server's models."""
    routes = APIRouter(tags=["embeddings"], route_class=StrictRoute)
    answers = answers_with(EmbeddingsObject, streams=False)

    @routes.post("/embeddings", include_in_schema=False)
    @routes.post("/v1/embeddings", responses=answers, summary="Texts as vectors")
    async def embeddings(body: EmbeddingsRequest, request: Request) -> Response:
        """A vector of length 1 for each text, by a model that was made for it."""
        return await embed(state, body, request)

    return routes
