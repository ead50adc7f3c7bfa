"""`--log-format json`: every line on stderr is one object, whoever wrote it."""

import json
import logging
import os
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from geniex.cli import json_stderr, log
from geniex.cli.output import Output
from geniex.cli.stderr_writer import StderrWriter
from tests.cliharness import Cli


def lines_of(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    for line in found:
        assert {"time", "level", "logger", "message"} <= line.keys()
    return found


@pytest.fixture
def as_json(capfd: pytest.CaptureFixture[str]) -> Any:
    """Set the log up, do something, and have the lines that came of it."""

    def run(do: Any, level: str = "warn") -> list[dict[str, Any]]:
        log.set_up(level, kind="json")
        try:
            do()
        finally:
            log.tear_down()
        return lines_of(capfd.readouterr().err)

    return run


def test_an_error_and_its_hint_are_objects(cli: Cli, data_dir: Path) -> None:
    result = cli("infer", "no/such-model", "-p", "hi", "--log-format", "json", "--offline")
    assert result.code != 0
    (error,) = [line for line in lines_of(result.err) if line["level"] == "error"]
    assert "no/such-model" in error["message"] and not error["message"].startswith("Error")
    # and the next command of this process speaks as ever
    assert "\nError: " in "\n" + cli("infer", "no/such-model", "-p", "hi", "--offline").err


def test_wrong_use_is_an_object_where_the_variable_says_so(
    cli: Cli, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENIEX_LOG_FORMAT", "json")
    result = cli("list", "--no-such-flag")
    assert result.code == 2
    assert lines_of(result.err)[0]["level"] == "error"


def test_data_stays_as_it_is(cli: Cli, data_dir: Path) -> None:
    assert cli("version", "--log-format", "json").out == cli("version").out


def test_another_format_is_refused(cli: Cli, data_dir: Path) -> None:
    result = cli("list", "--log-format", "xml")
    assert result.code == 2
    assert "`xml` is no log format" in result.err and "text or json" in result.err


def test_a_traceback_for_debugging_is_one_object(
    cli: Cli, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENIEX_DEBUG", "1")
    lines = lines_of(cli("infer", "no/such", "-p", "x", "--log-format", "json", "--offline").err)
    (traced,) = [line for line in lines if "traceback" in line]
    assert traced["traceback"].startswith("Traceback") and traced["level"] == "error"


def test_levels_of_what_commands_say(as_json: Any) -> None:
    def speak() -> None:
        output = Output()
        output.warn("careful\nnow")
        output.note("by the way")
        output.reasoning("in two ")
        output.reasoning("pieces")

    said = [(line["level"], line["message"]) for line in as_json(speak)]
    assert said == [("warning", "careful now"), ("info", "by the way"), ("info", "in two pieces")]


def test_loggers_of_others_and_python_itself(as_json: Any) -> None:
    def complain() -> None:
        logging.getLogger("somebody.else").warning("two\nlines")
        logging.getLogger("somebody.else").info("nobody asked")
        logging.getLogger("geniex.x").warning("ours")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            logging.captureWarnings(True)
            warnings.warn("old", DeprecationWarning, stacklevel=1)

    lines = as_json(complain)
    assert [line["logger"] for line in lines] == ["somebody.else", "geniex.x", "py.warnings"]
    assert lines[0]["message"] == "two\nlines"


def test_a_thread_that_dies_is_one_object(as_json: Any) -> None:
    def die() -> None:
        raise KeyError("gone")

    def run() -> None:
        thread = threading.Thread(target=die, name="poor")
        thread.start()
        thread.join()

    # pytest puts a hook of its own around tests: ours is called as Python would
    def hooked() -> None:
        hook = threading.excepthook
        assert hook is not threading.__excepthook__
        run()

    (line,) = as_json(hooked)
    assert line["level"] == "critical" and "poor" in line["message"]
    assert "KeyError" in line["traceback"]


def test_a_faulty_log_line_is_told_of(as_json: Any) -> None:
    faulty = logging.LogRecord("geniex.x", logging.ERROR, "f.py", 7, "%d", ("many",), None)

    def send() -> None:  # to ours alone: pytest's own handler would raise
        for handler in logging.getLogger("geniex").handlers:
            handler.handle(faulty)

    (line,) = as_json(send)
    assert line["message"].startswith("the log line at f.py:7 is faulty: TypeError")


def test_text_without_an_end_is_bounded(as_json: Any) -> None:
    def endless() -> None:
        for _ in range(3):
            sys.stderr.write("x" * 50_000)

    assert sum(len(line["message"]) for line in as_json(endless)) == 150_000


def test_nothing_is_drawn(as_json: Any) -> None:
    def draw() -> None:
        assert not sys.stderr.isatty()
        sys.stderr.write("\x1b[2mdim\x1b[0m\r10 %\r\n\n")

    assert [line["message"] for line in as_json(draw)] == ["dim", "10 %"]


def test_lines_that_were_lost_are_told_of_in_json(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        writer = StderrWriter(file, file.fileno(), 100)
        json_stderr.JsonStderr(writer)  # type: ignore[arg-type]
        writer.write("x" * 200 + "\n")
        writer.write("{}\n")
        writer.close()
    kept, lost = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert kept == {} and lost["lost"] == 1


def test_what_is_caught_of_a_library_has_no_lines_of_the_log(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file, (tmp_path / "caught").open("w") as caught:
        writer = StderrWriter(file, file.fileno(), 100)
        saved = os.dup(file.fileno())
        os.dup2(caught.fileno(), file.fileno())
        writer.write("an error of another client\n")
        writer.close()
        os.dup2(saved, file.fileno())
        os.close(saved)
    assert (tmp_path / "log").read_text() == "an error of another client\n"
    assert not (tmp_path / "caught").read_text()


def test_another_stream_in_its_place_becomes_json_too(as_json: Any) -> None:
    def speak() -> None:
        below = sys.stderr
        assert isinstance(below, json_stderr.JsonStderr)
        sys.stderr = below.below
        Output().warn("still")

    assert [line["message"] for line in as_json(speak)] == ["still"]


def test_without_a_level_our_own_warnings_are_shown_and_not_llama_cpps(
    capfd: pytest.CaptureFixture[str],
) -> None:
    log.set_up("warn", native=False)
    try:
        logging.getLogger("geniex.llama_cpp.native").warning("llama.cpp mutters")
        for name in ("geniex.llama_cpp", "geniex.llama_cpp.kept"):
            logging.getLogger(name).warning("told by %s", name)
    finally:
        log.set_up("none")
    told = capfd.readouterr().err
    assert "told by geniex.llama_cpp\n" in told and "told by geniex.llama_cpp.kept\n" in told
    assert "mutters" not in told
