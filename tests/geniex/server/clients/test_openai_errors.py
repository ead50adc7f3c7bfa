"""How the official client raises what a server refuses, and what fails in its hands."""

from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI

from geniex_catalogue.errors import ServerBusyError
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.fake import Script
from tests.geniex.server.door import GREETING, Door, Runtime, opened


def official(door: Door, api_key: str = "none") -> Any:
    """The official client, through the server's door in this process."""
    return OpenAI(
        base_url="http://testserver/v1", api_key=api_key, http_client=door.client, max_retries=0
    )


def test_a_wrong_key_is_an_authentication_error(tmp_path: Path) -> None:
    with opened(Runtime(), tmp_path, "/", {}, api_key="right") as door:
        assert official(door, "right").models.list().data
        with pytest.raises(openai.AuthenticationError) as caught:
            official(door, "wrong").models.list()
    assert caught.value.code == "invalid_api_key"


def test_a_body_that_is_too_large_is_a_status_error(tmp_path: Path) -> None:
    with (
        opened(Runtime(), tmp_path, "/", {}, max_body=2000) as door,
        pytest.raises(openai.APIStatusError) as caught,
    ):
        official(door).responses.create(model="geniex/tiny-chat", input="x" * 3000)
    assert caught.value.status_code == 413


def test_a_busy_server_says_when_to_come_again(tmp_path: Path) -> None:
    busy = Script(prefill_error=ServerBusyError("every slot is taken", retry_after=7))
    with (
        opened(Runtime(busy), tmp_path, "/", {}) as door,
        pytest.raises(openai.InternalServerError) as caught,
    ):
        official(door).responses.create(model="geniex/tiny-chat", input="Hi")
    assert caught.value.status_code == 503
    assert caught.value.response.headers["retry-after"] == "7"


def test_a_stream_that_breaks_raises_after_what_came(tmp_path: Path) -> None:
    breaks = Script(error=GenerationError("the decoder gave up"), error_after=2)
    with opened(Runtime(breaks), tmp_path, "/", {}) as door:
        stream = official(door).chat.completions.create(
            model="geniex/tiny-chat", messages=GREETING, stream=True
        )
        texts = []
        with pytest.raises(openai.APIError) as caught:
            for chunk in stream:
                texts += [choice.delta.content or "" for choice in chunk.choices]
        assert "".join(texts) == "Hello, "
        assert "gave up" in caught.value.message
        events = official(door).responses.create(model="geniex/tiny-chat", input="Hi", stream=True)
        last = list(events)[-1]
    assert last.type == "response.failed"
    assert "gave up" in last.response.error.message
