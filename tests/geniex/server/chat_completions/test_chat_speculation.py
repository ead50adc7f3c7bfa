"""Speculation, set up and told of per request."""

from typing import Any

import pytest

from geniex_runtimes.fake import Script
from tests.geniex.server.chat_completions.conftest import Over
from tests.geniex.server.chat_completions.official import DRAFT, answered, chunks, geniex
from tests.geniex.server.door import Door


def test_speculation_is_set_up_by_the_request_and_counted(over: Over) -> None:
    door = over(Script(("a",) * 6, drafts=((3, 2), (3, 1), (2, 0))))
    fields = {
        "spec_type": "draft-mtp",
        "spec_draft_model": DRAFT,
        "spec_n_max": 5,
        "spec_n_min": 1,
        "spec_p_min": 0.25,
    }
    completion = answered(door, **fields)
    options = door.runtime.loads[-1].speculative
    assert (options.types, options.n_max, options.n_min, options.p_min) == (
        ("draft-mtp",),
        5,
        1,
        0.25,
    )
    usage = completion.usage
    assert usage is not None and usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.accepted_prediction_tokens == 3
    assert usage.completion_tokens_details.rejected_prediction_tokens == 5
    told = geniex(completion)["speculation"]
    assert told["state"] == "on"
    assert told["draft_model"] == DRAFT
    assert (told["proposed"], told["accepted"], told["steps"]) == (8, 3, 3)
    last = chunks(door, stream_options={"include_usage": True}, **fields)[-1]
    assert last.usage is not None
    assert last.usage.completion_tokens_details == usage.completion_tokens_details


def test_choices_add_their_drafts_up(over: Over) -> None:
    door = over(Script(("a",) * 6, drafts=((3, 2), (3, 1))))
    completion = answered(door, n=2, spec_type="ngram-simple")
    told = geniex(completion)["speculation"]
    assert (told["proposed"], told["accepted"]) == (12, 6)
    assert told["accepted_at"] == [4, 2]


def test_speculation_that_cannot_be_is_told_why(over: Over) -> None:
    door = over(Script(), spec_failure="the pair does not match")
    told = geniex(answered(door, spec_type="ngram-simple"))
    assert told["speculation"]["state"] == "off"
    assert "the pair does not match" in told["speculation"]["reason"]
    assert any("the pair does not match" in warning for warning in told["warnings"])


def test_speculation_that_is_required_and_cannot_be_is_refused(over: Over) -> None:
    door = over(Script(), Script(), spec_failure="the pair does not match")
    error = door.refused(spec_type="ngram-simple", require_spec=True)
    assert (error["param"], error["code"]) == ("require_spec", "unsupported_parameter")
    assert error["message"].startswith("the pair does not match. Without `require_spec`")
    for free in (False, None):
        assert answered(door, spec_type="ngram-simple", require_spec=free).choices


@pytest.mark.parametrize("spec_type", ["none", "", None])
def test_no_speculation(chat: Door, spec_type: str | None) -> None:
    answered(chat, spec_type=spec_type)
    assert chat.runtime.loads[-1].speculative.types == ()


def test_the_fewest_of_n_grams_are_judged_by_their_own_most(chat: Door) -> None:
    answered(chat, spec_type="ngram-simple", spec_n_min=4)
    loaded = chat.runtime.loads[-1].speculative
    assert (loaded.n_min, loaded.n_max) == (4, 15)


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"spec_type": "mtp"}, "spec_type", "invalid_value"),
        ({"spec_type": "draft-eagle3"}, "spec_type", "invalid_value"),
        ({"spec_type": "mtp", "spec_draft_model": DRAFT}, "spec_type", "invalid_value"),
        (
            {"spec_type": "draft-mtp,draft-simple", "spec_draft_model": DRAFT},
            "spec_type",
            "invalid_value",
        ),
        ({"spec_type": "none", "require_spec": True}, "require_spec", "invalid_value"),
        ({"spec_n_max": 3}, "spec_n_max", "invalid_value"),
        ({"require_spec": True}, "require_spec", "invalid_value"),
        ({"spec_type": "auto", "require_spec": 1}, "require_spec", "invalid_value"),
        ({"spec_draft_model": DRAFT}, "spec_draft_model", "invalid_value"),
        ({"spec_type": "draft-mtp", "spec_n_max": 2, "spec_n_min": 3}, "spec_n_min", None),
        ({"spec_type": "ngram-mod", "spec_n_min": 16}, "spec_n_min", "invalid_value"),
        ({"spec_type": "draft-mtp", "spec_p_min": 1.5}, "spec_p_min", None),
        ({"spec_type": "ngram-mod", "spec_p_min": 0.5}, "spec_p_min", "invalid_value"),
        ({"spec_type": "ngram-simple", "spec_draft_model": DRAFT}, "spec_draft_model", None),
        (
            {"spec_type": "draft-mtp", "spec_draft_model": "nobody/nothing"},
            "spec_draft_model",
            "draft_model_not_found",
        ),
        ({"spec_type": "draft-mtp", "spec_draft_model": "/etc/hosts"}, "spec_draft_model", None),
        ({"spec_type": "draft-mtp", "spec_draft_model": "./x.gguf"}, "spec_draft_model", None),
    ],
)
def test_speculation_that_is_asked_for_wrongly_is_refused(
    chat: Door, fields: dict[str, Any], param: str, code: str | None
) -> None:
    error = chat.refused(**fields)
    assert error["param"] == param
    assert code is None or error["code"] == code
    assert "--" not in error["message"]
