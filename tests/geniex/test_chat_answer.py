"""An answer that is read while it is made, on a scripted runtime."""

import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import geniex
from geniex_runtimes.errors import GenerationError
from geniex_runtimes.fake import FakeModel, FakeRuntime, Script

Install = Callable[[FakeRuntime], FakeRuntime]
ENDLESS = Script(("word ",) * 3000, delay=0.01)


class Keeping(FakeRuntime):
    """Keeps the model that it loads."""

    def load(self, *args: object, **how: object) -> FakeModel:
        self.model = super().load(*args, **how)  # type: ignore[arg-type]
        return self.model

    @property
    def running(self) -> int:
        """How many generations somebody still wants."""
        return sum(not one._cancelled.is_set() for one in self.model._running)


def load(scripted: Install, tmp_path: Path, *scripts: Script) -> tuple[geniex.Model, Keeping]:
    runtime = Keeping(*scripts, name="llama_cpp")
    scripted(runtime)
    return geniex.load("tiny", data_dir=tmp_path), runtime


def test_pieces_come_as_they_are_made(scripted: Install, tmp_path: Path) -> None:
    with load(scripted, tmp_path)[0] as model:
        answer = model.chat([{"role": "user", "content": "hi"}])
        assert list(iter(answer)) == ["Hello", ", ", "world", "!"]
        assert list(answer) == ["Hello", ", ", "world", "!"]  # as often as one likes
        assert str(answer) == answer.content == "Hello, world!"
        assert answer.finish_reason == "stop" and answer.profile.generated_tokens == 4
        assert answer.notes == () and answer.tool_calls == ()


def test_the_first_piece_does_not_wait_for_the_last(scripted: Install, tmp_path: Path) -> None:
    with load(scripted, tmp_path, ENDLESS)[0] as model:
        answer = model.chat("hi")
        assert next(iter(answer)) == "word "
        assert repr(answer) == "<ChatAnswer 'word ' ...>"
        answer.close()


def test_a_loop_that_is_left_stops_the_answer(scripted: Install, tmp_path: Path) -> None:
    model, runtime = load(scripted, tmp_path, ENDLESS)
    with model:
        for _ in model.chat("hi"):
            break
        gc.collect()
        assert runtime.running == 0
        model.chat("hi")  # dropped before anybody looks
        gc.collect()
        assert runtime.running == 0
        assert next(model.stream("hi")) == "word "
        gc.collect()
        assert runtime.running == 0


def test_closing_ends_the_loop_and_keeps_what_came(scripted: Install, tmp_path: Path) -> None:
    with load(scripted, tmp_path, ENDLESS)[0] as model:
        answer = model.chat("hi")
        seen = []
        for piece in answer:
            seen.append(piece)
            if len(seen) == 3:
                answer.close()
        assert answer.content == "".join(seen) and len(seen) == 3
        assert answer.finish_reason == "cancelled"


def test_reasoning_is_a_part(scripted: Install, tmp_path: Path) -> None:
    script = Script(("<think>", "hm", "</think>", "yes"))
    with load(scripted, tmp_path, script)[0] as model:
        answer = model.chat("hi")
        assert list(answer) == ["yes"] and answer.reasoning == "hm"
        assert [getattr(part, "text", "") for part in answer.parts()] == ["hm", "yes"]


def test_a_failure_comes_behind_what_was_said(scripted: Install, tmp_path: Path) -> None:
    script = Script(("a", "b", "c"), error=GenerationError("broken"), error_after=2)
    with load(scripted, tmp_path, script)[0] as model:
        answer = model.chat("hi")
        seen = []
        with pytest.raises(geniex.GenieXError, match="broken"):
            for piece in answer:
                seen.append(piece)
        assert seen == ["a", "b"]
        for _ in range(2):
            with pytest.raises(geniex.GenieXError, match="broken"):
                str(answer)


def test_a_model_that_is_closed_is_told_of(scripted: Install, tmp_path: Path) -> None:
    model, _ = load(scripted, tmp_path, ENDLESS)
    answer = model.chat("hi")
    next(iter(answer))
    model.close()
    with pytest.raises(geniex.GenieXError, match="closed") as caught:
        str(answer)
    assert "read the answer" in str(caught.value.hint)


def test_a_model_stays_for_its_answer(tmp_path: Path) -> None:
    answer = geniex.load("tiny", data_dir=tmp_path).chat("What is 2 plus 3?", temperature=0)
    gc.collect()
    assert str(answer) == "2 plus 3 is 5."


def test_several_readers_see_the_same(scripted: Install, tmp_path: Path) -> None:
    script = Script(tuple(f"{number} " for number in range(200)))
    with load(scripted, tmp_path, script)[0] as model:
        answer = model.chat("hi")
        texts: list[str] = []
        readers = [threading.Thread(target=lambda: texts.append("".join(answer))) for _ in range(4)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(30)
        assert texts == ["".join(script.pieces)] * 4  # type: ignore[arg-type]
