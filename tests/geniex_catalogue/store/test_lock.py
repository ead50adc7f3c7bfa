"""The lock: one holder at a time, and a dead one holds nothing."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from geniex_catalogue.errors import StoreBusyError, StoreError
from geniex_catalogue.model_lock import Holder, holder_of
from geniex_catalogue.store import Store
from tests.geniex_catalogue.store.models import REF, publish


def test_an_unusable_root_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    store = Store(tmp_path / "file")
    with pytest.raises(StoreError) as caught, store.lock(REF):
        pass
    assert str(tmp_path / "file") in caught.value.message
    assert "--data-dir" in str(caught.value.hint)


def test_the_lock_keeps_threads_apart_and_tells_who_waits(store: Store) -> None:
    order: list[str] = []
    inside = threading.Event()

    def first() -> None:
        with store.lock(REF):
            inside.set()
            time.sleep(0.3)
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(5)
    holders: list[Holder | None] = []
    with store.lock(REF, holders.append):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]
    (holder,) = holders
    assert holder is not None and holder.pid == os.getpid()
    assert 0 <= time.time() - holder.since < 60
    assert str(holder).startswith(f"process {os.getpid()} (since ")


def test_a_busy_model_is_an_error_after_the_timeout(store: Store) -> None:
    with (
        store.lock(REF),
        pytest.raises(StoreBusyError, match=f"process {os.getpid()}"),
        store.lock(REF, timeout=0.1),
    ):
        pass


HOLDER = """
    import sys, time
    from pathlib import Path
    from geniex_catalogue.names import ModelRef
    from geniex_catalogue.store import Store
    with Store(Path(sys.argv[1])).lock(ModelRef("org", "repo")):
        print("held", flush=True)
        time.sleep(60)
"""


def test_a_dead_holder_holds_nothing(store: Store) -> None:
    source = Path(sys.modules["geniex_catalogue"].__file__ or "").parent.parent
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(store.root)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == b"held"
    with pytest.raises(StoreBusyError, match=f"process {holder.pid}"), store.lock(REF, timeout=0):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with store.lock(REF, timeout=10):
        pass
    assert not (store.models / "org").exists()


def test_removing_while_others_wait_leaves_one_holder_at_a_time(store: Store) -> None:
    """Remove, publish and lock the same model from many threads: never two inside."""
    inside = 0
    worst = 0
    guard = threading.Lock()

    def work(number: int) -> None:
        nonlocal inside, worst
        for _ in range(4):
            with store.lock(REF):
                with guard:
                    inside += 1
                    worst = max(worst, inside)
                (store.folder(REF) / "x").write_text(str(number))
                (store.folder(REF) / "x").unlink()
                with guard:
                    inside -= 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst == 1
    assert not (store.models / "org").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes among files")
def test_a_pipe_for_the_holder_makes_nobody_wait(store: Store) -> None:
    publish(store, "a.gguf")
    os.mkfifo(store.folder(REF) / ".lock.pid")
    assert holder_of(store.folder(REF)) is None


def test_what_a_killed_writer_left_goes_with_the_next_lock(store: Store) -> None:
    publish(store, "a.gguf")
    folder = store.folder(REF)
    left = folder / ".geniex.json.22b5e59935d4.tmp"
    mine = folder / ".mine.tmp"
    for path in (left, mine):
        path.write_text("{")
    with store.lock(REF):
        pass
    assert not left.exists() and mine.exists()
