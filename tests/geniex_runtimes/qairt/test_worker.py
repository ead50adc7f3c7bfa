"""Workers die, and so do their parents: what is left then, and what the next request gets."""

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from geniex_catalogue.errors import LoadError, UsageError
from geniex_runtimes.errors import GenerationError, RuntimeNotInstalledError, WorkerCrashedError
from geniex_runtimes.options import LoadOptions
from geniex_runtimes.qairt import foreman, process, runtime
from geniex_runtimes.qairt.loaded import QairtModel
from tests.geniex_runtimes.qairt.loading import ask, gone, kill_worker, load, resolved, split, until
from tests.qairt_bundles import QairtBundles

ROOT = Path(__file__).parents[3]
STORY = "Once upon a time"


@pytest.fixture(scope="module")
def model(qairt_bundles: QairtBundles) -> Iterator[QairtModel]:
    """One bundle, whose worker does not live as long as this file."""
    with load(qairt_bundles.folder()) as loaded:
        yield loaded


def _pid(model: QairtModel) -> int:
    pid = model.worker_pid
    assert pid is not None
    return pid


def test_a_worker_that_is_killed_takes_one_answer_along(model: QairtModel) -> None:
    expected, _ = split(ask(model, STORY, max_tokens=4))
    answer, waiting = ask(model, STORY), ask(model, STORY, max_tokens=4)
    next(answer)
    pid = kill_worker(model)
    with pytest.raises(WorkerCrashedError, match="was killed by SIGKILL") as caught:
        split(answer)
    assert caught.value.hint == "send the request again: it gets a new worker"
    assert next(answer, None) is None
    assert split(waiting)[0] == expected
    assert gone(pid) and _pid(model) != pid


def test_a_worker_that_dies_at_rest_is_replaced(model: QairtModel) -> None:
    expected, _ = split(ask(model, STORY, max_tokens=4))
    kill_worker(model)
    assert split(ask(model, STORY, max_tokens=4))[0] == expected


def test_a_worker_that_hears_nothing_is_replaced(
    model: QairtModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreman, "_CANCEL_SECONDS", 0.0)
    expected, _ = split(ask(model, STORY, max_tokens=4))
    pid = _pid(model)
    answer = ask(model, STORY)
    next(answer)
    psutil.Process(pid).suspend()
    answer.stop()
    assert split(answer)[1].finish_reason == "cancelled"
    assert split(ask(model, STORY, max_tokens=4))[0] == expected
    assert gone(pid)


def test_a_sequence_outlives_its_worker(
    model: QairtModel, qairt_bundles: QairtBundles, tmp_path: Path
) -> None:
    ids = qairt_bundles.encode(STORY)
    turn = [*ids, *qairt_bundles.reference(ids, 8)]
    split(ask(model, ids, max_tokens=4))
    model.save(tmp_path)
    expected, done = split(ask(model, turn, max_tokens=2, reuse_prefix=False))
    kill_worker(model)
    model.restore(tmp_path)
    found, done = split(ask(model, turn, max_tokens=2))
    assert (found, done.profile.cached_tokens) == (expected, len(ids) + 3)
    with pytest.raises(GenerationError, match="holds no saved sequence"):
        model.restore(tmp_path / "nothing")


PARENT = """
import os, sys, threading
from pathlib import Path
from tests.geniex_runtimes.qairt.loading import ask, load, split
def work():
    model = load(Path(sys.argv[1]))
    found.extend([model, model.worker_pid])
found = []
thread = threading.Thread(target=work)
thread.start()
thread.join()
model, pid = found
split(ask(model, "Once upon a time", max_tokens=2))
assert model.worker_pid == pid
print(pid, flush=True)
next(ask(model, "Once upon a time"))
os._exit(0)
"""


def test_a_worker_ends_with_its_parent_and_not_with_the_thread_that_asked_for_it(
    qairt_bundles: QairtBundles,
) -> None:
    """The parent ends in the middle of an answer, without a `close`."""
    parent = subprocess.run(
        [sys.executable, "-c", PARENT, str(qairt_bundles.folder())],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=True,
        timeout=100,
    )
    pid = int(parent.stdout)
    until(lambda: gone(pid), "the worker lives on")


def test_a_load_that_dies_is_one_clear_error(
    qairt_bundles: QairtBundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_MODULE", "antigravity_not_there")
    with pytest.raises(LoadError, match="the worker ended with code 1 while it loaded") as caught:
        load(qairt_bundles.folder())
    assert "No module named antigravity_not_there" in caught.value.message


def test_a_bundle_that_kills_libgenie(
    qairt_bundles: QairtBundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shared weights do that on x86, where they get past our checks."""
    monkeypatch.setattr(runtime, "verify", lambda *_: ())
    says = r"was killed by SIG\w+ while it loaded \(Shared weights buffer isn't supported"
    with pytest.raises(LoadError, match=says):
        load(qairt_bundles.folder(weight_sharing=True))


def test_a_bundle_that_libgenie_refuses(qairt_bundles: QairtBundles, tmp_path: Path) -> None:
    folder = qairt_bundles.copy(tmp_path)
    file = folder / "genie_config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config["dialog"]["engine"]["unheard-of"] = 1
    file.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(LoadError, match="does not load: `GenieDialogConfig_createFromJson`") as no:
        load(folder)
    assert "unheard-of" in no.value.message
    del config["dialog"]["engine"]["unheard-of"]
    file.write_text(json.dumps(config), encoding="utf-8")
    shard = next(folder.glob("*.bin"))
    whole = bytearray(shard.read_bytes())
    at = len(whole) // 10
    whole[at : at + 4096] = random.Random(1).randbytes(4096)
    shard.write_bytes(whole)
    for engine in ("genie", "ort"):
        with pytest.raises(LoadError, match=f"`{re.escape(str(shard))}` cannot be loaded by") as no:
            load(folder, qairt_engine=engine)
        assert str(no.value.hint).startswith("pull or import the bundle again")
    with pytest.raises(LoadError, match="was given up"):
        runtime.QairtRuntime().load(
            resolved(qairt_bundles.folder()), LoadOptions(), progress=lambda _: False
        )


def test_a_load_without_an_end_is_ended(
    qairt_bundles: QairtBundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreman, "_LOAD_SECONDS", 0.0)
    with pytest.raises(LoadError, match="did not load within 0 s"):
        load(qairt_bundles.folder())


def test_where_libgenie_is_missing(
    qairt_bundles: QairtBundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_GENIE", "Djinni")
    with load(qairt_bundles.folder()) as model:
        warning = "libDjinni.so is not in the installed onnxruntime-qnn; using the engine ort"
        assert model.info.warnings == (warning,)
        assert split(ask(model, STORY, max_tokens=2))[0]
    with pytest.raises(RuntimeNotInstalledError, match="engine genie cannot be used: libDjinni"):
        load(qairt_bundles.folder(), qairt_engine="genie")
    with pytest.raises(UsageError, match="--sliding-window"):
        load(qairt_bundles.folder(), qairt_engine="genie", sliding_window=True)


def test_a_model_is_closed_once_and_for_all(qairt_bundles: QairtBundles) -> None:
    model = load(qairt_bundles.folder())
    pid = _pid(model)
    running, waiting = ask(model, STORY), ask(model, STORY)
    next(running)
    model.close()
    model.close()
    assert gone(pid)
    for answer in (running, waiting):
        assert split(answer)[1].finish_reason == "cancelled"
    with pytest.raises(GenerationError, match="has been closed"):
        ask(model, STORY)
