"""kill -9 at any touch of the store: what is left is whole, or says what of it is not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from geniex_catalogue.names import parse
from geniex_catalogue.pull import pull
from geniex_catalogue.store import Store
from tests.geniex_catalogue.pull.models import gguf, shards
from tests.hubserver import HubServer

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(os.name == "nt", reason="the children are forks")
def test_whatever_is_killed_leaves_no_lie(hub: HubServer, tmp_path: Path) -> None:
    old = shards(3)
    repo = hub.add("org/big", {**old, "other-Q8_0.gguf": gguf(50)})
    pull(parse("org/big"), Store(tmp_path / "old"))
    for at, name in enumerate(old):
        repo.files[name] = gguf(100 + at, split__count=3, split__no=at, general__name="newer")
    (tmp_path / "mine").mkdir()
    for name, data in shards(2).items():
        (tmp_path / "mine" / name).write_bytes(data)
    path = os.pathsep.join(str(ROOT / root) for root in ("catalogue", "runtimes", "."))
    ended = subprocess.run(
        [sys.executable, "-m", "tests.geniex_catalogue.pull.killer", str(tmp_path), "1"],
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    kills = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {kill["deed"] for kill in kills} == {
        "update",
        "second",
        "import",
        "remove",
        "remove one",
    }
    for kill in kills:
        assert all(model["faults"] == [] for model in kill["killed"]), kill
        assert kill["again"] == kill["whole"], kill
        if kill["deed"] in ("update", "second", "import"):
            big = next(model for model in kill["killed"] if model["name"] == "org/big")
            assert big["status"] == "ok", kill
