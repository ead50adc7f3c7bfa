"""Flags of `geniex infer` for the model: which is loaded, and how."""

from pathlib import Path

import pytest

from tests.cliharness import Cli
from tests.geniex.cli.infer.recorder import Recorder


class TestLoading:
    def test_flags_reach_the_runtime(self, cli: Cli, runtime: Recorder) -> None:
        cli("infer", "-p", "hi", "--nctx", "512", "--threads", "3", "-c", "cpu", "-n", "0")
        options = runtime.options
        assert (options.context_length, options.threads, options.compute) == (512, 3, "cpu")

    def test_more_threads_than_the_machine_has(self, cli: Cli, runtime: Recorder) -> None:
        result = cli("infer", "-q", "-p", "hi", "--threads", "1000")
        assert runtime.options.threads == 8 and result.code == 0
        assert "Warning: `--threads 1000` is more than" in result.err

    def test_variables_reach_the_runtime(
        self, cli: Cli, runtime: Recorder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GENIEX_NCTX", "640")
        cli("infer", "-p", "hi")
        assert runtime.options.context_length == 640

    def test_the_configured_model_is_the_default(
        self, cli: Cli, runtime: Recorder, tiny_chat: Path
    ) -> None:
        assert cli("config", "set", "model", str(tiny_chat)).code == 0
        assert cli("infer", "-p", "hi", "--json").json["model"] == str(tiny_chat)

    def test_verbose_says_what_is_loaded(self, cli: Cli, runtime: Recorder) -> None:
        err = cli("infer", "--verbose", "-p", "hi", "--nctx", "512").err
        assert "Model loaded: runtime=llama_cpp compute=cpu" in err and "nctx=512" in err

    def test_an_unmet_wish_is_an_error(self, cli: Cli, runtime: Recorder) -> None:
        result = cli("infer", "-p", "hi", "--compute", "gpu")
        assert (result.code, result.out) == (1, "")
        assert "gpu" in result.err.lower()

    @pytest.mark.parametrize(
        ("name", "code"),
        [
            pytest.param("./missing.gguf", 3, id="path"),
            pytest.param("a/b/c/d", 2, id="no name"),
            pytest.param("", 2, id="empty"),
            pytest.param("tiny-chatt", 3, id="near an alias"),
            pytest.param("geniex/tiny-chat:Q2_K", 3, id="precision"),
        ],
    )
    def test_names_that_are_nothing(
        self, cli: Cli, runtime: Recorder, name: str, code: int
    ) -> None:
        result = cli("infer", name, "-p", "hi")
        assert (result.code, result.out) == (code, "")
        assert result.err.startswith("Error: ") and "Traceback" not in result.err
