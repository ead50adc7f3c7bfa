"""`geniex serve`: what its flags make of how models are held."""

import sys
from typing import Any

import pytest

from geniex.config import Settings
from tests.cliharness import Cli


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param((), {"mmap": None, "mlock": False, "kv_type": None}, id="left-open"),
        pytest.param(("--mmap",), {"mmap": True}, id="mapped"),
        pytest.param(("--no-mmap", "--mlock"), {"mmap": False, "mlock": True}, id="read"),
        pytest.param(
            ("--kv-type", "Q8_0", "--flash-attn", "on"),
            {"kv_type": "q8_0", "flash_attn": "on"},
            id="cache",
        ),
    ],
)
def test_flags_are_settings(
    cli: Cli, words: tuple[str, ...], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Settings] = []

    def serve(app: Any, state: Any, *_: Any, **__: Any) -> int:
        seen.append(state.settings)
        return 0

    monkeypatch.setattr("geniex.server.lifecycle.serve", serve)
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)
    assert cli("serve", *words).code == 0
    assert {name: getattr(seen[0], name) for name in expected} == expected
