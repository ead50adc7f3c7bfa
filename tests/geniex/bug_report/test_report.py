"""`geniex doctor --report`: what it holds, and what it does not."""

import logging
import stat
import sys
from pathlib import Path

import pytest

from geniex.bug_report import sections
from geniex.bug_report.last_lines import FILE, drop_last_lines, keep_last_lines, read_last_lines
from geniex.bug_report.writing import write_report
from geniex_catalogue.errors import StoreError
from tests.cliharness import Cli

TITLES = [
    *("versions", "system", "settings", "environment", "hardware", "llama.cpp", "models"),
    *("trials", "packages", "log"),
]


def parts_of(text: str) -> dict[str, str]:
    _, *parts = text.split("\n== ")
    return {title: body.strip() for title, _, body in (part.partition("\n") for part in parts)}


@pytest.fixture
def planted(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Secrets wherever a report looks; the words that must not be in it."""
    home = tmp_path / "alexandra"
    (home / ".cache" / "huggingface").mkdir(parents=True)
    (home / ".cache" / "huggingface" / "token").write_text("tokeninfile")
    for name, value in {
        "HOME": str(home),
        "USERPROFILE": str(home),
        "USER": "alexandra",
        "HF_TOKEN": "hf_tokeninvariable",
        "GENIEX_APIKEY": "keyinvariable",
        "HTTPS_PROXY": "http://me:proxypass@proxy.example:3128",
        "GENIEX_MODEL": str(home / "models" / "x.gguf"),
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=headerpass",
        "UNRELATED": "nobodysbusiness",
    }.items():
        monkeypatch.setenv(name, value)
    data_dir.mkdir()
    (data_dir / "trials.json").write_text('{"trials": {"a/alexandra/b": "keyinvariable"}}')
    (data_dir / FILE).write_text("WARNING geniex: it failed at keyinvariable by alexandra\n")
    (data_dir / "prompt_history").write_text("promptinfile")
    return [
        *("tokeninfile", "tokeninvariable", "keyinvariable", "proxypass", "headerpass"),
        *("alexandra", "nobodysbusiness", "promptinfile"),
    ]


def test_it_holds_what_it_says_and_no_secret(
    cli: Cli,
    planted: list[str],
    tmp_path: Path,
) -> None:
    file = tmp_path / "report.txt"
    result = cli("doctor", "--report", str(file))
    assert result.code == 0 and result.out.strip() == str(file)
    assert "before you send it" in result.err
    text = file.read_text(encoding="utf-8")
    parts = parts_of(text)
    assert list(parts) == TITLES
    assert all(f"  {title}: " in result.err for title in TITLES)
    assert [secret for secret in planted if secret in text] == []
    assert "section failed" not in text
    assert parts["versions"].startswith("geniex ")
    assert "GENIEX_APIKEY=<REDACTED>" in parts["environment"]
    assert "GENIEX_MODEL=~" in parts["environment"]
    assert "llama-cpp-python==" in parts["packages"] and "pytest==" not in parts["packages"]
    assert "OPENMP" in parts["llama.cpp"] and "memory_total" in parts["hardware"]
    assert "it failed at <REDACTED> by <USER>" in parts["log"]
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_it_replaces_no_file(cli: Cli, data_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("mine")
    result = cli("doctor", "--report", str(file))
    assert result.code == 5 and "is there already" in result.err
    assert file.read_text() == "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_disk_that_fills_leaves_no_half_of_it(tmp_path: Path) -> None:
    import resource

    file = tmp_path / "mine.txt"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(StoreError, match="too large"):
            write_report(file, "x" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not file.exists()


@pytest.mark.parametrize("words", [["--report"], ["--report", "--log", "none"]])
def test_without_a_name_it_has_one(
    cli: Cli,
    data_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    _quick(monkeypatch)
    assert cli("doctor", *words).code == 0
    (file,) = tmp_path.glob("geniex-report-*.txt")
    assert file.read_text(encoding="utf-8").startswith("A report for a bug of geniex")


def test_on_stdout_and_where_things_are_broken(
    cli: Cli,
    data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _quick(monkeypatch)

    def broken() -> None:
        raise RuntimeError("no library")

    monkeypatch.setattr(sections, "_llama_cpp", broken)
    result = cli("doctor", "--report", "-")
    parts = parts_of(result.out)
    assert parts["llama.cpp"] == "(this section failed: RuntimeError: no library)"
    assert parts["log"] == "(none)" and list(parts) == TITLES


def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "_hardware", lambda look: iter(["a machine"]))


class TestLastLines:
    def test_warnings_are_kept_and_bounded(self, tmp_path: Path) -> None:
        kept = keep_last_lines(tmp_path)
        try:
            logger = logging.getLogger("geniex.somewhere")
            logger.warning("first %s", "x" * 1000)
            for index in range(300):
                logger.warning("line %d %s", index, "y" * 1000)
            logger.info("not kept")
        finally:
            drop_last_lines(kept)
        lines = read_last_lines(tmp_path)
        assert 100 < len(lines) <= 200 and "line 299" in lines[-1]
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 300_000
        if sys.platform != "win32":
            files = tmp_path.glob(f"{FILE}*")
            assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}

    def test_a_folder_that_cannot_be_written_costs_nothing(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        kept = keep_last_lines(tmp_path / "later")
        try:
            logging.getLogger("geniex.somewhere").warning("first")
            (tmp_path / "later").mkdir()
            logging.getLogger("geniex.somewhere").warning("second")
        finally:
            drop_last_lines(kept)
        assert capfd.readouterr().err == ""
        (line,) = read_last_lines(tmp_path / "later")
        assert line.endswith("second")
