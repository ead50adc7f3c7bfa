"""`verify`, `update`, `clean --partial`, `list --all`: on whole, unfinished and spoiled models."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from geniex_catalogue.names import parse
from geniex_catalogue.pull import plan_pull
from geniex_catalogue.store import Store
from geniex_runtimes.fake import FakeRuntime
from tests.cliharness import Cli
from tests.geniex_catalogue.pull.models import gguf
from tests.hubserver import HubServer

Install = Callable[[FakeRuntime], FakeRuntime]


@pytest.fixture(autouse=True)
def _here(data_dir: Path, scripted: Install) -> None:
    scripted(FakeRuntime(name="llama_cpp"))


@pytest.fixture
def repo(hub: HubServer) -> HubServer:
    """A repository with two precisions."""
    hub.add("org/repo", {f"m-Q{n}_0.gguf": gguf(n * 1000) for n in (4, 8)})
    return hub


@pytest.fixture
def model(cli: Cli, repo: HubServer, data_dir: Path) -> Path:
    """The folder of a model with one of them."""
    assert cli("pull", "org/repo:Q4_0", "-q").code == 0
    return data_dir / "models" / "org" / "repo"


def spoil(file: Path) -> None:
    """One byte of a file is another one."""
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def begin(data_dir: Path, name: str, count: int, age: float = 0.0) -> Path:
    """A pull that stopped after so many bytes, so many days ago."""
    store = Store(data_dir)
    plan = plan_pull(parse(name), store)
    (job,) = plan.fetches
    assert plan.manifest is not None
    with store.lock(plan.ref):
        store.stage(plan.ref, plan.manifest)
        job.part.write_bytes(b"x" * count)
        facts = {"etag": '"x"', "sha256": job.sha256, "size": job.size}
        job.part.with_name(job.part.name + ".json").write_text(json.dumps(facts))
    moment = time.time() - age * 86400 - 5
    for path in job.part.parent.iterdir():
        os.utime(path, (moment, moment))
    return job.part


class TestVerify:
    def test_whole(self, cli: Cli, model: Path) -> None:
        result = cli("verify")
        assert (result.code, result.out) == (0, "org/repo: ok, files: 1 by sha256\n")
        [report] = cli("verify", "org/repo", "--json").json
        assert (report["status"], report["hashed"], report["faults"]) == ("ok", ["m-Q4_0.gguf"], [])

    def test_nothing(self, cli: Cli, data_dir: Path) -> None:
        assert cli("verify").code == 0
        assert cli("verify", "--json").json == []
        assert cli("verify", "org/none").code == 3
        assert cli("verify", "tiny").code == 2

    def test_damage_and_repair(self, cli: Cli, repo: HubServer, model: Path) -> None:
        spoil(model / "m-Q4_0.gguf")
        result = cli("verify", "-q")
        assert result.code == 5 and "org/repo: `m-Q4_0.gguf` has the sha256" in result.out
        result = cli("verify", "org/repo", "--repair", "--json")
        assert result.code == 0 and result.json[0]["status"] == "ok"
        assert cli("verify").code == 0

    def test_damage_without_a_network(self, cli: Cli, repo: HubServer, model: Path) -> None:
        spoil(model / "m-Q4_0.gguf")
        result = cli("verify", "--repair", "--offline")
        assert result.code == 4 and "--offline" in result.err
        assert (model / "m-Q4_0.gguf").exists()

    def test_unfinished_is_no_damage(self, cli: Cli, model: Path, data_dir: Path) -> None:
        begin(data_dir, "org/repo:Q8_0", 100)
        result = cli("verify")
        assert result.code == 0 and "not fully downloaded: Q8_0" in result.out


class TestUpdate:
    def test_newest(self, cli: Cli, model: Path) -> None:
        result = cli("update", "org/repo", "--json")
        assert result.code == 0 and "org/repo:Q4_0 is the newest" in result.err
        assert [row["updated"] for row in result.json] == [False]

    def test_changed(self, cli: Cli, repo: HubServer, model: Path) -> None:
        repo.repos["org/repo"].files["m-Q4_0.gguf"] = newer = gguf(4001)
        plan = cli("update", "org/repo", "--dry-run")
        assert "m-Q4_0.gguf" in plan.out and (model / "m-Q4_0.gguf").read_bytes() != newer
        told = cli("update", "org/repo")
        assert told.code == 0 and "100%" in told.err
        assert (model / "m-Q4_0.gguf").read_bytes() == newer
        assert cli("verify").code == 0
        repo.repos["org/repo"].files["m-Q4_0.gguf"] = gguf(4002)
        silent = cli("update", "org/repo", "--no-progress")
        assert silent.code == 0 and "%" not in silent.err

    def test_what_cannot_be(self, cli: Cli, model: Path, tiny_chat: Path) -> None:
        cli("pull", "local/mine", "--local-path", str(tiny_chat))
        result = cli("update", "org/none", "org/repo:Q8_0", "local/mine", "org/repo")
        assert result.code == 3
        for text in ("org/none", "no precision `Q8_0`", "came from this machine", "is the newest"):
            assert text in result.err


class TestUnfinished:
    def test_list_shows_size_and_age(self, cli: Cli, model: Path, data_dir: Path) -> None:
        begin(data_dir, "org/repo:Q8_0", 5000, age=3)
        row = next(line for line in cli("list", "--all").out.splitlines() if "org/repo" in line)
        assert "ready" in row and "Q8_0 4.9 KiB of 31." in row and "3 days old" in row
        models = cli("list", "--all", "--json").json
        [partial] = next(m for m in models if m["name"] == "org/repo")["unfinished"]
        assert (partial["precision"], partial["size"]) == ("Q8_0", 5000)
        assert 3 * 86400 <= partial["age"] < 4 * 86400 and partial["total"] > 30_000

    def test_clean(self, cli: Cli, model: Path, data_dir: Path) -> None:
        part = begin(data_dir, "org/repo:Q8_0", 8000, age=3)
        assert cli("clean", "--partial").code == 2
        assert cli("clean", "--older-than", "1", "-y").code == 2
        result = cli("clean", "--partial", "--json", "-y", "--older-than", "4")
        assert result.json["removed"] == [] and part.exists()
        result = cli("clean", "--partial", "--json", "-y", "--older-than", "2")
        assert result.json["removed"] == ["org/repo"]
        assert result.json["freed"] >= 8000 and not part.parent.exists()
        assert cli("verify").code == 0

    def test_clean_leaves_what_is_being_fetched(
        self, cli: Cli, model: Path, data_dir: Path
    ) -> None:
        part = begin(data_dir, "org/repo:Q8_0", 8000)
        with Store(data_dir).lock(parse("org/repo")):
            result = cli("clean", "--partial", "-y")
        assert result.code == 0 and f"process {os.getpid()} (since " in result.err
        assert part.exists()


def _link_out(folder: Path) -> None:
    folder.symlink_to(folder.parents[3])


def _manifest(text: str | bytes) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "geniex.json").write_bytes(text if isinstance(text, bytes) else text.encode())
        (folder / "m.gguf").write_bytes(b"GGUF")

    return make


def _one(name: str, **facts: object) -> str:
    record = {"Name": name, "Downloaded": True, "Size": 4, **facts}
    return json.dumps({"Name": "org/bad", "PluginId": "llama_cpp", "ModelFile": {"Q4_0": record}})


def _folder_manifest(folder: Path) -> None:
    (folder / "geniex.json").mkdir(parents=True)


def _only_staging(text: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / ".inflight").mkdir(parents=True)
        (folder / ".inflight" / "geniex.json").write_text(text)
        (folder / ".inflight" / "moving.json").write_text(text)
        (folder / ".inflight" / "m.gguf.partial").write_bytes(b"x" * 10)

    return make


HOSTILE: dict[str, Callable[[Path], None]] = {
    "cut off": _manifest('{"Name": "org/b'),
    "no utf-8": _manifest(b"\xff\xfe\x00"),
    "empty": _manifest(""),
    "deep": _manifest("[" * 100_000),
    "leads up": _manifest(_one("../../../../secret.gguf")),
    "absolute": _manifest(_one("/etc/passwd")),
    "escape": _manifest(_one("m.gguf\u001b[31m")),
    "wrong hash": _manifest(_one("m.gguf", Sha256="0" * 64)),
    "odd hash": _manifest(_one("m.gguf", Sha256="nonsense")),
    "relative place": _manifest(_one("m.gguf", Path="../x")),
    "place is a folder": _manifest(_one("m.gguf", Path="/")),
    "no model": _manifest('{"Name": "org/bad"}'),
    "null": _manifest("null"),
    "folder as manifest": _folder_manifest,
    "link out": _link_out,
    "link to itself": lambda folder: folder.symlink_to(folder),
    "a file": lambda folder: folder.symlink_to(__file__),
    "staging, cut off": _only_staging("{"),
    "staging, odd": _only_staging('{"ModelFile": {"Q4_0": {"Name": "a/../b"}}, "moves": 7}'),
}


@pytest.mark.skipif(os.name == "nt", reason="links and paths of POSIX")
@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_spoiled_store_is_told_in_a_line_and_can_be_cleaned(
    cli: Cli, model: Path, data_dir: Path, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    secret = tmp_path / "secret.gguf"
    secret.write_text("not ours")
    make(model.parent / "bad")
    for words in (["list", "--all"], ["list", "--all", "--json"], ["verify"], ["verify", "--json"]):
        result = cli(*words)
        assert result.code in (0, 5) and "unexpected" not in result.err
        assert "\x1b" not in result.out
        assert "org/repo" in result.out
    for words in (["clean", "--partial", "-y"], ["clean", "-y"]):
        result = cli(*words)
        assert result.code in (0, 5) and "unexpected" not in result.err
    assert not model.exists()
    assert secret.read_text() == "not ours"
