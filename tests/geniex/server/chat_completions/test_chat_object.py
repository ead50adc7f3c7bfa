"""The object of a chat completion."""

import pytest

from geniex.server.logprobs import for_chat
from geniex_runtimes.contract import TokenLogprob
from geniex_runtimes.fake import Script
from tests.geniex.server.chat_completions.conftest import Over
from tests.geniex.server.chat_completions.official import (
    MODEL,
    PROMPT_TOKENS,
    answered,
    chunks,
    geniex,
)
from tests.geniex.server.door import GREETING, HELLO, Door


def test_a_completion_is_whole(chat: Door) -> None:
    completion = answered(chat)
    choice = completion.choices[0]
    assert choice.message.content == HELLO
    assert (choice.index, choice.finish_reason, choice.logprobs) == (0, "stop", None)
    assert completion.model == MODEL
    assert completion.id.startswith("chatcmpl-")
    assert completion.system_fingerprint is not None
    assert completion.system_fingerprint.startswith("fp_")
    usage = completion.usage
    assert usage is not None and usage.completion_tokens_details is not None
    assert usage.prompt_tokens == PROMPT_TOKENS
    assert usage.completion_tokens == 4
    assert usage.total_tokens == usage.prompt_tokens + 4
    told = geniex(completion)
    assert told["runtime"] == "fake"
    assert told["compute"] == "cpu"
    assert told["stop_reason"] == "eos"
    assert told["speculation"] is None
    assert told["warnings"] == []
    assert told["timings"]["total_time"] > 0


def test_the_cached_prompt_is_counted_and_told(over: Over) -> None:
    door = over()
    first, second = answered(door).usage, answered(door).usage
    assert first is not None and second is not None
    assert first.prompt_tokens == second.prompt_tokens
    assert first.prompt_tokens_details is not None
    assert first.prompt_tokens_details.cached_tokens == 0
    assert second.prompt_tokens_details is not None
    assert second.prompt_tokens_details.cached_tokens == second.prompt_tokens - 1


def test_ids_are_unique_and_the_fingerprint_stays(chat: Door) -> None:
    one, other = answered(chat), answered(chat)
    assert one.id != other.id
    assert one.system_fingerprint == other.system_fingerprint


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions"])
def test_both_paths(chat: Door, path: str) -> None:
    response = chat.client.post(path, json={"messages": GREETING})
    assert response.json()["choices"][0]["message"]["content"] == HELLO


@pytest.mark.parametrize("name", [MODEL, "geniex/tiny-chat", "geniex/TINY-chat:q8_0", None])
def test_the_model_is_told_by_its_canonical_name(chat: Door, name: str | None) -> None:
    assert answered(chat, model=name).model == MODEL
    assert len(chat.state.pool.residents()) == 1


@pytest.mark.parametrize("seed", [-1, -(2**63), 2**32, 2**63 - 1, 2**64, 10**40])
def test_a_seed_of_any_size_is_taken_always_the_same_way(chat: Door, seed: int) -> None:
    answered(chat, seed=seed)
    first = chat.runtime.asked.sampling.seed
    answered(chat, seed=seed)
    assert first == chat.runtime.asked.sampling.seed
    assert first is not None and 0 <= first < 2**32
    answered(chat, seed=seed + 1)
    assert chat.runtime.asked.sampling.seed != first


def test_choices_draw_from_seeds_of_their_own_and_share_the_prompt(over: Over) -> None:
    door = over()
    completion = answered(door, n=3, seed=7)
    assert [choice.index for choice in completion.choices] == [0, 1, 2]
    seeds = [asked.sampling.seed for asked in door.runtime.models[-1].requests]
    assert seeds[0] == 7 and len(set(seeds)) == 3
    usage = completion.usage
    assert usage is not None
    assert usage.completion_tokens == 3 * 4
    assert usage.prompt_tokens == len("User: Hi\n\nAssistant:") + 1
    answered(door, n=3, seed=7)
    assert [asked.sampling.seed for asked in door.runtime.models[-1].requests[3:]] == seeds


def test_choices_without_a_seed_are_all_random(over: Over) -> None:
    door = over()
    answered(door, n=2)
    assert [asked.sampling.seed for asked in door.runtime.models[-1].requests] == [None, None]


def test_choices_are_streamed_by_their_index(over: Over) -> None:
    door = over(Script(("one",)), Script(("two",)), Script(("three",)))
    streamed = chunks(door, n=3)
    texts = dict.fromkeys(range(3), "")
    roles, finishes = [], []
    for chunk in streamed:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            roles += [choice.index] * (choice.delta.role is not None)
            finishes += [choice.index] * (choice.finish_reason is not None)
    assert texts == {0: "one", 1: "two", 2: "three"}
    assert roles == finishes == [0, 1, 2]


def test_logprobs_have_bytes_and_alternatives(over: Over) -> None:
    door = over(Script(("He", b"\xc3", b"\xa9", "!")))
    logprobs = answered(door, logprobs=True, top_logprobs=2).choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    assert [bytes(entry.bytes or ()) for entry in logprobs.content] == [
        b"He",
        b"\xc3",
        b"\xa9",
        b"!",
    ]
    assert all(len(entry.top_logprobs) == 2 for entry in logprobs.content)
    streamed = chunks(door, logprobs=True, top_logprobs=2)
    entries = [
        entry
        for chunk in streamed
        for choice in chunk.choices
        if choice.logprobs is not None
        for entry in choice.logprobs.content or ()
    ]
    assert entries == logprobs.content


def test_logprobs_alone_have_no_alternatives(chat: Door) -> None:
    logprobs = answered(chat, logprobs=True).choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    assert [entry.top_logprobs for entry in logprobs.content] == [[]] * 4


def test_top_logprobs_need_logprobs(chat: Door) -> None:
    assert chat.refused(top_logprobs=2)["param"] == "top_logprobs"


def test_a_token_that_cannot_come_has_a_number() -> None:
    never = TokenLogprob(1, b"a", float("-inf"))
    assert for_chat([never])["content"][0]["logprob"] == -9999.0
