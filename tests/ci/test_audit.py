"""The audit of dependencies, on answers that pip-audit gave."""

import json
from typing import Any

import pytest

from ci.audit import CLEAN, FOUND, UNKNOWN, judge, read

KNOWN = {
    "name": "jinja2",
    "version": "2.4.1",
    "vulns": [
        {
            "id": "PYSEC-2014-8",
            "fix_versions": ["2.7.2"],
            "aliases": ["CVE-2014-1402", "GHSA-8r7q-cvjq-x353"],
            "description": "The default configuration for bccache.FileSystemBytecodeCache ...",
        },
        {"id": "PYSEC-0000-1", "fix_versions": [], "aliases": [], "description": ""},
    ],
}
FINE = {"name": "idna", "version": "3.11", "vulns": []}
SKIPPED = {
    "name": "aiohttp",
    "skip_reason": "Dependency not found on PyPI and could not be audited: aiohttp (3.14.5)",
}


def report(*packages: dict[str, Any]) -> dict[str, Any]:
    return {"dependencies": [*packages], "fixes": []}


@pytest.mark.parametrize(
    ("packages", "code", "said"),
    [
        pytest.param([FINE], CLEAN, "1 of 1 packages", id="nothing known"),
        pytest.param([FINE, KNOWN], FOUND, "PYSEC-2014-8, fixed in 2.7.2", id="known"),
        pytest.param([KNOWN], FOUND, "PYSEC-0000-1, not fixed yet", id="not fixed"),
        pytest.param([FINE, SKIPPED], UNKNOWN, "no answer for 1 packages: aiohttp", id="skipped"),
        pytest.param([KNOWN, SKIPPED], FOUND, "1 of 2 packages", id="known and skipped"),
        pytest.param([SKIPPED] * 9, UNKNOWN, "0 of 9 packages", id="no answer at all"),
        pytest.param([], UNKNOWN, "0 of 0 packages", id="nothing asked"),
    ],
)
def test_the_verdict(packages: list[dict[str, Any]], code: int, said: str) -> None:
    verdict = judge(report(*packages))
    assert verdict.code == code
    assert said in "\n".join(verdict.lines)


UNREACHABLE = (
    "Traceback (most recent call last):\n"
    "requests.exceptions.ConnectionError: Max retries exceeded: Name or service not known\n"
)


@pytest.mark.parametrize(
    ("code", "out", "err", "expected", "said"),
    [
        pytest.param(0, json.dumps(report(FINE)), "", CLEAN, "1 of 1", id="a report"),
        pytest.param(1, json.dumps(report(KNOWN)), "", FOUND, "jinja2 2.4.1", id="found"),
        pytest.param(1, "", UNREACHABLE, UNKNOWN, "Name or service not known", id="no network"),
        pytest.param(2, json.dumps(report()), "usage: ...", UNKNOWN, "ended with 2", id="misuse"),
        pytest.param(0, "{", "", UNKNOWN, "it said nothing", id="half an answer"),
        pytest.param(0, "[]", "", UNKNOWN, "it said nothing", id="another form"),
    ],
)
def test_a_run(code: int, out: str, err: str, expected: int, said: str) -> None:
    verdict = read(code, out, err)
    assert verdict.code == expected
    assert said in "\n".join(verdict.lines)
