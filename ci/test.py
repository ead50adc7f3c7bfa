"""Every check of the project, in one command: `python3 ci/test.py` (`--fast`: no slow tests)."""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ci import models
from ci.environment import ROOT, child_environment, prepare
from ci.llama_wheel import BuildError

LINT_IMPORTS = "from importlinter.cli import lint_imports_command as main; main()"
# arguments of the interpreter, so that nothing depends on how a platform lays out its scripts
CHECKS = {
    "ruff check": ["-m", "ruff", "check", "."],
    "ruff format": ["-m", "ruff", "format", "--check", "."],
    "mypy": ["-m", "mypy"],
    "lint-imports": ["-c", LINT_IMPORTS],
}
# a process for each core; whoever is done takes tests from the end of another's list, so that
# what a module shares is mostly made once
SIDE_BY_SIDE = ["--numprocesses=logical", "--maxprocesses=4", "--dist=worksteal"]


def main() -> int:
    """Set up, run every check whatever the others say, and return 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="leave out the tests marked slow")
    fast = parser.parse_args().fast
    try:
        python = prepare(["dev"])
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    results = {name: check(name, [python, *words], {}) for name, words in CHECKS.items()}
    print("\n== so far: " + ", ".join(f"{name} {word(ok)}" for name, ok in results.items()))
    # last, so that pytest's own closing line closes the output
    results["pytest"] = run_pytest(python, fast)
    return 0 if all(results.values()) else 1


def word(ok: bool) -> str:
    """How the summary calls a result."""
    return "passed" if ok else "FAILED"


def check(name: str, command: list[str | Path], extra: dict[str, str]) -> bool:
    """Run one check in the clone, under its name; whether it passed."""
    print(f"\n== {name}", flush=True)
    words = [str(part) for part in command]
    finished = subprocess.run(words, cwd=ROOT, env=child_environment(**extra), check=False)
    return finished.returncode == 0


def run_pytest(python: Path, fast: bool) -> bool:
    """Run the tests, the slow ones with the real models that they need."""
    command: list[str | Path] = [python, "-m", "pytest", *SIDE_BY_SIDE]
    if fast:
        return check("pytest", [*command, "-m", "not slow"], {})
    try:
        extra = {"GENIEX_TEST_MODELS": str(models.ensure(python))}
    except BuildError as error:
        print(f"warning: {error}; the tests that need it say so", file=sys.stderr)
        extra = {}
    return check("pytest", command, extra)


if __name__ == "__main__":
    sys.exit(main())
