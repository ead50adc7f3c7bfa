"""The locks: every package of an environment at one version, with the hashes of its files.

`python3 ci/lock.py` makes `ci/locks/*.lock` anew after a change of pyproject.toml; `--upgrade`
takes the newest of everything, too. `ci/environment.py` installs exactly these. They hold for every
platform and Python from 3.11 on, with markers. llama-cpp-python is left out: its wheel is compiled
for each machine (`ci/llama_wheel.py`), and its version is pinned by pyproject.toml.
"""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ci import environment
from ci.llama_wheel import BuildError
from ci.locked import FOLDER, asked, head, lock_file
from ci.tools import tool

COMPILED = "llama-cpp-python"
UV = "uv==0.13.9"


def make(group: str | None, *, upgrade: bool = False) -> None:
    """Make a lock anew; what it has stays at its version where that is possible."""
    config = environment.project()
    target = lock_file(group)
    command = [tool(UV, "uv"), "pip", "compile", "--quiet", "--universal", "--generate-hashes"]
    command += ["--python-version", "3.11", "--no-annotate", "--no-header"]
    command += ["--no-emit-package", COMPILED, "--output-file", target, "-"]
    if upgrade:
        command.append("--upgrade")
    if group != "dev" and lock_file("dev").is_file():
        # one version of each package, whatever is installed beside what
        command += ["--constraint", lock_file("dev")]
    words = [str(word) for word in command]
    given = "\n".join(asked(config, group))
    if subprocess.run(words, input=given, text=True, cwd=environment.ROOT).returncode != 0:
        raise BuildError(f"no versions fit together for {target.name}; uv's output is above")
    text = target.read_text(encoding="utf-8")
    target.write_text(f"{head(config, group)}\n{text}", encoding="utf-8", newline="\n")


def main() -> int:
    """Make all locks; the answer is the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--upgrade", action="store_true", help="take the newest of everything")
    upgrade = parser.parse_args().upgrade
    FOLDER.mkdir(exist_ok=True)
    try:
        for group in ("dev", None, "bench"):
            make(group, upgrade=upgrade)
            print(f"{lock_file(group).name} is made", flush=True)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
