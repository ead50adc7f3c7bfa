"""A model whose chat template attacks: each request is refused with 400, and the next one is fine.

All of the attacks are tried below, in tests/geniex/chat; here it is shown that no kind of them
gets past the routes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from geniex.chat import template
from geniex.chat.sandbox import Limits
from geniex_runtimes.contract import GenerationRequest
from geniex_runtimes.fake import FakeModel
from tests.geniex.chat.attacks import ATTACKS, HARMLESS
from tests.geniex.server.door import GREETING, Door, Runtime, opened
from tests.ggufwriter import small

FINE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
# of each kind some
TRIED = (
    *("nested loops", "endless recursion", "branching recursion", "recursive loop", "self block"),
    *("huge power", "power in a constant", "deep comparison", "self-made loop"),
    *("big text", "big list", "doubling by plus", "percent format", "brace format", "indent"),
    *("tojson indent", "laughs as text", "huge range", "batch", "huge slice", "sum of lists"),
    *("flood", "one big piece", "mro", "globals of lipsum", "cycler", "append", "update", "clear"),
    *("code of a macro", "the environment", "include", "import", "syntax", "unknown filter"),
    *("deep parentheses", "deep ifs", "raise"),
)
SOURCES = {name: ATTACKS[name] for name in TRIED}
SOURCES |= {name: source for name, (source, _) in HARMLESS.items()} | {"fine": FINE}


class Attacker(Runtime):
    """A scripted runtime whose models have the templates of their files."""

    def load(self, *given: Any, **options: Any) -> FakeModel:
        self._chat_template = given[0].header.chat_template
        return super().load(*given, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each template."""
    folder = tmp_path_factory.mktemp("attacks")
    for name, source in SOURCES.items():
        keys = {"tokenizer__chat_template": source}
        (folder / f"{name}.gguf").write_bytes(small(**keys))  # type: ignore[arg-type]
    return folder


@pytest.fixture(scope="module")
def door(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A server that has all of them."""
    paths = frozenset(str(folder / f"{name}.gguf") for name in SOURCES)
    with pytest.MonkeyPatch.context() as patch:
        short = Limits(seconds=0.3, memory=256 << 20, characters=1_000_000)
        patch.setattr(template, "Limits", lambda: short)
        data_dir = tmp_path_factory.mktemp("data")
        defaults = {"messages": GREETING, "max_tokens": 4}
        runtime = Attacker(name="llama_cpp")
        with opened(runtime, data_dir, "/v1/chat/completions", defaults, paths=paths) as door:
            yield door


def asked(door: Door) -> list[GenerationRequest]:
    """All that came through to the models."""
    return [request for model in door.runtime.models for request in model.requests]


@pytest.mark.parametrize("name", TRIED)
def test_an_attack_is_a_clean_400(door: Door, folder: Path, name: str) -> None:
    before = len(asked(door))
    # a stream has not begun yet
    stream = TRIED.index(name) % 2 == 0
    error = door.refused(model=str(folder / f"{name}.gguf"), stream=stream)
    assert error["code"] == "template_error"
    assert "chat template" in error["message"] and error["message"].isprintable()
    assert len(error["message"]) < 3000
    assert len(asked(door)) == before
    door.ask(model=str(folder / "fine.gguf"))


@pytest.mark.parametrize("name", HARMLESS)
def test_a_way_out_leads_nowhere(door: Door, folder: Path, name: str) -> None:
    response = door.post(model=str(folder / f"{name}.gguf"))
    if response.status_code == 200:
        prompts = {"".join(getattr(p, "text", "") for p in r.prompt) for r in asked(door)}
        assert not any("class" in prompt or "function" in prompt for prompt in prompts)
    else:
        assert response.status_code == 400
        # nothing came of it: the prompt is empty
        assert response.json()["error"]["code"] in ("template_error", "invalid_value")
    door.ask(model=str(folder / "fine.gguf"))
