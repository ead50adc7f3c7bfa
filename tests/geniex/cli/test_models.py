"""Models on disk by the commands: pull, list, info, remove, clean; and infer that pulls."""

import csv
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from geniex_runtimes.fake import FakeRuntime
from tests.cliharness import Cli
from tests.ggufwriter import build, entry, tensor
from tests.hubserver import COMMIT, Fault, HubServer

Install = Callable[[FakeRuntime], FakeRuntime]


@pytest.fixture(autouse=True)
def _here(data_dir: Path, scripted: Install) -> None:
    scripted(FakeRuntime(name="llama_cpp"))


@pytest.fixture
def repo(hub: HubServer, tiny_chat: Path) -> HubServer:
    hub.add("org/repo", {"model-Q8_0.gguf": tiny_chat.read_bytes(), "README.md": b"#"})
    return hub


@pytest.fixture
def damaged(data_dir: Path) -> str:
    """A model whose manifest is cut off."""
    folder = data_dir / "models" / "org" / "broken"
    folder.mkdir(parents=True)
    (folder / "geniex.json").write_text('{"Name": "org/bro')
    (folder / "model.gguf").write_bytes(b"GGUF")
    return "org/broken"


def own(cli: Cli, *words: str) -> list[dict[str, Any]]:
    """What `geniex list --json` shows besides the built-in models."""
    return [model for model in cli("list", "--json", *words).json if not model["builtin"]]


UNFIT: dict[str, tuple[str, str]] = {
    "embedding": ("bert", "vectors and no text"),
    "draft": ("gemma4-assistant", "is a draft"),
}


@pytest.mark.parametrize(("architecture", "reason"), UNFIT.values(), ids=UNFIT)
def test_what_cannot_chat_is_refused_before_its_bytes_come(
    cli: Cli, hub: HubServer, data_dir: Path, architecture: str, reason: str
) -> None:
    shape = (1_000_000,)
    facts = [entry("general.architecture", architecture)]
    data = build(facts, [tensor("token_embd.weight", shape)], 4_000_000)
    hub.add("org/vectors", {"m-Q8_0.gguf": data})
    result = cli("infer", "org/vectors", "-p", "hi")
    assert result.code == 1
    assert reason in result.err
    assert hub.served < 2_000_000
    assert not (data_dir / "models").exists()
    assert cli("pull", "org/vectors").code == 0


class TestPull:
    def test_from_the_hub(self, cli: Cli, repo: HubServer) -> None:
        result = cli("pull", "org/repo")
        assert (result.code, result.out) == (0, "")
        assert "downloading org/repo:Q8_0 (3.3 MiB) from huggingface" in result.err
        assert "Download success" in result.err and "Precision: Q8_0" in result.err
        assert "\x1b" not in result.err and "\r" not in result.err
        again = cli("pull", "org/repo")
        assert again.code == 0 and "here already" in again.err

    def test_quiet(self, cli: Cli, repo: HubServer) -> None:
        result = cli("pull", "org/repo", "-q")
        assert (result.code, result.out, result.err) == (0, "", "")

    def test_a_revision(self, cli: Cli, repo: HubServer) -> None:
        assert cli("pull", "org/repo", "--revision", COMMIT).code == 0
        result = cli("pull", "org/repo", "--revision", "nope")
        assert result.code == 3

    @pytest.mark.parametrize(
        ("name", "code"),
        [
            pytest.param("org/none", 3, id="no such repository"),
            pytest.param("org/repo:Q4_0", 3, id="no such precision"),
            pytest.param("local/x", 3, id="local without a path"),
            pytest.param("a/b/c/d", 2, id="no name"),
            pytest.param("./none.gguf", 3, id="no such file"),
        ],
    )
    def test_what_is_not_there(self, cli: Cli, repo: HubServer, name: str, code: int) -> None:
        result = cli("pull", name)
        assert result.code in (code, 4) if name == "org/none" else result.code == code
        assert result.err.startswith("Error: ")

    def test_an_unreachable_hub(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        assert cli("pull", "org/repo").code == 4

    @pytest.mark.parametrize("address", ["garbage", "http://", "ftp://hub", "http://[::1"])
    def test_what_is_no_address_of_a_hub(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch, address: str
    ) -> None:
        monkeypatch.setenv("HF_ENDPOINT", address)
        result = cli("pull", "org/repo")
        assert result.code == 2 and result.err.startswith("Error: HF_ENDPOINT is `")

    @pytest.mark.parametrize("name", ["geniex/tiny-chat", "tiny", "Geniex/mine"])
    def test_nothing_takes_the_place_of_what_is_built_in(
        self, cli: Cli, tiny_chat: Path, data_dir: Path, name: str
    ) -> None:
        result = cli("pull", name, "--local-path", str(tiny_chat))
        assert result.code == 2 and "built in" in result.err and "local/" in result.err
        assert not (data_dir / "models").exists()

    def test_broken_files_are_failures_and_not_wrong_use(self, cli: Cli, tmp_path: Path) -> None:
        for name in ("broken.gguf", "broken.zip"):
            (tmp_path / name).write_bytes(b"neither the one nor the other")
            result = cli("pull", "local/x", "--local-path", str(tmp_path / name))
            assert result.code == 1 and "hint: " in result.err

    def test_a_zip_without_a_model_is_named(self, cli: Cli, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "none.zip", "w") as archive:
            archive.writestr("README.md", "nothing")
        result = cli("pull", "local/x", "--local-path", str(tmp_path / "none.zip"))
        assert result.code == 2 and "none.zip`" in result.err

    @pytest.mark.parametrize("mode", [(), ("--link",), ("--in-place",)])
    def test_from_a_path(self, cli: Cli, tiny_chat: Path, mode: tuple[str, ...]) -> None:
        result = cli("pull", "local/tiny", "--local-path", str(tiny_chat), *mode)
        assert result.code == 0 and "Import success" in result.err
        assert own(cli)[0]["precisions"] == ["Q8_0"]
        assert cli("infer", "local/tiny", "-p", "hi", "-q").out == "Hello, world!\n"

    @pytest.mark.parametrize(
        "args",
        [
            pytest.param(("--model-hub", "localfs"), id="no path"),
            pytest.param(("--link",), id="link of nothing"),
            pytest.param(("--local-path", "x", "--link", "--in-place"), id="two modes"),
            pytest.param(("--local-path", "x", "--model-hub", "hf"), id="two sources"),
            pytest.param(("--local-path", "x", "--revision", "main"), id="path with revision"),
            pytest.param(("--model-hub", "sourceforge"), id="no such hub"),
        ],
    )
    def test_wrong_use(self, cli: Cli, args: tuple[str, ...]) -> None:
        assert cli("pull", "local/x", *args).code == 2

    @pytest.mark.parametrize("folder", [True, False])
    def test_a_path_in_place_of_a_name(self, cli: Cli, tiny_chat: Path, folder: bool) -> None:
        path = tiny_chat.parent if folder else tiny_chat
        result = cli("pull", str(path))
        assert result.code == 2 and f"--local-path {path}" in result.err

    def test_an_import_needs_a_whole_name(self, cli: Cli, tiny_chat: Path) -> None:
        result = cli("pull", "bad", "--local-path", str(tiny_chat))
        assert result.code == 2 and "local/NAME" in result.err

    def test_a_path_that_is_not_there(self, cli: Cli) -> None:
        result = cli("pull", "local/x", "--local-path", "/nowhere/x.gguf")
        assert result.code == 3 and "/nowhere/x.gguf" in result.err

    def test_a_broken_transfer_stays_as_partial(self, cli: Cli, repo: HubServer) -> None:
        repo.faults["cdn"] = [Fault(status=403)] * 20
        repo.faults["resolve"] = [Fault(), *[Fault(status=403)] * 20]
        assert cli("pull", "org/repo").code != 0


class TestList:
    def test_empty(self, cli: Cli, data_dir: Path) -> None:
        result = cli("list")
        assert result.out.splitlines()[0] == f"Models cached in {data_dir / 'models'}"
        assert "none yet" in result.err
        assert [model["name"] for model in own(cli)] == []
        pair = cli("list", "--json").json
        assert [model["builtin"] for model in pair] == [True, True]

    def test_table(self, cli: Cli, repo: HubServer) -> None:
        cli("pull", "org/repo")
        result = cli("ls")
        assert result.out.splitlines()[2].split() == ["NAME", "SIZE", "PRECISIONS"]
        assert result.out.splitlines()[3].split() == ["org/repo", "3.3", "MiB", "Q8_0"]
        rows = cli("list", "--verbose").out.splitlines()
        assert rows[2].split() == ["NAME", "SIZE", "RUNTIME", "TYPE", "PRECISIONS"]
        assert cli("--verbose", "list").out.splitlines() == rows

    def test_json_and_csv_agree(self, cli: Cli, repo: HubServer) -> None:
        cli("pull", "org/repo")
        model, *_ = cli("list", "--format", "json").json
        assert {"name", "size", "runtime", "type", "precisions"} <= set(model)
        assert isinstance(model["size"], int) and model["runtime"] == "llama_cpp"
        row, *_ = csv.DictReader(io.StringIO(cli("list", "--format", "csv").out))
        assert list(row) == ["name", "size", "runtime", "type", "precisions"]
        assert (row["name"], int(row["size"])) == (model["name"], model["size"])

    def test_damaged_models_show_on_demand(self, cli: Cli, damaged: str) -> None:
        result = cli("list")
        assert damaged not in result.out and "geniex list --all" in result.err
        assert f"{damaged}" in (out := cli("list", "--all").out) and "damaged" in out
        [model] = own(cli, "--all")
        assert model["status"] == "damaged" and model["reason"]

    def test_an_unknown_format(self, cli: Cli) -> None:
        assert cli("list", "--format", "yaml").code == 2


class TestRemove:
    def test_needs_a_yes(self, cli: Cli, repo: HubServer) -> None:
        cli("pull", "org/repo")
        for command in (("remove", "org/repo"), ("clean",)):
            result = cli(*command)
            assert result.code == 2 and "`--yes`" in result.err
        assert cli("rm", "org/repo", "-y").code == 0
        assert own(cli) == []

    def test_the_others_go_where_one_fails(self, cli: Cli, repo: HubServer) -> None:
        cli("pull", "org/repo")
        result = cli("remove", "org/none", "tiny", "org/repo", "-y", "--json")
        assert result.code == 3
        assert "org/none" in result.err and "is built in" in result.err
        assert [row["name"] for row in result.json] == ["org/repo"] and result.json[0]["freed"] > 0
        assert own(cli) == []

    def test_what_is_built_in_stays(self, cli: Cli) -> None:
        for name in ("tiny", "geniex/tiny-chat:Q8_0"):
            result = cli("remove", name, "-y")
            assert result.code == 2 and "is built in" in result.err

    def test_damaged_models_go_too(self, cli: Cli, damaged: str) -> None:
        assert cli("remove", damaged, "-y").code == 0
        assert own(cli, "--all") == []

    def test_clean(self, cli: Cli, repo: HubServer, damaged: str) -> None:
        cli("pull", "org/repo")
        assert "Removed 2 models" in cli("clean", "--yes").err
        assert own(cli, "--all") == []


class TestInferPulls:
    def test_what_is_not_here(self, cli: Cli, repo: HubServer) -> None:
        result = cli("infer", "org/repo", "-p", "hi")
        assert (result.code, result.out) == (0, "Hello, world!\n")
        assert "`org/repo` is not here yet" in result.err
        assert cli("infer", "org/repo:Q8_0", "-p", "hi", "-q").err == ""

    @pytest.mark.parametrize("name", ["emptydir", "./emptydir"])
    def test_a_folder_without_a_model(
        self, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        (tmp_path / "emptydir").mkdir()
        monkeypatch.chdir(tmp_path)
        result = cli("infer", name, "-p", "hi")
        assert result.code == 3
        assert f"folder `{name}` holds no model" in result.err

    def test_a_folder_of_that_name_without_a_model_is_mentioned(
        self, cli: Cli, repo: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "org/repo").mkdir(parents=True)
        monkeypatch.chdir(tmp_path)
        for command in (("doctor",), ("info",), ("infer", "-p", "hi")):
            assert "folder `org/repo` holds no model" in cli(*command, "org/repo").err

    def test_doctor_does_not(self, cli: Cli, repo: HubServer) -> None:
        result = cli("doctor", "org/repo")
        assert result.code == 3 and "geniex pull org/repo" in result.err
        assert repo.seen == []


class TestInfo:
    def test_of_the_builtin_model(self, cli: Cli) -> None:
        facts = cli("info", "geniex/tiny-chat", "--json").json
        assert facts["name"] == "geniex/tiny-chat:Q8_0"
        assert facts["context_length"] == 4096 and facts["chat_template"] is True
        assert facts["draft"] == "geniex/tiny-chat-draft:Q8_0"
        assert facts["runs_here"] is True and facts["memory_needed"] > 0
        text = cli("info", "geniex/tiny-chat").out
        assert "architecture" in text and "gemma4" in text

    def test_a_damaged_file(self, cli: Cli, tmp_path: Path) -> None:
        file = tmp_path / "page.gguf"
        file.write_text("<html>Not found</html>")
        result = cli("info", str(file))
        assert result.code == 1 and "page.gguf" in result.err
        assert len(result.err.splitlines()) <= 2


class TestMachine:
    def test_devices(self, cli: Cli) -> None:
        assert "Scripted CPU" in cli("devices").out
        assert "this is no Snapdragon" in cli("devices").out
        found = cli("devices", "--json").json
        assert found["devices"][0]["name"] == "CPU"
        assert found["memory_total"] == 16 << 30

    def test_the_chipset_that_is_set(self, cli: Cli) -> None:
        assert cli("config", "set", "chipset", "qualcomm-snapdragon-x-elite").code == 0
        found = cli("devices", "--json").json
        assert (found["chipset"], found["htp_arch"]) == ("qualcomm-snapdragon-x-elite", 73)

    def test_doctor(self, cli: Cli) -> None:
        text = cli("doctor", "geniex/tiny-chat").out
        for word in ("llama_cpp", "memory needed", "memory there", "because", "chipset"):
            assert word in text
        found = cli("doctor", "--json").json
        assert found["model"] == "geniex/tiny-chat:Q8_0"
        assert found["plan"]["compute"] == "cpu" and found["machine"]["cores"] == 4

    def test_doctor_says_why_not(self, cli: Cli) -> None:
        result = cli("doctor", "-c", "npu", "--json")
        assert result.code == 1
        assert result.json["plan"] is None and result.json["refusals"]
        assert "Scripted CPU" in cli("doctor", "-c", "npu").out
