"""What `geniex serve` refuses before it listens."""

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from geniex.best import Best
from geniex.config_file import ConfigFile
from geniex.keys import parse_size
from geniex_catalogue.errors import UsageError
from tests.cliharness import Cli


@pytest.fixture(autouse=True)
def at_any_port(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should one of these listen after all, it takes no port of this machine's owner."""
    monkeypatch.setenv("GENIEX_HOST", "127.0.0.1:0")


@pytest.mark.parametrize(
    "flag", ["--spec-type", "--draft-model", "--draft-tokens", "--draft-min", "--draft-p-min"]
)
def test_speculation_is_set_per_request(cli: Cli, flag: str) -> None:
    result = cli("serve", flag, "draft-mtp")
    assert result.code == 2
    assert "speculation is set per request" in result.err
    assert "`spec_type`" in result.err
    assert flag not in cli("serve", "-h").out


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        pytest.param(["none/none"], 3, "none/none", id="model"),
        pytest.param(["--pin", "none/none"], 3, "none/none", id="pin"),
        pytest.param(["geniex/tiny-chat-draft"], 1, "is a draft", id="draft"),
        pytest.param(["--host", "a b"], 2, "no address", id="host"),
        pytest.param(["--host", "[::1]:7", "--port", "0"], 2, "names port 7", id="two ports"),
        pytest.param(
            ["--kv-type", "q8_0", "--flash-attn", "off"], 2, "needs flash attention", id="cache"
        ),
        pytest.param(["--host", "https://127.0.0.1"], 2, "--ssl-certfile", id="scheme"),
        pytest.param(["--host", "no.such.host.invalid"], 1, "no host", id="unknown host"),
        pytest.param(["--host", "192.0.2.1"], 1, "192.0.2.1", id="host of others"),
        pytest.param(["--port", "70000"], 2, "70000", id="port"),
        pytest.param(["--origins", "nonsense"], 2, "no origin", id="origin"),
        pytest.param(["--keepalive", "-2"], 2, "-2", id="keep-alive"),
        pytest.param(["--parallel", "0"], 2, "0", id="slots"),
        pytest.param(["--memory-budget", "much"], 2, "no size", id="budget"),
        pytest.param(["--api-key", ""], 2, "API key", id="empty key"),
        pytest.param(["--api-key", "k\u00e9y"], 2, "API key", id="key"),
        pytest.param(["--grammar-dir", "none"], 2, "not a folder", id="folder"),
        pytest.param(["--ssl-keyfile", "k.pem"], 2, "TLS takes both", id="half of TLS"),
        pytest.param(
            ["--ssl-keyfile", "k.pem", "--ssl-certfile", "c.pem"], 2, "`c.pem`", id="no files"
        ),
        pytest.param(["--compute", "what ever"], 2, "no compute unit", id="compute"),
    ],
)
def test_wrong_use(cli: Cli, args: list[str], code: int, told: str) -> None:
    result = cli("serve", *args)
    assert result.code == code, result.err
    lines = result.err.splitlines()
    assert lines[0].startswith("Error: ") and len(lines) <= 2
    assert told in result.err


def test_a_port_that_is_taken(cli: Cli) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        result = cli("serve", "--host", "127.0.0.1", "--port", str(port))
    assert result.code == 1
    assert f"port {port} of `127.0.0.1` is taken" in result.err
    assert "hint: " in result.err and len(result.err.splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("512M", 512 << 20), ("24G", 24 << 30), ("1.5 GiB", 3 << 29), ("2kb", 2048)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "G", "1e9", "24 X", "0.2"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(UsageError):
        parse_size(text)


def test_best_settings_are_named_at_the_start(
    cli: Cli, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve(app: Any, state: Any, sockets: Any, listening: Any, *rest: Any, **tls: Any) -> int:
        listening()
        return 0

    monkeypatch.setattr("geniex.server.lifecycle.serve", serve)
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)
    assert "Best settings" not in cli("serve").err
    ConfigFile(data_dir).set_best(Best("org/m:Q4_0", threads=2))
    told = cli("serve").err.splitlines()
    assert told[1:] == [
        "Best settings of `geniex bench` are used: org/m:Q4_0 (threads=2)",
    ]
    gone = Best("org/m:Q4_0", spec_type="draft-mtp", draft_model="org/gone:Q4_0")
    ConfigFile(data_dir).set_best(gone)
    assert cli("serve").err.endswith("; the draft `org/gone:Q4_0` is not here)\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(["--cache-size", "1G"], "does nothing alone", id="size-alone"),
        pytest.param(["--cache-dir", "{file}"], "cannot be a cache", id="a-file"),
        pytest.param(["--cache-dir", "{file}/x"], "cannot be a cache", id="below-a-file"),
        pytest.param(["--cache-dir", "x", "--cache-size", "much"], "is no size", id="no-size"),
    ],
)
def test_a_cache_that_cannot_be(cli: Cli, tmp_path: Path, words: list[str], told: str) -> None:
    file = tmp_path / "file"
    file.touch()
    result = cli("serve", *(word.format(file=file) for word in words))
    assert result.code == 2 and told in result.err
