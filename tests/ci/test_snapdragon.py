"""The report of the check on a device; its steps run on the simulator, by hand and on devices."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from ci import snapdragon_check
from ci.qairt_bundles import __main__ as making_bundles
from ci.snapdragon import terminal
from ci.snapdragon.report import Facts, FailedError, Report, expect


def _fails() -> Facts:
    raise FailedError("it is not so")


def _breaks() -> Facts:
    facts: Facts = {}
    return {"there": facts["not"]}


def test_a_report_has_all_steps_whatever_became_of_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = Report({"device": "NPU", "probes": {}})
    assert report.run("good", lambda: {"tok/s": 20.5})
    assert not report.run("bad", _fails)
    assert not report.run("worse", _breaks)
    assert not report.passed
    text = report.text()
    assert text.startswith("device: NPU\n") and "probes" not in text
    assert "ok     good" in text and "tok/s 20.5" in text
    assert "FAILED bad" in text and "it is not so" in text and "KeyError: 'not'" in text
    assert text.endswith("1 of 3 steps passed")
    assert capsys.readouterr().err.count("\n") == 3
    told = json.loads(report.as_json())
    assert [step["passed"] for step in told["steps"]] == [True, False, False]


def test_what_is_so_is_expected() -> None:
    expect(True, "never said")
    with pytest.raises(FailedError, match="said"):
        expect(False, "said")


def test_without_a_device_the_report_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = {"device": "none", "probes": {"runtime qairt": "not installed"}, "simulated": False}
    monkeypatch.setattr(terminal, "machine", lambda geniex: facts)
    file = tmp_path / "report.json"
    monkeypatch.setattr("sys.argv", ["snapdragon_check.py", "--json", str(file)])
    assert snapdragon_check.main() == 1
    assert "no device for bundles: not installed" in capsys.readouterr().out
    assert json.loads(file.read_text())["passed"] is False


def test_without_the_packages_for_a_bundle_the_report_says_what_to_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = {"device": "HTP simulator", "geniex": {"runtimes": {"qairt": "2"}}, "simulated": True}
    monkeypatch.setattr(terminal, "machine", lambda geniex: facts | {"probes": {}})
    # as in an environment with the extra `qairt` alone
    found = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name != "onnx" and found(name))
    file = tmp_path / "report.json"
    monkeypatch.setattr("sys.argv", ["snapdragon_check.py", "--json", str(file)])
    assert snapdragon_check.main() == 1
    steps = json.loads(file.read_text())["steps"]
    assert [(step["name"], step["passed"]) for step in steps] == [
        ("a device for bundles", True),
        ("pull", False),
    ]
    command = f'{sys.executable} -m pip install "onnx>=1.20"'
    assert f"run `{command}`" in steps[1]["error"]
    monkeypatch.setattr("sys.argv", ["qairt_bundles", "--out", str(tmp_path / "out")])
    assert making_bundles.main() == 1
    told = capsys.readouterr()
    assert told.err.endswith(f"run `{command}`\n") and "Traceback" not in told.err
