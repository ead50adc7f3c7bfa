"""Memory that is not there: refused with numbers, and an error where llama.cpp cannot have it."""

import subprocess
import sys
from pathlib import Path

import pytest

from geniex_runtimes.errors import MemoryBudgetError
from geniex_runtimes.llama_cpp import allocation
from geniex_runtimes.llama_cpp.runtime import LlamaCppRuntime
from geniex_runtimes.options import LoadOptions
from tests.geniex_runtimes.llama_cpp.answers import load, resolved

MEGABYTE = 1 << 20


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 20 MB left."""
    monkeypatch.setattr(allocation, "free_memory", lambda: 20 * MEGABYTE)


@pytest.mark.parametrize(
    ("length", "slots", "says"),
    [
        pytest.param(10**9, 1, "for a context of 1000000000 tokens; `--nctx ", id="a billion"),
        pytest.param(2**31, 2, "answers side by side", id="more than llama.cpp counts"),
        pytest.param(4096, 4, "4096 tokens for each of 4 answers", id="several"),
    ],
)
def test_contexts_that_do_not_fit(
    free: None, tiny_chat: Path, length: int, slots: int, says: str
) -> None:
    options = LoadOptions(context_length=length, slots=slots)
    with pytest.raises(MemoryBudgetError) as caught:
        LlamaCppRuntime().load(resolved(tiny_chat), options)
    assert caught.value.budget == 20 * MEGABYTE
    assert caught.value.needed > 16 * MEGABYTE
    assert says in (caught.value.hint or "")


def test_what_is_said_to_fit_fits(free: None, tiny_chat: Path) -> None:
    model = resolved(tiny_chat)
    with pytest.raises(MemoryBudgetError) as caught:
        allocation.check(model, LoadOptions(context_length=10**6))
    fits = int((caught.value.hint or "").split("`--nctx ")[1].split("`")[0])
    allocation.check(model, LoadOptions(context_length=fits))
    with pytest.raises(MemoryBudgetError):
        allocation.check(model, LoadOptions(context_length=fits + 256))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(LoadOptions(context_length=1024), id="small"),
        pytest.param(LoadOptions(context_length=10**9, compute="gpu"), id="its own memory"),
        pytest.param(LoadOptions(context_length=10**9, embedding=True), id="no cache"),
    ],
)
def test_what_is_let_through(free: None, tiny_chat: Path, options: LoadOptions) -> None:
    allocation.check(resolved(tiny_chat), options)


def test_a_system_that_does_not_say(tiny_chat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "free_memory", lambda: 0)
    allocation.check(resolved(tiny_chat), LoadOptions(context_length=10**9))
    assert allocation.holds_copies(resolved(tiny_chat), LoadOptions())


def test_weights_are_rearranged_where_there_is_room(
    tiny_chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, options = resolved(tiny_chat), LoadOptions(context_length=256)
    assert allocation.holds_copies(model, options)
    monkeypatch.setattr(allocation, "free_memory", lambda: 8 * MEGABYTE)
    assert not allocation.holds_copies(model, options)
    # it loads all the same
    load(tiny_chat, context_length=256).close()


CHILD = """
import resource, sys
from pathlib import Path
import psutil
from geniex_catalogue.errors import GenieXError
from geniex_runtimes.llama_cpp import library
from geniex_runtimes.llama_cpp.context import Context, ContextOptions
from geniex_runtimes.llama_cpp.weights import Weights

native = library.load()
path, room, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
limit = psutil.Process().memory_info().vms + room
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    weights = Weights(native, [Path(path)])
    Context(native, weights, ContextOptions(length, 1, 1, "cpu"))
except GenieXError as exc:
    print(type(exc).__name__, exc.message)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX has the limit")
@pytest.mark.parametrize(
    ("room", "length", "says"),
    [
        pytest.param(MEGABYTE, 256, "could not load", id="weights"),
        pytest.param(200 * MEGABYTE, 1_000_000, "could not make a context", id="context"),
    ],
)
def test_memory_that_llama_cpp_is_refused(
    tiny_chat: Path, room: int, length: int, says: str
) -> None:
    command = [sys.executable, "-c", CHILD, str(tiny_chat), str(room), str(length)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("LoadError llama.cpp ") and says in done.stdout
