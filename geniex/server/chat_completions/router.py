"""The route of chat completions, with and without `/v1`."""

from fastapi import APIRouter, Request, Response

from geniex.server.chat_completions.protocol import ChatRequest
from geniex.server.chat_completions.serving import complete
from geniex.server.schema import ChatCompletionObject, answers_with
from geniex.server.security.json_body import StrictRoute
from geniex.server.state import ServerState


def router(state: ServerState) -> APIRouter:
    """The routes over a server's models."""
    routes = APIRouter(tags=["chat"], route_class=StrictRoute)
    answers = answers_with(ChatCompletionObject)

    @routes.post("/chat/completions", include_in_schema=False)
    @routes.post("/v1/chat/completions", responses=answers, summary="Answer a chat")
    async def chat_completions(body: ChatRequest, request: Request) -> Response:
        """Answer the last message of a chat; speculation is configured by the `spec_*` fields."""
        return await complete(state, body, request)

    return routes
