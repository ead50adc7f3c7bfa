"""Whether a package that is locked has a known vulnerability: `python3 ci/audit.py`.

pip-audit asks the index's database about each package of `ci/locks/dev.lock` and `project.lock`.
Exit codes: 0 all were asked about and nothing is known; 1 something is known; 3 the database did
not answer for all of them, which is no all-clear.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ci.environment import llama_version, project
from ci.llama_wheel import BuildError
from ci.lock import COMPILED
from ci.locked import lock_file
from ci.tools import tool

PIP_AUDIT = "pip-audit==2.10.1"
CLEAN, FOUND, UNKNOWN = 0, 1, 3
_SHOWN = 5


@dataclass(frozen=True)
class Verdict:
    """What is known: an exit code, and lines that say it."""

    code: int
    lines: tuple[str, ...]


def judge(report: Mapping[str, Any]) -> Verdict:
    """What pip-audit's JSON says; what it skipped is not known, though it is content with that."""
    packages: Sequence[Mapping[str, Any]] = report["dependencies"]
    lines = [
        f"{one['name']} {one['version']}: {vulnerability['id']}, {_fix(vulnerability)}"
        for one in packages
        for vulnerability in one.get("vulns", ())
    ]
    skipped = [one["name"] for one in packages if "skip_reason" in one]
    asked = len(packages) - len(skipped)
    code = FOUND if lines else CLEAN
    if skipped or not packages:
        names = ", ".join(skipped[:_SHOWN]) + (" ..." if len(skipped) > _SHOWN else "")
        lines.append(f"not known: the database has no answer for {len(skipped)} packages: {names}")
        code = code or UNKNOWN
    lines.append(f"{asked} of {len(packages)} packages were asked about")
    return Verdict(code, tuple(lines))


def _fix(vulnerability: Mapping[str, Any]) -> str:
    fixed = vulnerability.get("fix_versions") or ()
    return f"fixed in {', '.join(fixed)}" if fixed else "not fixed yet"


def ask(service: str) -> Verdict:
    """Have pip-audit ask a service about the locks. Raises BuildError where it cannot be had."""
    command: list[str | Path] = [tool(PIP_AUDIT, "pip-audit"), "--format", "json"]
    command += ["--progress-spinner", "off", "--disable-pip", "--no-deps"]
    command += ["--vulnerability-service", service]
    with tempfile.TemporaryDirectory() as folder:
        # the one that no lock has, since it is compiled here
        compiled = Path(folder) / "compiled.txt"
        compiled.write_text(f"{COMPILED}=={llama_version(project())}\n", encoding="utf-8")
        for file in (lock_file("dev"), lock_file(None), compiled):
            command += ["--requirement", file]
        words = [str(word) for word in command]
        finished = subprocess.run(words, capture_output=True, text=True, check=False)
    return read(finished.returncode, finished.stdout, finished.stderr)


def read(code: int, out: str, err: str) -> Verdict:
    """What came of a run of pip-audit."""
    try:
        report = json.loads(out)
    except ValueError:
        report = None
    if code in (CLEAN, FOUND) and isinstance(report, dict):
        return judge(report)
    last = next((line for line in reversed(err.splitlines()) if line.strip()), "it said nothing")
    return Verdict(UNKNOWN, (f"not known: pip-audit ended with {code}: {last.strip()}",))


def main() -> int:
    """Ask, say it, and return the exit code."""
    parser = argparse.ArgumentParser(description="Known vulnerabilities of what is locked.")
    services = ("pypi", "osv")
    parser.add_argument("--service", choices=services, default="pypi", help="who is asked")
    try:
        verdict = ask(parser.parse_args().service)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return UNKNOWN
    print("\n".join(verdict.lines))
    return verdict.code


if __name__ == "__main__":
    sys.exit(main())
