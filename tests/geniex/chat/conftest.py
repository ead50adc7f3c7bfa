"""Templates for the chat tests: small ones with the mechanics of those in use."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from geniex.chat.template import ChatTemplate

TEMPLATES = Path(__file__).parents[2] / "data" / "templates"
CONTROL_TOKENS = frozenset(
    {"<bos>", "<eos>", "<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|im_start|>"}
    | {"<|im_end|>", "<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]", "<|eot_id|>"}
    | {"<|start_header_id|>", "<|end_header_id|>", "<|User|>", "<|Assistant|>", "<|start|>"}
    | {"<|end|>", "<|message|>", '<|"|>', "</s>", "<think>", "</think>"}
)

Named = Callable[[str], ChatTemplate]


@pytest.fixture(scope="session")
def named() -> Iterator[Named]:
    """A template of tests/data/templates by its name; each starts its process once."""
    made: dict[str, ChatTemplate] = {}

    def get(name: str) -> ChatTemplate:
        if name not in made:
            source = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
            made[name] = ChatTemplate(
                source, bos_token="<bos>", eos_token="</s>", control_tokens=CONTROL_TOKENS
            )
        return made[name]

    yield get
    for template in made.values():
        template.close()
