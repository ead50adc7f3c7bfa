"""`/tokenize` and `/detokenize`, with the field names of llama.cpp's server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from geniex.server.blame import blaming
from geniex.server.fields import RequestFields
from geniex.server.models.listing import purpose_of
from geniex.server.pump import Job, collect, leased
from geniex.server.residents import ModelWish
from geniex.server.security.json_body import StrictRoute
from geniex.session import OpenModel
from geniex_runtimes.contract import LoadedModel, PromptPiece

if TYPE_CHECKING:
    from geniex.server.state import ServerState

TokenNumber = Annotated[int, Field(ge=0, lt=1 << 31)]


class TokenizeRequest(RequestFields):
    """A text to take apart."""

    content: str
    add_special: bool = Field(False, description="Put the model's first token before the text.")
    parse_special: bool = Field(True, description="Take special tokens in the text for such.")
    with_pieces: bool = Field(False, description="Say what each token stands for.")


class TokenPiece(BaseModel):
    """A token and its text; bytes, where they are no whole characters."""

    id: int
    piece: str | list[int]


class Tokens(BaseModel):
    """The tokens of a text: numbers, or numbers and pieces."""

    tokens: list[int] | list[TokenPiece]


class DetokenizeRequest(RequestFields):
    """Tokens to put together."""

    tokens: list[TokenNumber]


class Content(BaseModel):
    """The text of tokens, special ones included."""

    content: str


def router(state: ServerState) -> APIRouter:
    """The routes about tokens; a model that is not in memory is loaded for them."""
    routes = APIRouter(tags=["tokens"], route_class=StrictRoute)

    @routes.post("/v1/tokenize", operation_id="tokenize")
    @routes.post("/tokenize", operation_id="tokenizeBare")
    async def tokenize(body: TokenizeRequest, request: Request) -> Tokens:
        """The tokens of a text, as the model sees them."""

        def use(job: Job, model: OpenModel) -> Iterator[Tokens]:
            yield Tokens(tokens=_tokens(body, model.loaded))

        wish = await run_in_threadpool(_wish, body, state)
        work = blaming(body, leased(state.pool, wish, body.stays(), use))
        return (await collect(work, request))[0]

    @routes.post("/v1/detokenize", operation_id="detokenize")
    @routes.post("/detokenize", operation_id="detokenizeBare")
    async def detokenize(body: DetokenizeRequest, request: Request) -> Content:
        """The text of tokens."""

        def use(job: Job, model: OpenModel) -> Iterator[Content]:
            yield Content(content=model.loaded.detokenize(body.tokens))

        wish = await run_in_threadpool(_wish, body, state)
        work = blaming(body, leased(state.pool, wish, body.stays(), use))
        return (await collect(work, request))[0]

    return routes


def _wish(body: RequestFields, state: ServerState) -> ModelWish:
    """A wish for the model as what it is: an embedding model has tokens, too."""
    wish = body.wish(state)
    name = wish.name or state.settings.model
    return replace(wish, purpose=purpose_of(name, state.settings, state.options))


def _tokens(body: TokenizeRequest, model: LoadedModel) -> list[int] | list[TokenPiece]:
    tokens = model.tokenize([PromptPiece(body.content, literal=not body.parse_special)])
    # what the model puts before every prompt, unless the text itself begins with it
    first = model.info.bos_token
    typed = bool(first) and body.parse_special and body.content.startswith(first)
    if not body.add_special and not typed:
        tokens = _unframed(tokens, model.tokenize([]))
    if not body.with_pieces:
        return tokens
    return [TokenPiece(id=token, piece=_piece(model.token_bytes(token))) for token in tokens]


def _unframed(tokens: list[int], frame: list[int]) -> list[int]:
    """The tokens without what the model puts around every text: before it, or behind it as well."""
    pairs = enumerate(zip(tokens, frame, strict=False))
    before = next((index for index, (one, other) in pairs if one != other), len(frame))
    return tokens[before : len(tokens) - (len(frame) - before)]


def _piece(data: bytes) -> str | list[int]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)
