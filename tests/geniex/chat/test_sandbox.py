"""What a stranger's template may do: render, quickly. Nothing else."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from geniex.chat import sandbox
from geniex.chat.messages import Message
from geniex.chat.sandbox import Limits, TemplateSandbox
from geniex.chat.template import ChatTemplate
from geniex_catalogue.errors import LoadError, TemplateError
from tests.geniex.chat.attacks import ATTACKS, END, HARMLESS, LOOP

USER = [Message("user", "hi")]
LIMITS = Limits(seconds=1.0, memory=256 * 1024 * 1024, characters=1_000_000)
# a busy machine may add to the limit, a leak of the limit would add far more
SLACK = 5.0


@pytest.mark.parametrize("source", [pytest.param(s, id=name) for name, s in ATTACKS.items()])
def test_an_attack_is_a_template_error_in_bounded_time(source: str) -> None:
    template = ChatTemplate(source, limits=replace(LIMITS, seconds=0.25))
    begin = time.monotonic()
    with pytest.raises(TemplateError) as caught:
        template.render(USER)
    assert time.monotonic() - begin < LIMITS.seconds + SLACK
    assert len(caught.value.message) < 3000
    assert caught.value.message.isprintable()
    template.close()


@pytest.mark.parametrize(
    ("source", "text"), [pytest.param(*case, id=name) for name, case in HARMLESS.items()]
)
def test_a_way_out_leads_nowhere(source: str, text: str) -> None:
    template = ChatTemplate(source, limits=LIMITS)
    with contextlib.suppress(TemplateError):
        assert template.render(USER).text == text
    template.close()


@pytest.fixture
def box() -> Iterator[TemplateSandbox]:
    """A template that does what its variable `do` says."""
    source = (
        "{% if do == 'loop' %}" + LOOP * 3 + END * 3 + "{% endif %}"
        "{% if do == 'write' %}{{ 'x' * 2000000 }}{% endif %}{{ do }}"
    )
    box = TemplateSandbox(source, LIMITS)
    yield box
    box.close()


def run(box: TemplateSandbox, do: str, seconds: float = 5.0) -> str:
    outcome = box.render({"do": do}, {}, time.monotonic() + seconds)
    assert outcome.kind == "text"
    return outcome.text


def test_after_a_limit_the_template_works_again(box: TemplateSandbox) -> None:
    assert run(box, "a") == "a"
    with pytest.raises(TemplateError, match="ran longer than 1 s"):
        run(box, "loop", seconds=0.2)
    assert run(box, "b") == "b"
    with pytest.raises(TemplateError, match=r"wrote more than \d+ characters"):
        run(box, "write")
    assert run(box, "c") == "c"


def test_long_input_may_give_long_output(box: TemplateSandbox) -> None:
    text = "x" * 3_000_000
    assert run(box, text) == text


def test_a_killed_process_is_started_again(box: TemplateSandbox) -> None:
    before = set(psutil.Process().children())
    assert run(box, "a") == "a"
    (child,) = set(psutil.Process().children()) - before
    child.kill()
    child.wait(5)
    assert run(box, "b") == "b"


def test_a_process_that_does_not_start_is_not_the_messages_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    with pytest.raises(LoadError, match="did not start"):
        TemplateSandbox("{{ messages }}").names()


def test_memory_is_also_watched_from_outside(
    box: TemplateSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sandbox._memory(os.getpid()) > 1_000_000
    assert run(box, "a") == "a"
    monkeypatch.setattr(sandbox, "_memory", lambda pid: LIMITS.memory + 1)
    with pytest.raises(TemplateError, match="needed too much memory"):
        run(box, "loop")


def test_many_threads_share_a_template(box: TemplateSandbox) -> None:
    texts = [f"text {n}" for n in range(64)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: run(box, text), texts)) == texts


@pytest.mark.skipif(sys.platform == "win32", reason="a signal to oneself ends a Windows process")
def test_ctrl_c_comes_back_at_once_and_keeps_order(box: TemplateSandbox) -> None:
    before = set(psutil.Process().children())
    assert run(box, "a") == "a"
    (child,) = set(psutil.Process().children()) - before
    assert os.getpgid(child.pid) != os.getpgid(0)  # the terminal's signal must not reach it
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    begin = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(box, "loop")
    assert time.monotonic() - begin < 5
    assert run(box, "b") == "b"


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    before = set(psutil.Process().children())
    for n in range(3):
        box = TemplateSandbox(f"{n} {{{{ x }}}}")
        assert run(box, "") == f"{n} "
        if n:
            box.close()
        del box
    assert set(psutil.Process().children()) <= before


def test_a_parent_that_dies_takes_the_process_with_it() -> None:
    code = (
        "import os, sys, threading, time, psutil\n"
        "from geniex.chat.sandbox import TemplateSandbox, Limits\n"
        f"box = TemplateSandbox({LOOP * 3 + END * 3!r}, Limits(seconds=1.0))\n"
        "box.names()\n"
        "print(psutil.Process().children()[0].pid, flush=True)\n"
        "threading.Timer(0.2, os._exit, (9,)).start()\n"
        "box.render({}, {}, time.monotonic() + 60)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, env=environment, check=False
    )
    assert done.returncode == 9, done.stderr
    deadline = time.monotonic() + 5.0 + SLACK
    while psutil.pid_exists(int(done.stdout)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(int(done.stdout))
