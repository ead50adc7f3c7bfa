"""Settings: which source wins, what is refused, and a file that survives everything."""

import json
import os
import sys
from pathlib import Path

import pytest

from geniex.config import DEFAULT_MODEL, Settings, read_settings
from geniex.config_file import ConfigFile, find_data_dir
from geniex.keys import KEYS
from geniex_catalogue.errors import StoreError, UsageError


def settings(tmp_path: Path, environ: dict[str, str] | None = None, **flags: object) -> Settings:
    return read_settings({"data_dir": str(tmp_path), **flags}, environ or {})


def test_defaults_where_nothing_is_set(tmp_path: Path) -> None:
    found = settings(tmp_path / "new")
    assert found == Settings(data_dir=tmp_path / "new")
    assert found.model == DEFAULT_MODEL
    assert not (tmp_path / "new").exists(), "reading makes no folder"


def test_flag_over_variable_over_file(tmp_path: Path) -> None:
    ConfigFile(tmp_path).set("nctx", "1000")
    assert settings(tmp_path).nctx == 1000
    assert settings(tmp_path, {"GENIEX_NCTX": "2000"}).nctx == 2000
    assert settings(tmp_path, {"GENIEX_NCTX": "2000"}, nctx=3000).nctx == 3000


def test_an_empty_variable_is_no_variable(tmp_path: Path) -> None:
    assert settings(tmp_path, {"GENIEX_NCTX": "", "GENIEX_LOG": ""}).nctx is None


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        pytest.param("compute", "GPU", "gpu", id="unit in any case"),
        pytest.param("compute", "HTP0, HTP1", "HTP0,HTP1", id="devices"),
        pytest.param("compute", "HTP simulator", "HTP simulator", id="simulator"),
        pytest.param("require", "NPU", "npu", id="required"),
        pytest.param("qairt_engine", "ort", "ort", id="engine"),
        pytest.param("ngl", "-1", -1, id="all layers"),
        pytest.param("nctx", "4096", 4096, id="context"),
        pytest.param("threads", "2", 2, id="threads"),
        pytest.param("model", "org/repo:Q4_0", "org/repo:Q4_0", id="model"),
        pytest.param("runtime", "llama_cpp", "llama_cpp", id="runtime"),
        pytest.param("chipset", "SM8750", "SM8750", id="chipset"),
        pytest.param("host", "http://box:80", "http://box:80", id="host"),
        pytest.param("origins", "https://a.b/, http://c", "https://a.b,http://c", id="origins"),
        pytest.param("origins", "*", "*", id="any origin"),
        pytest.param("keepalive", "-1", -1, id="for ever"),
        pytest.param("parallel", "8", 8, id="slots"),
        pytest.param("max_queue", "0", 0, id="no queue"),
    ],
)
def test_each_key_is_set_and_read_back(tmp_path: Path, key: str, text: str, value: object) -> None:
    ConfigFile(tmp_path).set(key, text)
    assert getattr(settings(tmp_path), key) == value


@pytest.mark.parametrize(
    ("key", "text"),
    [
        pytest.param("nctx", "0", id="no context"),
        pytest.param("nctx", "many", id="not a number"),
        pytest.param("ngl", "-2", id="fewer than all"),
        pytest.param("threads", "1.5", id="half a thread"),
        pytest.param("compute", "cpu;gpu", id="not a device"),
        pytest.param("compute", "HTP 0", id="blank in a device"),
        pytest.param("require", "hybrid", id="not to be required"),
        pytest.param("qairt_engine", "onnx", id="unknown engine"),
        pytest.param("runtime", "onnx", id="unknown runtime"),
        pytest.param("host", "a b", id="no address"),
        pytest.param("origins", "box", id="no origin"),
        pytest.param("keepalive", "-2", id="less than for ever"),
        pytest.param("parallel", "0", id="no slots"),
        pytest.param("parallel", "257", id="more slots than there can be"),
        pytest.param("max_queue", "-1", id="less than no queue"),
    ],
)
def test_a_bad_value_is_refused_wherever_it_stands(tmp_path: Path, key: str, text: str) -> None:
    with pytest.raises(UsageError, match=key):
        ConfigFile(tmp_path).set(key, text)
    with pytest.raises(UsageError, match=f"GENIEX_{key.upper()}"):
        settings(tmp_path, {f"GENIEX_{key.upper()}": text})
    (tmp_path / "config.json").write_text(json.dumps({key: text}))
    with pytest.raises(UsageError, match=r"config\.json"):
        settings(tmp_path)


def test_an_unknown_key_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        ConfigFile(tmp_path).set("colour", "red")
    assert all(key in str(caught.value.hint) for key in KEYS)


def test_an_empty_value_clears_a_key(tmp_path: Path) -> None:
    file = ConfigFile(tmp_path)
    file.set("nctx", "1000")
    file.set("threads", "2")
    file.set("nctx", "")
    assert file.read() == {"threads": "2"}


def test_keys_of_others_stay_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"theirs": "kept", "chipset": null, "nctx": 512}')
    assert settings(tmp_path).nctx == 512
    ConfigFile(tmp_path).set("threads", "1")
    assert ConfigFile(tmp_path).read() == {"theirs": "kept", "nctx": "512", "threads": "1"}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b'{"nctx": "10', id="cut off"),
        pytest.param(b"", id="empty"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"nctx": {}}', id="nested"),
        pytest.param(b"\xff\xfe\x00", id="bytes"),
    ],
)
def test_a_damaged_file_is_named_and_can_be_repaired(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"config\.json` is damaged"):
        settings(tmp_path)
    aside = ConfigFile(tmp_path).set("nctx", "99")
    assert aside is not None and aside.read_bytes() == content
    assert settings(tmp_path).nctx == 99


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ConfigFile(tmp_path)
    file.set("nctx", "1")

    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StoreError, match="No space left"):
        file.set("nctx", "2")
    assert file.read() == {"nctx": "1"}
    assert [path.name for path in tmp_path.iterdir() if "config" in path.name] == ["config.json"]


class TestDataDir:
    def test_home(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("USERPROFILE", str(tmp_path))
        assert find_data_dir(None, {}) == tmp_path / ".cache" / "geniex"
        assert find_data_dir("~/models", {}) == tmp_path / "models"

    def test_flag_over_variable(self, tmp_path: Path) -> None:
        environ = {"GENIEX_DATADIR": str(tmp_path / "a")}
        assert find_data_dir(None, environ) == tmp_path / "a"
        assert find_data_dir(str(tmp_path / "b"), environ) == tmp_path / "b"

    def test_relative_to_where_we_are(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert find_data_dir("../x/./y", {}) == tmp_path.parent / "x" / "y"

    def test_no_home_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def homeless(path: Path) -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(Path, "expanduser", homeless)
        with pytest.raises(UsageError, match="home folder") as caught:
            find_data_dir(None, {})
        assert "--data-dir" in str(caught.value.hint)

    def test_empty_flag(self) -> None:
        with pytest.raises(UsageError, match="empty"):
            find_data_dir(" ", {})

    def test_a_file_is_no_folder(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.touch()
        with pytest.raises(StoreError, match="not a folder"):
            find_data_dir(str(file), {})

    @pytest.mark.skipif(sys.platform == "win32", reason="a file as a parent fails otherwise there")
    def test_below_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        below = tmp_path / "file" / "data"
        assert read_settings({"data_dir": str(below)}, {}).nctx is None
        with pytest.raises(StoreError):
            ConfigFile(below).set("nctx", "1")


@pytest.mark.parametrize(
    ("level", "fine"), [("debug", True), ("WARN", True), ("none", True), ("loud", False)]
)
def test_log_levels(tmp_path: Path, level: str, fine: bool) -> None:
    if fine:
        assert settings(tmp_path, {"GENIEX_LOG": level}).log == level.lower()
        assert settings(tmp_path, {"GENIEX_LOG": "info"}, log=level).log == level.lower()
    else:
        with pytest.raises(UsageError, match="log level"):
            settings(tmp_path, log=level)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes among files")
def test_a_pipe_for_the_file_makes_nobody_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(StoreError, match=r"cannot read .*not a regular file"):
        ConfigFile(tmp_path).read()
