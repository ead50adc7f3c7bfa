"""`POST /v1/embeddings`: vectors as the official client's types have them."""

import base64
import math
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from openai.types import CreateEmbeddingResponse
from openai.types.embedding_create_params import EmbeddingCreateParams

from tests.geniex.server.clients.strict import strictly
from tests.geniex.server.door import Door, Runtime, opened

MODEL = "geniex/tiny-chat:Q8_0"


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A server over a scripted runtime, one for the module."""
    data = tmp_path_factory.mktemp("data")
    with opened(Runtime(), data, "/v1/embeddings", {"input": "Hello"}) as made:
        yield made


def embedded(door: Door, **fields: Any) -> CreateEmbeddingResponse:
    """Vectors, held to the official type."""
    response = door.post(**fields)
    assert response.status_code == 200, response.text
    answer: CreateEmbeddingResponse = strictly(CreateEmbeddingResponse, response.content)
    return answer


def test_a_vector_is_of_length_one(door: Door) -> None:
    answer = embedded(door)
    (entry,) = answer.data
    assert entry.index == 0
    assert math.isclose(math.hypot(*entry.embedding), 1, rel_tol=1e-5)
    assert answer.model == MODEL
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0


@pytest.mark.parametrize(
    ("given", "count"),
    [("Hello", 1), (["Hello", "world"], 2), ([72, 105], 1), ([[72, 105], [72], [33]], 3)],
    ids=["text", "texts", "tokens", "token lists"],
)
def test_inputs_of_every_form(door: Door, given: Any, count: int) -> None:
    answer = embedded(door, input=given)
    assert [entry.index for entry in answer.data] == list(range(count))


def test_many_inputs_come_in_their_order(door: Door) -> None:
    texts = ["a" * (number + 1) for number in range(50)]
    answer = embedded(door, input=texts)
    alone = [embedded(door, input=text) for text in (texts[0], texts[20], texts[49])]
    assert [answer.data[index].embedding for index in (0, 20, 49)] == [
        one.data[0].embedding for one in alone
    ]
    assert answer.usage.prompt_tokens == sum(len(text) + 1 for text in texts)


def test_equal_inputs_have_equal_vectors(door: Door) -> None:
    one, other, third = embedded(door, input=["a", "a", "something else"]).data
    assert one.embedding == other.embedding != third.embedding


def test_base64_is_the_same_in_32_bits(door: Door) -> None:
    (plain,) = embedded(door).data
    (entry,) = door.ask(encoding_format="base64")["data"]
    data = base64.b64decode(entry["embedding"])
    numbers = struct.unpack(f"<{len(data) // 4}f", data)
    assert numbers == pytest.approx(plain.embedding, abs=1e-6)


def test_every_documented_field(door: Door) -> None:
    length = len(embedded(door).data[0].embedding)
    fields = {
        "input": "Hi",
        "model": MODEL,
        "dimensions": length,
        "encoding_format": "float",
        "user": "u",
    }
    assert fields.keys() == EmbeddingCreateParams.__annotations__.keys()
    embedded(door, **fields)
    embedded(door, **dict.fromkeys(fields.keys() - {"input"}))


def test_the_context_is_one_for_embeddings(door: Door) -> None:
    embedded(door)
    assert door.runtime.loads[-1].embedding
    assert {one.purpose for one in door.state.pool.residents()} == {"embedding"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": [[]]}, "input"),
        ({"input": 5}, "input"),
        ({"dimensions": 3}, "dimensions"),
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"model": "/etc/hosts"}, "model"),
    ],
)
def test_what_cannot_be_is_refused_by_name(door: Door, fields: dict[str, Any], param: str) -> None:
    assert door.refused(**fields)["param"] == param


def test_a_text_too_long_is_refused_with_both_numbers(door: Door) -> None:
    error = door.refused(input="x" * 100, nctx=64)
    assert error["code"] == "context_length_exceeded"
    assert "64" in error["message"] and "101" in error["message"]
