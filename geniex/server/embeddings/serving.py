"""Answering a request for embeddings."""

import base64
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from geniex.server.blame import blaming
from geniex.server.embeddings.protocol import EmbeddingsRequest
from geniex.server.observed import observed
from geniex.server.pump import Job, collect, leased
from geniex.server.state import ServerState
from geniex.session import OpenModel

_AT_ONCE = 16  # texts between two looks whether the client is still there


async def embed(state: ServerState, body: EmbeddingsRequest, request: Request) -> Response:
    """The vectors. Raises what loading and evaluating raise, RequestError for `dimensions`."""
    wish = body.wish(state, "embedding")

    observed().asked = wish.name

    def use(job: Job, model: OpenModel) -> Iterator[dict[str, Any]]:
        vectors: list[tuple[float, ...]] = []
        tokens = 0
        # in parts, so that nothing more is evaluated for a client that has gone
        for start in range(0, len(body.inputs), _AT_ONCE):
            if job.gone.is_set():
                return
            made = model.loaded.embed(body.inputs[start : start + _AT_ONCE])
            body.check_dimensions(len(made.vectors[0]))
            vectors += made.vectors
            tokens += made.tokens
        state.metrics.embedded(model.resolved.name, tokens)
        observed().embedded_tokens += tokens
        yield {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": _encoded(vector, body)}
                for index, vector in enumerate(vectors)
            ],
            "model": model.resolved.name,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    work = blaming(body, leased(state.pool, wish, body.stays(), use))
    (answer,) = await collect(work, request)
    return JSONResponse(answer)


def _encoded(vector: Sequence[float], body: EmbeddingsRequest) -> list[float] | str:
    if body.encoding_format != "base64":
        return [*vector]
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
