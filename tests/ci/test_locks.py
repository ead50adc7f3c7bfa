"""The locks: they fit pyproject.toml, on every platform, and each file has its hash."""

import re
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ci import locked
from ci.environment import llama_version, project
from ci.lock import COMPILED

GROUPS = [None, "dev", "bench"]
PLACES: dict[str, dict[str, str]] = {
    "linux x64": {"sys_platform": "linux", "os_name": "posix", "platform_machine": "x86_64"},
    "linux arm64": {"sys_platform": "linux", "os_name": "posix", "platform_machine": "aarch64"},
    "windows arm64": {"sys_platform": "win32", "os_name": "nt", "platform_machine": "ARM64"},
    "windows x64": {"sys_platform": "win32", "os_name": "nt", "platform_machine": "AMD64"},
}
PYTHONS = ("3.11.7", "3.12.4", "3.13.1", "3.14.0")


def entries(group: str | None) -> list[tuple[Requirement, list[str]]]:
    """What a lock holds: each requirement with its hashes."""
    text = locked.lock_file(group).read_text(encoding="utf-8").replace("\\\n", " ")
    found = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            requirement, *hashes = re.split(r"\s+--hash=", line.strip())
            found.append((Requirement(requirement), hashes))
    return found


def pins(group: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The versions that are installed in an environment."""
    found: dict[str, str] = {}
    for requirement, _ in entries(group):
        if requirement.marker is None or requirement.marker.evaluate(dict(environment)):
            name = canonicalize_name(requirement.name)
            assert name not in found, f"{name} twice"
            (specifier,) = requirement.specifier
            assert specifier.operator == "=="
            found[name] = specifier.version
    return found


def environment_of(place: str, python: str) -> dict[str, str]:
    return {
        **PLACES[place],
        "python_full_version": python,
        "python_version": python.rpartition(".")[0],
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }


@pytest.mark.parametrize("group", GROUPS)
def test_each_is_for_what_pyproject_says_now(group: str | None) -> None:
    assert locked.fits(project(), group), "run `python3 ci/lock.py`"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("group", GROUPS)
def test_every_requirement_is_satisfied_everywhere(group: str | None, place: str) -> None:
    config = project()
    for python in PYTHONS:
        environment = environment_of(place, python)
        found = pins(group, environment)
        for text in locked.asked(config, group):
            wanted = Requirement(text)
            if wanted.marker is not None and not wanted.marker.evaluate(environment):
                continue
            name = canonicalize_name(wanted.name)
            if name != COMPILED:
                assert wanted.specifier.contains(found[name], prereleases=True), (text, python)


@pytest.mark.parametrize("group", GROUPS)
def test_every_file_has_its_hash(group: str | None) -> None:
    for requirement, hashes in entries(group):
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes)


def test_what_is_compiled_here_is_in_none() -> None:
    assert llama_version(project())
    assert not any(r.name == COMPILED for group in GROUPS for r, _ in entries(group))


def test_all_have_the_same_versions() -> None:
    environment = environment_of("linux x64", PYTHONS[0])
    dev = pins("dev", environment)
    for group in (None, "bench"):
        for name, version in pins(group, environment).items():
            assert dev.get(name, version) == version


def test_what_a_package_needs_is_locked_too() -> None:
    """As the packages that are installed here say."""
    from packaging.markers import default_environment

    environment: dict[str, Any] = {**default_environment(), "extra": ""}
    found = pins("dev", environment)
    for name, version in found.items():
        try:
            here = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # an environment that was made without the lock
        if here.version != version:
            continue
        for text in here.requires or ():
            wanted = Requirement(text)
            if wanted.marker is not None and not wanted.marker.evaluate(environment):
                continue
            there = found.get(canonicalize_name(wanted.name))
            assert there is not None, f"{name} needs {text}"
            assert wanted.specifier.contains(there, prereleases=True), f"{name} needs {text}"


def test_no_index_is_named() -> None:
    for group in GROUPS:
        assert "://" not in locked.lock_file(group).read_text(encoding="utf-8")
