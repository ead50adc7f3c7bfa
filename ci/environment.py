"""The clone's virtual environment: made, filled, and found again in a moment on the next run.

Only the standard library is used, since nothing else is there yet.
"""

import hashlib
import json
import os
import subprocess
import sys

if sys.version_info < (3, 11):  # noqa: UP036  # the message is for those who come with an old one
    sys.exit(f"geniex needs Python 3.11 or newer; this is {sys.version.split()[0]}")

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ci import locked
from ci.llama_wheel import BuildError, ensure_wheel, wheel_folder

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
STAMP = VENV / "geniex-ready.json"


def project() -> dict[str, Any]:
    """The clone's pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def llama_version(config: Mapping[str, Any]) -> str:
    """The pinned version of llama-cpp-python."""
    pins = (line for line in config["project"]["dependencies"] if line.startswith("llama-cpp-pyt"))
    name, _, version = next(pins).partition("==")
    if not version:
        raise BuildError(f"pyproject.toml does not pin `{name}` to one version")
    return str(version.strip())


def venv_python() -> Path:
    """The interpreter of the virtual environment, made or not."""
    if sys.platform == "win32":
        return VENV / "Scripts" / "python.exe"
    return VENV / "bin" / "python"


def works(python: Path) -> bool:
    """Whether an interpreter starts and is new enough (its base Python may have gone)."""
    if not python.exists():
        return False
    check = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([str(python), "-c", check], capture_output=True).returncode == 0


def make_venv() -> None:
    """Make the virtual environment, or make a broken one anew."""
    try:
        import ensurepip  # noqa: F401  # Debian leaves it out of its plain python3
    except ImportError:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        raise BuildError(
            f"this Python cannot make virtual environments; run: sudo apt-get install {package}"
        ) from None
    print(f"making {VENV}", flush=True)
    run([sys.executable, "-m", "venv", "--clear", str(VENV)])


def run(command: Sequence[str | Path]) -> None:
    """Run a command of the set-up in the clone; raise BuildError when it fails."""
    words = [str(word) for word in command]
    if subprocess.run(words, cwd=ROOT).returncode != 0:
        raise BuildError(f"this failed, its output is above: {' '.join(words)}")


def pip(python: Path, *words: str | Path) -> None:
    """Run the environment's pip."""
    run([python, "-m", "pip", "--disable-pip-version-check", *words])


def stamps(config: Mapping[str, Any], groups: Sequence[str]) -> dict[str, str]:
    """What has to be in the environment: name of a part -> a key that changes with its contents."""
    wanted = {"llama": wheel_folder(llama_version(config)).name}
    parts: dict[str, Any] = {"project": [config["project"], config["build-system"]]}
    parts["project"] += [config["tool"]["hatch"], str(ROOT)]
    parts["project"].append(locked.digest(None))
    for group in groups:
        lock = locked.digest(group)
        parts[f"group {group}"] = [*config["dependency-groups"][group], lock]
    for name, part in parts.items():
        facts = json.dumps([part, wanted["llama"]], sort_keys=True)
        wanted[name] = hashlib.sha256(facts.encode()).hexdigest()
    return wanted


def prepare(groups: Sequence[str] = ()) -> Path:
    """Make the environment hold the project and these dependency groups; return its Python.

    A second call finds everything in place, in milliseconds and without a network.
    Raises BuildError with what the user can do.
    """
    python = venv_python()
    if not works(python):
        make_venv()
    config = project()
    wanted = stamps(config, groups)
    there = json.loads(STAMP.read_text(encoding="utf-8")) if STAMP.is_file() else {}
    missing = {name for name, key in wanted.items() if there.get(name) != key}
    if "llama" in missing:
        wheel = ensure_wheel(python, llama_version(config))
        pip(python, "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", wheel)
    asked = [group for group in groups if f"group {group}" in missing]
    if missing:
        print(" and ".join(["installing the project", *(f"its {it} tools" for it in asked)]))
        sys.stdout.flush()
        install(python, config, asked)
        write_stamp(there | wanted)
    return python


def install(python: Path, config: Mapping[str, Any], groups: Sequence[str]) -> None:
    """Install the project and these groups, as they are locked; without the locks it says why."""
    why_not = unlocked(config, groups)
    if why_not:
        print(f"the versions of packages are not the locked ones: {why_not}", flush=True)
        requirements = [line for group in groups for line in config["dependency-groups"][group]]
        pip(python, "install", "--quiet", "--editable", str(ROOT), *requirements)
        return
    quietly = ["install", "--quiet", "--no-deps"]
    for group in _locks_of(groups):
        pip(python, *quietly, "--require-hashes", "--requirement", locked.lock_file(group))
    # its build system is in the locks, too
    pip(python, *quietly, "--no-build-isolation", "--editable", str(ROOT))


def unlocked(config: Mapping[str, Any], groups: Sequence[str]) -> str:
    """Why the locks are not used; empty where they are."""
    if os.environ.get("GENIEX_NO_LOCK"):
        return "GENIEX_NO_LOCK is set"
    stale = [one or "project" for one in _locks_of(groups) if not locked.fits(config, one)]
    if stale:
        names = ", ".join(stale)
        return f"pyproject.toml has changed since, for {names}; `python3 ci/lock.py` locks anew"
    return ""


def _locks_of(groups: Sequence[str]) -> Sequence[str | None]:
    """A group's lock holds the project, too."""
    return groups or (None,)


def write_stamp(stamp: Mapping[str, str]) -> None:
    """Note what is in the environment, in one step."""
    draft = STAMP.with_suffix(".tmp")
    draft.write_text(json.dumps(stamp, indent=1), encoding="utf-8")
    draft.replace(STAMP)


def child_environment(**extra: str) -> dict[str, str]:
    """The environment for the project's own commands: UTF-8 whatever the console's code page."""
    return {**os.environ, "PYTHONUTF8": "1", **extra}
