"""The official client and an embedding model, on a real server."""

import math
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from openai import OpenAI
from openai.types import CreateEmbeddingResponse

from tests.geniex.server.clients.conftest import QUESTION, Target, put_into_store
from tests.geniex.server.clients.strict import strictly
from tests.geniex.server.live import running

TEXTS = ["the first text", "another", "the first text"]


@pytest.fixture(scope="module")
def target(toys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A server with a toy of an embedding model, which is asked by the name that is listed."""
    data_dir = tmp_path_factory.mktemp("embeddings")
    put_into_store(toys / "bert-mean.gguf", "local/Toy-Bert.v1_5", data_dir)
    with running(data_dir=data_dir) as server:
        with Target(server.base_url, "").client() as client:
            (listed,) = [model.id for model in client.models.list() if "toy" in model.id.lower()]
        yield Target(server.base_url, listed)


@pytest.fixture(scope="module")
def client(target: Target) -> Iterator[OpenAI]:
    """The official client."""
    with target.client() as client:
        yield client


def test_texts_become_vectors_in_their_order(client: OpenAI, target: Target) -> None:
    # without `encoding_format` the client asks for base64, and decodes it
    decoded = client.embeddings.create(model=target.model, input=TEXTS)
    plain = client.embeddings.create(model=target.model, input=TEXTS, encoding_format="float")
    strictly(CreateEmbeddingResponse, plain.to_json(indent=None))
    assert [entry.index for entry in plain.data] == [0, 1, 2]
    first, second, third = (entry.embedding for entry in plain.data)
    assert first == pytest.approx(third, abs=1e-6)
    assert first != pytest.approx(second, abs=1e-2)
    for given, read in zip(plain.data, decoded.data, strict=True):
        assert given.embedding == pytest.approx(read.embedding, abs=1e-6)
        assert math.hypot(*given.embedding) == pytest.approx(1, abs=1e-5)
    assert plain.usage.total_tokens == plain.usage.prompt_tokens > 0
    assert plain.model == target.model


def test_one_text_is_the_same_as_a_list_of_it(client: OpenAI, target: Target) -> None:
    alone = client.embeddings.create(model=target.model, input=TEXTS[1], encoding_format="float")
    among = client.embeddings.create(model=target.model, input=TEXTS, encoding_format="float")
    assert alone.data[0].embedding == pytest.approx(among.data[1].embedding, abs=1e-5)


def test_what_cannot_be_is_refused(client: OpenAI, target: Target) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model=target.model, input=TEXTS, dimensions=3)
    assert caught.value.param == "dimensions"
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model=target.model, messages=[{"role": "user", "content": QUESTION}]
        )
    assert caught.value.type == "invalid_request_error"
