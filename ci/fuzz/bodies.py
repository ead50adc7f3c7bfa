"""The target of request bodies: the whole server over a scripted runtime."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ci.fuzz.target import Check, Target, expect

_MODEL = "geniex/tiny-chat:Q8_0"
_MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "now", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "noon"},
    {"role": "user", "content": "And now?"},
]
_PICTURE = {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "now",
            "description": "The time",
            "strict": True,
            "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
        },
    }
]
_FORMAT = {
    "type": "json_schema",
    "json_schema": {"name": "r", "strict": True, "schema": {"type": "object", "properties": {}}},
}
_SAMPLING = {
    **{"temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "seed": 7, "n": 2},
    **{"presence_penalty": 0.1, "frequency_penalty": 0.1, "repetition_penalty": 1.1},
    **{"logit_bias": {"5": -100}, "logprobs": True, "top_logprobs": 2, "stop": ["x", "y"]},
    **{"max_tokens": 4, "nctx": 512, "keep_alive": "5m", "user": "me", "metadata": {"a": "b"}},
}
_SPECULATION = {
    **{"spec_type": "draft-mtp", "spec_draft_model": "geniex/tiny-chat-draft", "spec_n_max": 3},
    **{"enable_think": True, "chat_template_kwargs": {"enable_thinking": False}, "compute": "cpu"},
}
_CHAT = {"model": _MODEL, "messages": _MESSAGES}
# route -> good bodies
_ROUTES: dict[str, list[dict[str, Any]]] = {
    "/v1/chat/completions": [
        {**_CHAT, **_SAMPLING},
        {**_CHAT, **_SPECULATION, "stream": True, "stream_options": {"include_usage": True}},
        {**_CHAT, "tools": _TOOLS, "tool_choice": "auto", "parallel_tool_calls": False},
        {**_CHAT, "response_format": _FORMAT, "max_completion_tokens": 5},
        {"model": _MODEL, "messages": [{"role": "user", "content": [_PICTURE]}]},
    ],
    "/v1/completions": [
        {"model": _MODEL, "prompt": ["Hi", "Ho"], "echo": True, "suffix": "!", "logprobs": 2},
        {"model": _MODEL, "prompt": [1, 2, 3], "best_of": 2, "grammar_string": "root ::= [a-z]"},
    ],
    "/v1/responses": [
        {
            "model": _MODEL,
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
            "instructions": "Be brief.",
            "text": {"format": {"type": "json_object"}},
            "tools": [{"type": "function", "name": "now", "parameters": {}, "strict": True}],
            "previous_response_id": None,
        }
    ],
    "/v1/embeddings": [{"model": _MODEL, "input": ["a", "b"], "encoding_format": "base64"}],
    "/tokenize": [{"model": _MODEL, "content": "Hi", "add_special": True, "with_pieces": True}],
    "/detokenize": [{"model": _MODEL, "tokens": [1, 2, 3]}],
    "/apply-template": [_CHAT],
    "/v1/models/geniex%2Ftiny-chat/load": [{"nctx": 512, "keep_alive": 0}],
}
_PATHS = list(_ROUTES)


@contextmanager
def _open() -> Iterator[Check]:
    from tests.geniex.server.door import Runtime, opened

    runtime = Runtime(name="llama_cpp")
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(runtime, Path(folder), _PATHS[0], {}) as door,
    ):

        def check(data: bytes) -> None:
            """The first byte says which route the rest is sent to."""
            path = _PATHS[(data[0] if data else 0) % len(_PATHS)]
            response = door.client.post(
                path, content=data[1:], headers={"content-type": "application/json"}
            )
            status = response.status_code
            expect(status < 500 or status in (501, 503), f"{status}: {response.text[:300]}")
            if status >= 400:
                error = response.json()["error"]
                expect(error.keys() == {"message", "type", "param", "code"}, str(error))
                expect(len(error["message"]) < 20_000, "a message without end")
                expect(folder not in response.text, "it tells a folder")
            elif not response.headers["content-type"].startswith("text/event-stream"):
                response.json()

        yield check


def _seeds() -> list[bytes]:
    return [
        bytes([at]) + json.dumps(body).encode()
        for at, bodies in enumerate(_ROUTES.values())
        for body in bodies
    ]


_WORDS = (
    *(b'"model": "../../etc/passwd"', b'"nctx": 1000000000', b"NaN", b"1e400", b"\\ud800", b"-0"),
    *(b'"n": 129', b"\xff", b"[[[[", b'{"a":', b'"role": "tool"', b"null", b'"stream": true,'),
)
BODIES = (Target("bodies", _open, _seeds, _WORDS, "json", 1),)
