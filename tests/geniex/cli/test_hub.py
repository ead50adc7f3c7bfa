"""The AI Hub at the terminal: lists, chipsets, and a bundle that is pulled."""

import copy
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from geniex.model_manager import pull, query
from geniex_catalogue.errors import NotCompiledError
from geniex_catalogue.hubs import documents
from geniex_catalogue.hubs.web import Patience
from geniex_catalogue.hubs.workbench import Workbench
from tests.aihub import GENIE, X2_ELITE, X_ELITE, Bucket, asset, assets, model, zipped
from tests.cliharness import Cli
from tests.geniex_runtimes.qairt.plain_bundle import CONFIG, TOKENIZER
from tests.hubserver import HubServer
from tests.workbench import Device, FakeClient

if TYPE_CHECKING:
    from tests.qairt_bundles import QairtBundles

X_PLUS = "qualcomm-snapdragon-x-plus-8-core"


@pytest.fixture
def bucket(hub: HubServer, monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> Bucket:
    """An AI Hub with four models, two of them for the X Elite."""
    made = Bucket(hub)
    url = made.put("models/qwen3_4b/releases/v0.60.0/q.zip", zipped())
    listed = made.put("models/qwen3_4b/assets.json", assets(asset(X_ELITE, url=url)))
    made.release(
        model("Qwen3-4B", url=listed, supported_chipsets=[X_ELITE, "sm8650"]),
        model("Llama-v3.2-3B-Instruct", supported_runtimes=[GENIE]),
        model("Falcon3-7B", url=listed, supported_chipsets=[X2_ELITE], tags=["MODEL_TAG_VLM"]),
        model("YoloV7", domain="MODEL_DOMAIN_COMPUTER_VISION"),
    )
    monkeypatch.setenv("GENIEX_AIHUBBASEURL", made.base)
    return made


def test_list(cli: Cli, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENIEX_CHIPSET", "SC8380XP")
    result = cli("hub", "list")
    assert result.out.splitlines() == [
        "NAME                                  TYPE",
        "ai-hub-models/Llama-v3.2-3B-Instruct  llm, to export",
        "ai-hub-models/Qwen3-4B                llm",
    ]
    assert "models for Snapdragon X Elite CRD" in result.err
    monkeypatch.setenv("GENIEX_CHIPSET", X_PLUS)
    assert "Qwen3-4B" in cli("hub", "list").out


def test_list_all(cli: Cli, bucket: Bucket) -> None:
    result = cli("hub", "list", "--all")
    assert (
        result.out.splitlines()[1]
        == "ai-hub-models/Falcon3-7B              vlm             x2-elite"
    )
    assert "8gen3, x-elite" in result.out
    assert "Yolo" not in result.out
    found = cli("hub", "list", "--all", "--json").json
    assert found[2] == {
        "name": "ai-hub-models/Qwen3-4B",
        "id": "qwen3_4b",
        "type": "llm",
        "chipsets": [X_ELITE, "sm8650"],
        "devices": ["Samsung Galaxy S24", "Snapdragon X Elite CRD"],
        "export": False,
    }


def test_list_without_a_chipset(cli: Cli, bucket: Bucket) -> None:
    result = cli("hub", "list")
    assert result.code == 1
    assert "none was found on this machine" in result.err
    assert "geniex config set chipset" in result.err


def test_list_offline(cli: Cli, bucket: Bucket) -> None:
    assert cli("hub", "list", "--all", "--offline").code == 4
    assert cli("hub", "list", "--all").code == 0
    asked = len(bucket.hub.seen)
    assert "Qwen3-4B" in cli("hub", "list", "--all", "--offline").out
    assert len(bucket.hub.seen) == asked


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        pytest.param("Snapdragon X2 Elite CRD", X2_ELITE, id="device"),
        pytest.param("sm8650", "qualcomm-snapdragon-8gen3", id="alias"),
        pytest.param(f" {X_PLUS.upper()} ", X_PLUS, id="known without asking"),
    ],
)
def test_set_chipset(cli: Cli, bucket: Bucket, typed: str, kept: str) -> None:
    result = cli("config", "set", "chipset", typed)
    assert (result.out, result.err) == (f"chipset = {kept}\n", "")
    assert cli("config", "get", "chipset").out == f"{kept}\n"
    assert cli("config", "set", "chipset", "").out == "chipset =\n"
    assert cli("config", "get", "chipset").out == ""


def test_set_a_chipset_that_nobody_knows(cli: Cli, bucket: Bucket) -> None:
    result = cli("config", "set", "chipset", "pentium")
    assert result.code == 1
    assert "`pentium` is not a chipset" in result.err
    assert "Snapdragon X Elite CRD" in result.err
    assert cli("config", "list").out == ""


def test_set_a_chipset_where_nobody_can_be_asked(cli: Cli, bucket: Bucket) -> None:
    result = cli("--offline", "config", "set", "chipset", "new-chip")
    assert result.out == "chipset = new-chip\n"
    assert "Warning: `new-chip` is kept as it is, unchecked" in result.err
    bucket.hub.close()
    assert cli("config", "set", "chipset", "newer-chip").out == "chipset = newer-chip\n"


def test_pull(cli: Cli, bucket: Bucket) -> None:
    assert cli("config", "set", "chipset", X_PLUS).code == 0
    plan = cli("pull", "ai-hub-models/Qwen3-4B", "--dry-run", "--json").json
    assert (plan["name"], plan["hub"]) == ("qualcomm/Qwen3-4B:W4A16", "aihub")
    facts = cli("info", "ai-hub-models/Qwen3-4B", "--json").json
    assert (facts["here"], facts["format"], facts["precision"]) == (False, "qairt", "W4A16")
    result = cli("pull", "ai-hub-models/Qwen3-4B")
    assert result.code == 0, result.err
    assert "same HTP (v73)" in result.err
    assert "Precision: W4A16" in result.err
    entry = next(entry for entry in cli("list", "--json").json if "Qwen3" in entry["name"])
    assert (entry["name"], entry["runtime"]) == ("qualcomm/Qwen3-4B", "qairt")
    assert "is here already" in cli("pull", "qualcomm/Qwen3-4B:w4a16").err


def test_infer_pulls_and_answers(
    cli: Cli, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, qairt_bundles: "QairtBundles"
) -> None:
    bucket.qwen(qairt_bundles.zip().read_bytes())
    monkeypatch.setenv("GENIEX_CHIPSET", X_ELITE)
    question = ("-p", "The capital of France is", "--temperature", "0", "--max-tokens", "6")
    result = cli("infer", "ai-hub-models/Qwen3-4B", *question, "--yes")
    assert result.code == 0, result.err
    assert "downloading qualcomm/Qwen3-4B:W4A16" in result.err
    assert result.out.strip()


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("Qwen3-4b", 3, "did you mean `ai-hub-models/Qwen3-4B`"),
        ("Llama-v3.2-3B-Instruct", 1, "geniex hub export"),
        ("Falcon3-7B", 3, "it is for: Snapdragon X Elite CRD"),
        ("Qwen3-4B:W8A8", 3, "available: W4A16"),
    ],
)
def test_pulls_that_fail(
    cli: Cli, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, name: str, code: int, says: str
) -> None:
    chipset = X2_ELITE if name.startswith("Falcon") else X_ELITE
    monkeypatch.setenv("GENIEX_CHIPSET", chipset)
    result = cli("pull", f"ai-hub-models/{name}")
    assert result.code == code
    assert says in result.err


def test_from_python(bucket: Bucket, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data_dir).mkdir()
    (data_dir / "config.json").write_text(json.dumps({"chipset": X_ELITE}))
    assert query("ai-hub-models/Qwen3-4B") == ("W4A16",)
    assert pull("ai-hub-models/Qwen3-4B").precisions == ("W4A16",)
    monkeypatch.setenv("GENIEX_CHIPSET", X2_ELITE)
    with pytest.raises(NotCompiledError):
        query("ai-hub-models/Qwen3-4B")


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that can be exported; the bundle comes into the current folder."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    for name in ("prompt_ar16_cl64_1_of_1.onnx", "token_ar1_cl64_1_of_1.onnx"):
        (folder / name).write_bytes(name.encode())
    config = copy.deepcopy(CONFIG)
    config["dialog"]["engine"]["model"]["binary"]["ctx-bins"] = ["tiny.bin"]
    del config["dialog"]["engine"]["backend"]["extensions"]
    (folder / "genie_config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    monkeypatch.chdir(tmp_path)
    return folder


def test_export(cli: Cli, bucket: Bucket, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeClient([Device("X Elite CRD", [f"chipset:{X_ELITE}"])])
    monkeypatch.setattr("geniex_catalogue.hubs.workbench.connect", lambda **_: Workbench(client))
    monkeypatch.setattr("geniex_catalogue.hubs.export.POLL", 0.0)
    client.faults["submit_link_job"] = [KeyboardInterrupt()]
    stopped = cli("hub", "export", "tiny", "--chipset", "Snapdragon X Elite CRD")
    assert stopped.code == 130
    assert "the same command takes it up" in stopped.err
    result = cli("hub", "export", "tiny", "--chipset", "sc8380xp")
    assert result.out == "tiny-x-elite\n", result.err
    assert "compiled before" in result.err
    assert "geniex pull local/tiny-x-elite --local-path tiny-x-elite" in result.err
    # a bundle in all but its binary, which the double of the hub makes up
    taken = cli("pull", "local/tiny-x-elite", "--local-path", "tiny-x-elite")
    assert "`tiny-x-elite/tiny.bin` is no context binary" in taken.err
    assert cli("hub", "export", "tiny", "--chipset", X_ELITE).code == 2


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("ai-hub-models/Llama-v3.2-3B-Instruct",), 2, "llama_v3_2_3b_instruct.export --chipset"),
        (("Qwen3-4B",), 2, "pip install 'qai-hub-models[qwen3-4b]'"),
        (("nowhere",), 2, "does not exist"),
        (("tiny",), 1, "no chipset was found"),
        (("tiny", "--chipset", "pentium"), 1, "not a chipset"),
        (("tiny", "--chipset", X_ELITE, "--offline"), 4, "hint: leave out `--offline`\n"),
    ],
)
def test_exports_that_fail(
    cli: Cli, bucket: Bucket, exported: Path, args: tuple[str, ...], code: int, says: str
) -> None:
    result = cli("hub", "export", *args)
    assert result.code == code
    assert says in result.err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            ("ai-hub-models/Llama-v3.2-3B-Instruct",),
            "qai_hub_models.models.llama_v3_2_3b_instruct.",
        ),
        (("qualcomm/Qwen3-4B:W4A16", "--offline"), "pip install 'qai-hub-models[qwen3-4b]'"),
        (("Qwen3-4B",), "the AI Hub cannot be asked whether"),
    ],
)
def test_names_without_a_network(
    cli: Cli, data_dir: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], says: str
) -> None:
    monkeypatch.setenv("GENIEX_AIHUBBASEURL", "http://127.0.0.1:9")
    monkeypatch.setattr(documents, "Patience", lambda: Patience(attempts=1))
    result = cli("hub", "export", *args, "--chipset", X_ELITE)
    assert result.code == 2 and says in result.err
    assert "no model of the AI Hub" not in result.err
    assert "does not exist" in result.err


def test_lists_without_a_network(cli: Cli, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENIEX_AIHUBBASEURL", "http://127.0.0.1:9/there")
    monkeypatch.setattr(documents, "Patience", lambda: Patience(attempts=1))
    result = cli("hub", "list", "--all")
    assert result.code == 4
    assert "hint: check the network, HTTPS_PROXY and GENIEX_AIHUBBASEURL\n" in result.err
    result = cli("hub", "list", "--all", "--offline")
    assert (result.code, result.err.splitlines()[-1]) == (4, "hint: leave out `--offline`")


def test_an_export_takes_its_client(
    cli: Cli, bucket: Bucket, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "qai_hub", None)
    result = cli("hub", "export", "tiny", "--chipset", X_ELITE)
    assert result.code == 4
    assert '-m pip install "qai-hub>=' in result.err
