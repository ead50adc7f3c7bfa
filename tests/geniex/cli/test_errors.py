"""The table of errors: whole, and told in two lines."""

import errno
from collections.abc import Iterator

import pytest

from geniex.cli.errors import ROWS, row_of, tell
from geniex_catalogue import errors
from geniex_runtimes import errors as runtime_errors


def classes(base: type[errors.GenieXError]) -> Iterator[type[errors.GenieXError]]:
    yield base
    for kind in base.__subclasses__():
        yield from classes(kind)


@pytest.mark.parametrize("kind", sorted(set(classes(errors.GenieXError)), key=str))
def test_each_class_has_a_row(kind: type[errors.GenieXError]) -> None:
    if kind.__module__ in (errors.__name__, runtime_errors.__name__):
        assert ROWS[kind].code in (1, 2, 3, 4, 5)
    elif not kind.__module__.startswith(("test", "geniex.server")):
        # a finer kind, for those who catch it: it has the row of its base
        assert row_of(kind) is not ROWS[errors.GenieXError]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(errors.UsageError("x"), 2, id="use"),
        pytest.param(errors.ModelRefError("x"), 2, id="name"),
        pytest.param(errors.ModelNotFoundError("x"), 3, id="model"),
        pytest.param(errors.HubNotFoundError("x"), 3, id="repository"),
        pytest.param(errors.HubOfflineError("x"), 4, id="network"),
        pytest.param(errors.ChecksumError("x"), 4, id="hash"),
        pytest.param(errors.DiskSpaceError("/", 2, 1), 5, id="disk"),
        pytest.param(errors.LoadError("x"), 1, id="load"),
        pytest.param(OSError(errno.ENOSPC, "No space left on device", "/f"), 5, id="full"),
        pytest.param(ConnectionError("x"), 1, id="unforeseen"),
        pytest.param(MemoryError(), 1, id="memory"),
    ],
)
def test_exit_codes(error: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert tell(error) == code
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Error: ") and len(lines) <= 2
    assert all(line.startswith("hint: ") for line in lines[1:])


def test_each_error_is_one_line_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell(errors.TemplateError("first\nsecond\x1b[31m", hint="do\nthis"))
    assert capsys.readouterr().err == "Error: first second[31m\nhint: do this\n"


def test_the_own_hint_wins(capsys: pytest.CaptureFixture[str]) -> None:
    tell(errors.LoadError("x", hint="mine"))
    assert "hint: mine\n" in capsys.readouterr().err


def test_a_traceback_on_demand(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENIEX_DEBUG", "1")
    try:
        raise errors.LoadError("x") from ValueError("deep cause")
    except errors.LoadError as exc:
        tell(exc)
    told = capsys.readouterr().err
    assert "Traceback" in told and "deep cause" in told


def test_a_new_class_takes_its_base() -> None:
    class NewError(errors.HubAuthError):
        pass

    assert row_of(NewError) is ROWS[errors.HubAuthError]
    del NewError
