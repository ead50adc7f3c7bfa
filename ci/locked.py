"""The locks as they lie here: what each is for, and whether it still is.

Only the standard library is used: the set-up reads them before anything else is there.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "locks"
# what an editable install is built with, beside [build-system]
_EDITABLE = "editables"
_HEAD = "# made by `python3 ci/lock.py` for: "


def lock_file(group: str | None) -> Path:
    """The lock of the project with a dependency group; None is the project alone."""
    return FOLDER / f"{group or 'project'}.lock"


def asked(config: Mapping[str, Any], group: str | None) -> list[str]:
    """The requirements that a lock has to satisfy."""
    built_with = [*config["build-system"].get("requires", ()), _EDITABLE]
    found = [*config["project"]["dependencies"], *built_with]
    return found + (config["dependency-groups"][group] if group is not None else [])


def head(config: Mapping[str, Any], group: str | None) -> str:
    """The first line of the lock that fits these requirements."""
    facts = json.dumps([config["project"].get("requires-python"), asked(config, group)])
    return f"{_HEAD}{hashlib.sha256(facts.encode()).hexdigest()}"


def fits(config: Mapping[str, Any], group: str | None) -> bool:
    """Whether the lock was made for what pyproject.toml says now."""
    try:
        with lock_file(group).open(encoding="utf-8") as file:
            return file.readline().rstrip("\n") == head(config, group)
    except FileNotFoundError:
        return False


def digest(group: str | None) -> str:
    """A text that changes with the lock."""
    try:
        return hashlib.sha256(lock_file(group).read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""
