"""A bundle through the public door of the runtime, on Qualcomm's simulator."""

from collections.abc import Iterator

import pytest

from ci.qairt_bundles.corpus import MANY_BYTES, PROMPTS
from geniex_catalogue.errors import UsageError
from geniex_runtimes.contract import PromptPiece, TextEvent
from geniex_runtimes.errors import ContextLengthError, GenerationError
from geniex_runtimes.options import SIMULATOR, SamplingOptions
from geniex_runtimes.qairt.loaded import QairtModel
from tests.geniex_runtimes.qairt.loading import ask, load, split
from tests.qairt_bundles import ENDS, QairtBundles

STORY = "Once upon a time"
COLOURS = "Colours:"


@pytest.fixture(scope="module")
def model(qairt_bundles: QairtBundles) -> Iterator[QairtModel]:
    """One bundle, one worker, for the whole file."""
    with load(qairt_bundles.folder()) as loaded:
        yield loaded


def _expected(bundles: QairtBundles, prompt: str, count: int) -> str:
    tokens = bundles.reference(bundles.encode(prompt), count)
    return bundles.decode([token for token in tokens if token not in ENDS])


def test_what_it_is(model: QairtModel) -> None:
    info = model.info
    assert (info.runtime, info.compute, info.devices) == ("qairt", "npu", (SIMULATOR,))
    assert (info.context_length, info.slots, info.vocab_size) == (64, 1, 512)
    assert (info.bos_token, info.eos_token) == ("<|bos|>", "<|eos|>")
    assert info.chat_template is not None and "<|im_start|>" in info.chat_template
    assert info.end_tokens == {"<|eos|>", "<|im_end|>"} <= info.control_tokens
    assert info.sampling_defaults.temperature is not None
    assert info.warnings == ()


@pytest.mark.parametrize("prompt", PROMPTS[:4])
def test_the_likeliest_text_is_that_of_the_cpu(
    model: QairtModel, qairt_bundles: QairtBundles, prompt: str
) -> None:
    text, done = split(ask(model, prompt, max_tokens=8))
    assert text == _expected(qairt_bundles, prompt, 8)
    assert done.profile.prompt_tokens == len(qairt_bundles.encode(prompt))


def test_an_answer_comes_in_pieces(model: QairtModel, qairt_bundles: QairtBundles) -> None:
    events = [e for e in ask(model, STORY, max_tokens=6) if isinstance(e, TextEvent)]
    assert len(events) > 3
    text, done = split(ask(model, STORY, max_tokens=6))
    assert "".join(event.text for event in events) == text
    assert (done.finish_reason, done.profile.stop_reason) == ("length", "length")
    assert done.profile.generated_tokens == 6
    assert 0 < done.profile.prompt_time <= done.profile.ttft
    assert done.profile.decode_time > 0


def test_characters_are_whole(model: QairtModel) -> None:
    events = ask(model, MANY_BYTES[:2], max_tokens=30)
    texts = [event.text for event in events if isinstance(event, TextEvent)]
    assert len(texts) < 30 and "�" not in "".join(texts[:-1])
    assert "".join(texts).startswith(MANY_BYTES[2:12])


def test_a_stop_string_is_not_part_of_the_answer(
    model: QairtModel, qairt_bundles: QairtBundles
) -> None:
    whole = _expected(qairt_bundles, STORY, 12)
    stop = whole[6:12]
    text, done = split(ask(model, STORY, max_tokens=12, stop=(stop, "never")))
    assert text == whole[:6]
    assert (done.finish_reason, done.profile.stop_reason) == ("stop", "stop")


def test_an_end_token_ends_it(model: QairtModel) -> None:
    prompt = "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"
    text, done = split(ask(model, prompt))
    assert text == "Hello, how can I help you?"
    assert (done.finish_reason, done.profile.stop_reason) == ("stop", "eos")


def test_an_answer_is_stopped_and_the_next_is_whole(
    model: QairtModel, qairt_bundles: QairtBundles
) -> None:
    answer = ask(model, STORY)
    next(answer)
    answer.stop()
    _, done = split(answer)
    assert (done.finish_reason, done.profile.stop_reason) == ("cancelled", "user")
    assert done.profile.generated_tokens < 30
    assert split(ask(model, STORY, max_tokens=8))[0] == _expected(qairt_bundles, STORY, 8)


def test_an_answer_that_has_not_begun_is_stopped_at_once(
    model: QairtModel, qairt_bundles: QairtBundles
) -> None:
    answer = ask(model, qairt_bundles.encode("Count: one two three" * 6)[:60])
    answer.stop()
    _, done = split(answer)
    assert (done.finish_reason, done.profile.stop_reason) == ("cancelled", "user")
    assert done.profile.generated_tokens == 0
    assert split(ask(model, STORY, max_tokens=8))[0] == _expected(qairt_bundles, STORY, 8)


def test_requests_wait_for_their_turn(model: QairtModel, qairt_bundles: QairtBundles) -> None:
    first, second, third = (ask(model, STORY, max_tokens=8) for _ in range(3))
    second.stop()
    assert split(second)[1].finish_reason == "cancelled"
    expected = _expected(qairt_bundles, STORY, 8)
    assert split(third)[0] == split(first)[0] == expected


def test_a_seed_of_any_size_is_reproducible(model: QairtModel) -> None:
    def colours(seed: int) -> str:
        wild = SamplingOptions(temperature=1.5, top_k=0, seed=seed)
        return split(ask(model, COLOURS, wild, max_tokens=10))[0]

    assert colours(1 << 80) == colours(1 << 80)
    assert len({colours(seed) for seed in range(4)}) > 1


def test_logprobs(model: QairtModel) -> None:
    events = list(ask(model, STORY, max_tokens=3, logprobs=2))
    entries = [e for event in events if isinstance(event, TextEvent) for e in event.logprobs]
    assert len(entries) == 3
    for entry in entries:
        assert entry.top[0].token == entry.token and entry.logprob <= 0
        assert entry.data == model.token_bytes(entry.token)


def test_a_grammar_holds_the_answer(model: QairtModel) -> None:
    grammar = 'root ::= "yes" | "no"'
    options = SamplingOptions(temperature=0, grammar=grammar)
    assert split(ask(model, STORY, options))[0] in ("yes", "no")
    with pytest.raises(UsageError, match="grammar"):
        ask(model, STORY, SamplingOptions(grammar="root ::= nothing"))


def test_the_context_is_filled_and_never_passed(
    model: QairtModel, qairt_bundles: QairtBundles
) -> None:
    count = "Count: one two three"
    text, done = split(ask(model, count))
    size = len(qairt_bundles.encode(count))
    assert (done.finish_reason, done.profile.stop_reason) == ("length", "context")
    assert size + done.profile.generated_tokens == 64
    assert text == _expected(qairt_bundles, count, 64 - size)
    assert split(ask(model, STORY, max_tokens=8))[0] == _expected(qairt_bundles, STORY, 8)


@pytest.mark.parametrize("length", [48, 49, 50, 60, 63])
def test_a_prompt_may_be_as_long_as_the_context(
    model: QairtModel, qairt_bundles: QairtBundles, length: int
) -> None:
    """The prompt graph takes 16 tokens behind 48: the end of a longer prompt goes another way."""
    text = "Count: one two three four five six seven eight nine ten" * 6
    tokens = qairt_bundles.encode(text)[:length]
    done = split(ask(model, tokens, max_tokens=1))[1]
    assert done.profile.prompt_tokens == length
    expected = qairt_bundles.reference(tokens, 1)
    found = [
        entry.token
        for event in ask(model, tokens, max_tokens=1, logprobs=0)
        if isinstance(event, TextEvent)
        for entry in event.logprobs
    ]
    assert found == [token for token in expected if token not in ENDS]


def test_what_does_not_fit_is_refused_before_it_is_evaluated(model: QairtModel) -> None:
    with pytest.raises(ContextLengthError) as caught:
        ask(model, "one two three " * 40)
    assert caught.value.context_length == 64
    with pytest.raises(UsageError, match="empty"):
        ask(model, ())
    with pytest.raises(UsageError, match="token 512 is not in the vocabulary of 512"):
        ask(model, (1, 512))
    done = split(ask(model, [5] * 64))[1]
    assert (done.profile.generated_tokens, done.profile.stop_reason) == (0, "context")
    with pytest.raises(UsageError, match="embeds nothing"):
        model.embed(["text"])


def test_a_second_turn_keeps_the_first(model: QairtModel, qairt_bundles: QairtBundles) -> None:
    ids = qairt_bundles.encode(STORY)
    answer = qairt_bundles.reference(ids, 6)
    turn = [*ids, *answer, *qairt_bundles.encode(" One day it")[1:]]
    split(ask(model, ids, max_tokens=6))
    text, done = split(ask(model, turn, max_tokens=6))
    assert done.profile.cached_tokens == len(ids) + 5
    fresh, whole = split(ask(model, turn, max_tokens=6, reuse_prefix=False))
    assert (fresh, whole.profile.cached_tokens) == (text, 0)


@pytest.mark.parametrize("engine", ["genie", "ort"])
def test_a_seed_repeats_without_the_cache_whatever_it_holds(
    qairt_bundles: QairtBundles, engine: str
) -> None:
    drawn = SamplingOptions(temperature=1.5, seed=7)
    said = set()
    with load(qairt_bundles.folder(), qairt_engine=engine) as model:
        for before in (COLOURS, STORY + " there", STORY):
            split(ask(model, before, max_tokens=4))
            said.add(split(ask(model, STORY, drawn, max_tokens=12, reuse_prefix=False))[0])
        kept = [split(ask(model, STORY, drawn, max_tokens=12))[0] for _ in range(3)]
    assert len(said) == 1
    # each of the last two found what the one before it had left
    assert kept[1] == kept[2]


def test_bos_is_there_once(model: QairtModel, qairt_bundles: QairtBundles) -> None:
    expected = qairt_bundles.encode(STORY)
    assert model.tokenize([PromptPiece(STORY)]) == expected
    assert model.tokenize([PromptPiece("<|bos|><|bos|>" + STORY)]) == expected
    assert model.detokenize(expected) == "<|bos|>" + STORY


def test_a_bundle_of_two_parts_on_the_other_engine(qairt_bundles: QairtBundles) -> None:
    with load(qairt_bundles.folder(parts=2), qairt_engine="ort") as model:
        text, done = split(ask(model, STORY, max_tokens=4))
    tokens = qairt_bundles.reference(qairt_bundles.encode(STORY), 4, parts=2)
    assert text == qairt_bundles.decode(tokens)
    assert done.profile.generated_tokens == 4
    with pytest.raises(GenerationError, match="has been closed"):
        ask(model, STORY)
