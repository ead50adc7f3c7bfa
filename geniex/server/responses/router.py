"""The route of the Responses API."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from geniex.server.responses.objects import ResponseObject
from geniex.server.responses.protocol import ResponsesRequest
from geniex.server.responses.serving import respond
from geniex.server.schema import answers_with
from geniex.server.security.json_body import StrictRoute
from geniex.server.state import ServerState


def router(state: ServerState) -> APIRouter:
    """The routes, over the server's state."""
    routes = APIRouter(tags=["chat"], route_class=StrictRoute)

    async def create(request: ResponsesRequest, http: Request) -> Response:
        """Answer a text or a conversation, as the Responses API of OpenAI does.

        Nothing is stored: send the whole conversation each time, and leave out
        `previous_response_id`. With `stream`, the events of the API are sent one by one.
        """
        return await respond(state, request, http)

    routes.add_api_route(
        "/v1/responses",
        create,
        methods=["POST"],
        response_model=None,
        summary="Create a response",
        responses=answers_with(ResponseObject),
    )
    routes.add_api_route(
        "/responses", create, methods=["POST"], response_model=None, include_in_schema=False
    )
    return routes
