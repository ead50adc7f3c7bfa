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
from geniex_catalogue.errors import TemplateError

USER = [Message("user", "hi")]
LIMITS = Limits(seconds=1.0, memory=256 * 1024 * 1024, characters=1_000_000)
# a busy machine may add to the limit, a leak of the limit would add far more
SLACK = 5.0

LOOP = "{% for i in range(99999) %}"
END = "{% endfor %}"
DOUBLING = "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = "
LAUGHS = "{% set ns = namespace(x=['lol']) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}"
TWO_LAUGHS = (
    "{% set ns = namespace(x=['l'], y=['l']) %}{% for i in range(60) %}"
    "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
)

ATTACKS = {
    # time
    "nested loops": LOOP * 3 + END * 3,
    "nested loops over text": "{% set t = 'x' * 9999 %}"
    + "".join(f"{{% for {c} in t %}}" for c in "abc")
    + END * 3,
    "endless recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "branching recursion": "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}"
    "{% endmacro %}{{ m(60) }}",
    "recursive loop": "{% for a in [[[1]]] recursive %}{{ loop([a, a]) }}{% endfor %}",
    "self block": "{% block b %}{{ self.b() }}{% endblock %}",
    "huge power": "{{ (messages | length + 8) ** (9 ** 9) }}",
    "power in a constant": "{{ 9 ** (9 ** 9) }}",
    "deep comparison": TWO_LAUGHS + "{{ ns.x == ns.y }}",
    "deep sort": TWO_LAUGHS + "{{ [ns.x, ns.y] | sort }}",
    "deep hash": "{% set ns = namespace(x=(1,)) %}{% for i in range(60) %}"
    "{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}",
    "quadratic sum": LOOP + "{% set x = range(99999) | map('string') | list | join %}" + END,
    "number to text": "{{ (10 ** 999999) | string | length }}",
    # memory
    "big constant": "{{ 'a' * 10 ** 9 }}",
    "big text": "{{ messages[0].content * 10 ** 9 }}",
    "big list": "{{ (messages * 10 ** 9) | length }}",
    "doubling by plus": DOUBLING + "ns.x + ns.x %}{% endfor %}{{ ns.x | length }}",
    "doubling by tilde": DOUBLING + "ns.x ~ ns.x %}{% endfor %}{{ ns.x | length }}",
    "doubling by join": DOUBLING + "[ns.x, ns.x] | join %}{% endfor %}{{ ns.x | length }}",
    "doubling by replace": DOUBLING + "ns.x.replace('a', 'aa') * 2 %}{% endfor %}{{ ns.x|length }}",
    "doubling by set block": DOUBLING.replace("ns.x = ", "z = 1")
    + " %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}",
    "percent format": "{{ ('%999999999d' % 1) | length }}",
    "format filter": "{{ ('%999999999d' | format(1)) | length }}",
    "brace format": "{{ '{:>999999999}'.format(1) | length }}",
    "center": "{{ 'a' | center(10 ** 9) | length }}",
    "ljust": "{{ 'a'.ljust(10 ** 9) | length }}",
    "zfill": "{{ 'a'.zfill(10 ** 9) | length }}",
    "expandtabs": "{{ '\\t'.expandtabs(10 ** 9) | length }}",
    "indent": "{{ 'a\\nb' | indent(10 ** 9) | length }}",
    "translate": "{{ ('a' * 99999).translate({97: 'b' * 99999}) | length }}",
    "tojson indent": "{{ messages | tojson(indent=10 ** 9) | length }}",
    "laughs as text": LAUGHS + END + "{{ ns.x }}",
    "laughs as json": LAUGHS + END + "{{ ns.x | tojson | length }}",
    "laughs pretty": LAUGHS + END + "{{ ns.x | pprint | length }}",
    "lorem ipsum": "{{ lipsum(n=10 ** 7) | length }}",
    "batch": "{{ [1] | batch(10 ** 9, 'x') | list | length }}",
    "huge range": "{{ range(10 ** 12) | list | length }}",
    # output
    "flood": LOOP + "{{ 'x' * 1000 }}" + END,
    "one big piece": "{{ 'x' * 9000000 }}",
    "slow flood": LOOP + LOOP + "x" + END + END,
    # ways out
    "mro": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "globals of strftime": "{{ strftime_now.__globals__['datetime'] }}",
    "globals of lipsum": "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "cycler": "{{ cycler.__init__.__globals__ }}",
    "namespace": "{{ namespace.__init__.__globals__ }}",
    "append": "{{ messages.append(1) }}",
    "update": "{{ messages[0].update({'role': 'system'}) }}",
    "set item": "{{ messages[0].__setitem__('role', 'x') }}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'os' as os %}",
    "extends": "{% extends '/etc/passwd' %}",
    # the compiler
    "syntax": "{% if %}",
    "unknown tag": "{% exec 'x' %}",
    "unknown filter": "{{ messages | system }}",
    "open block": "{% for m in messages %}",
    "deep parentheses": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
    "deep lists": "{{ " + "[" * 50_000 + "]" * 50_000 + " }}",
    "deep ifs": "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    "deep loops": "{% for a in [1] %}" * 3000 + END * 3000,
    "raise": "{{ raise_exception('no \\x1b[31m\\nthanks') }}",
    "raise much": "{{ raise_exception('x' * 10 ** 7) }}",
}

# what Jinja answers with nothing: the source, and all that it may give
HARMLESS = {
    "date format": ("{{ strftime_now('%1000000000Y') | length }}", "0"),
    "class": ("{{ ''.__class__ }}", ""),
    "attr filter": ("{{ '' | attr('__class__') }}", ""),
    "format attribute": ("{{ '{0.__class__}'.format(messages) }}", ""),
    "format map": ("{{ '{x.__class__}'.format_map({'x': 1}) }}", ""),
    "globals of a function": ("{{ raise_exception.__globals__ }}", ""),
    "map attribute": ("{{ [''] | map(attribute='__class__') | list }}", "[Undefined]"),
    "frame of a generator": ("{{ (messages | map('string')).gi_frame }}", ""),
}


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
    deadline = time.monotonic() + 2.0 + SLACK
    while psutil.pid_exists(int(done.stdout)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(int(done.stdout))
