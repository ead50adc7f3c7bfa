"""Contexts that no machine has the memory for: refused with numbers, before any is taken."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.geniex.server.live import LiveServer

MODEL = "geniex/tiny-chat"
MOST = 2**30  # tokens that a request may ask for


def post(server: LiveServer, path: str, **fields: Any) -> tuple[int, Any]:
    """The status and the body of an answer."""
    request = urllib.request.Request(
        f"{server.url}{path}",
        data=json.dumps(fields).encode(),
        headers={"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize("length", [10**9, MOST, 2**31, 10**24])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models/geniex%2Ftiny-chat/load"])
def test_a_context_of_a_billion(live_server: LiveServer, path: str, length: int) -> None:
    chat = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    body = chat if path.endswith("completions") else {}
    status, answer = post(live_server, path, nctx=length, **body)
    assert status == 400
    message = answer["error"]["message"]
    if length > MOST:
        assert f"less than or equal to {MOST}" in message
    else:
        assert f"a context of {length} tokens needs" in message and "would fit" in message
    assert post(live_server, "/v1/chat/completions", **chat)[0] == 200
