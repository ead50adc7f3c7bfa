"""The check command: everything runs, whatever failed before, and pytest closes the output."""

import sys
from pathlib import Path

import pytest

import ci.test
from ci.llama_wheel import BuildError

PASSES = ["-c", "print('fine')"]
FAILS = ["-c", "raise SystemExit(3)"]


def run(
    monkeypatch: pytest.MonkeyPatch, checks: dict[str, list[str]], pytest_passes: bool
) -> tuple[int, list[str]]:
    """The exit code, and the names of what ran."""
    ran: list[str] = []
    real = ci.test.check

    def note(name: str, command: list[str | Path], extra: dict[str, str]) -> bool:
        ran.append(name)
        return pytest_passes if name == "pytest" else real(name, command, extra)

    monkeypatch.setattr(sys, "argv", ["test.py", "--fast"])
    monkeypatch.setattr(ci.test, "prepare", lambda groups: Path(sys.executable))
    monkeypatch.setattr(ci.test, "CHECKS", checks)
    monkeypatch.setattr(ci.test, "check", note)
    return ci.test.main(), ran


def test_all_run_when_the_first_fails(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, ran = run(monkeypatch, {"one": FAILS, "two": PASSES}, pytest_passes=True)
    assert (code, ran) == (1, ["one", "two", "pytest"])
    assert "== so far: one FAILED, two passed" in capfd.readouterr().out


@pytest.mark.parametrize(("passes", "code"), [(True, 0), (False, 1)])
def test_the_tests_count_too(passes: bool, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, {"one": PASSES}, pytest_passes=passes)[0] == code


def test_a_failed_set_up_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(groups: object) -> Path:
        raise BuildError("there is no C++ compiler")

    monkeypatch.setattr(sys, "argv", ["test.py"])
    monkeypatch.setattr(ci.test, "prepare", fail)
    assert ci.test.main() == 1
    assert capsys.readouterr().err == "error: there is no C++ compiler\n"
