"""The page at `/` and the document behind it: Swagger UI from the package, nothing from elsewhere.

The example bodies that the page offers are put into the document here, so that all of them stand
in one place.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastapi_offline
from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.staticfiles import StaticFiles
from starlette.responses import JSONResponse, Response

if TYPE_CHECKING:
    from geniex.server.state import ServerState

DESCRIPTION = """\
Language models on this machine, for any OpenAI client: the base address is `/v1` of this server.

Speculative decoding is set up per request: `spec_type` turns it on, `spec_draft_model` names the
draft, `spec_n_max` says how many tokens are drafted a step. The draft must be here; the server
pulls nothing.
"""
TAGS = [
    {"name": "chat", "description": "Answers to messages, prompts and items."},
    {"name": "embeddings", "description": "Vectors of texts."},
    {"name": "models", "description": "Which models are here, and what is in memory."},
    {"name": "tokens", "description": "Texts as the model sees them."},
    {"name": "server", "description": "How the server is."},
]

_STATIC = "/docs/static"
_FILES = Path(fastapi_offline.__file__).with_name("static")
_LOCKED = {
    # the page may load what this server sends, and nothing else
    "content-security-policy": "default-src 'self'; script-src 'self' 'unsafe-inline'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"
}
_HELLO = [{"role": "user", "content": "Hello! Briefly introduce yourself."}]


def _mtp(target: str, draft: str) -> dict[str, Any]:
    return {
        "model": target,
        "messages": _HELLO,
        "spec_type": "draft-mtp",
        "spec_draft_model": draft,
        "spec_n_max": 3,
        "nctx": 8192,
        "max_completion_tokens": 2048,
        "temperature": 0.8,
        "top_p": 0.95,
        "stream": False,
    }


_TINY, _TINY_DRAFT = "geniex/tiny-chat:Q8_0", "geniex/tiny-chat-draft:Q8_0"
EXAMPLES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "mtp": {
            "summary": "Speculative decoding with MTP",
            "value": _mtp(
                "google/gemma-4-26B-A4B-it-qat-q4_0-gguf:Q4_0",
                "RachidAR/gemma-4-26B-A4B-it-qat-assistant-q4_0-gguf:Q4_0",
            ),
        },
        "mtp-built-in": {
            "summary": "The same with the built-in pair, which is always here",
            "value": {**_mtp(_TINY, _TINY_DRAFT), "nctx": 1024, "max_completion_tokens": 256},
        },
        "plain": {
            "summary": "A plain question",
            "value": {"model": _TINY, "messages": _HELLO, "temperature": 0},
        },
    },
    "/v1/completions": {
        "plain": {
            "summary": "Go on from a text",
            "value": {"model": _TINY, "prompt": "The capital of France", "max_tokens": 32},
        }
    },
    "/v1/responses": {
        "plain": {"summary": "A plain question", "value": {"model": _TINY, "input": "Hello!"}}
    },
    "/v1/tokenize": {
        "plain": {"summary": "A text", "value": {"model": _TINY, "content": "Hello!"}}
    },
    "/v1/detokenize": {
        "plain": {"summary": "Two tokens", "value": {"model": _TINY, "tokens": [72, 105]}}
    },
}


def install(app: FastAPI, state: ServerState) -> None:
    """Add the page, its files and the document, once all other routes are there."""
    app.mount(_STATIC, StaticFiles(directory=_FILES), name="docs")

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def page() -> Response:
        html = get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="geniex",
            swagger_js_url=f"{_STATIC}/swagger-ui-bundle.js",
            swagger_css_url=f"{_STATIC}/swagger-ui.css",
            swagger_favicon_url=f"{_STATIC}/favicon.png",
            swagger_ui_parameters={
                "tryItOutEnabled": True,
                "displayRequestDuration": True,
                "defaultModelsExpandDepth": 0,
                "validatorUrl": None,
            },
        )
        html.headers.update(_LOCKED)
        return html

    @app.get("/openapi.json", include_in_schema=False)
    def document() -> JSONResponse:
        # on a thread: making it takes a while the first time
        return JSONResponse(app.openapi())

    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _finish(plain(), with_key=state.options.keys is not None)
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _finish(schema: dict[str, Any], *, with_key: bool) -> None:
    """Put in the examples and the key, and take out the answer 422, which is never given."""
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            operation["responses"].pop("422", None)
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is not None and (examples := EXAMPLES.get(path)):
                body["examples"] = examples
    components = schema.setdefault("components", {})
    for name in ("HTTPValidationError", "ValidationError"):
        components.get("schemas", {}).pop(name, None)
    if with_key:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"key": []}]
