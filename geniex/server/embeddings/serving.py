"""Answering a request for embeddings."""

import base64
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from geniex.server.embeddings.protocol import EmbeddingsRequest
from geniex.server.pump import Job, collect, leased
from geniex.server.state import ServerState
from geniex.session import OpenModel


async def embed(state: ServerState, body: EmbeddingsRequest, request: Request) -> Response:
    """The vectors. Raises what loading and evaluating raise, RequestError for `dimensions`."""
    wish = body.wish(state, "embedding")

    def use(job: Job, model: OpenModel) -> Iterator[dict[str, Any]]:
        made = model.loaded.embed(body.inputs)
        body.check_dimensions(len(made.vectors[0]))
        yield {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": _encoded(vector, body)}
                for index, vector in enumerate(made.vectors)
            ],
            "model": model.resolved.name,
            "usage": {"prompt_tokens": made.tokens, "total_tokens": made.tokens},
        }

    (answer,) = await collect(leased(state.pool, wish, body.stays(), use), request)
    return JSONResponse(answer)


def _encoded(vector: Sequence[float], body: EmbeddingsRequest) -> list[float] | str:
    if body.encoding_format != "base64":
        return [*vector]
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
