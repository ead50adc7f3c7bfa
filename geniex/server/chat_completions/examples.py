"""Bodies that the documentation offers: each can be sent as it is, once its models are here."""

from typing import Any, Final

from fastapi.openapi.models import Example

_HELLO: Final = [{"role": "user", "content": "Hello! Briefly introduce yourself."}]


def _mtp(model: str, draft: str, **further: Any) -> dict[str, Any]:
    return {
        "model": model,
        "messages": _HELLO,
        "spec_type": "draft-mtp",
        "spec_draft_model": draft,
        "spec_n_max": 3,
        **further,
        "temperature": 0.8,
        "top_p": 0.95,
        "stream": False,
    }


EXAMPLES: Final[dict[str, Example]] = {
    "built_in_pair": {
        "summary": "Speculative decoding with MTP: the built-in tiny pair",
        "value": _mtp(
            "geniex/tiny-chat:Q8_0", "geniex/tiny-chat-draft:Q8_0", max_completion_tokens=128
        ),
    },
    "mtp": {
        "summary": "Speculative decoding with MTP: pull both models first",
        "value": _mtp(
            "google/gemma-4-26B-A4B-it-qat-q4_0-gguf:Q4_0",
            "RachidAR/gemma-4-26B-A4B-it-qat-assistant-q4_0-gguf:Q4_0",
            nctx=8192,
            max_completion_tokens=2048,
        ),
    },
    "plain": {
        "summary": "The server's default model, streamed",
        "value": {"messages": _HELLO, "stream": True},
    },
}
