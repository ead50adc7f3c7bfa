"""One damaged model through `info`, `infer` and the server, and whether they took it well."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ci.damage.cases import Case
from ci.damage.doors import QUESTION, Commands, CrashError, Result, Server, stored

_EXIT_CODES = (0, 1, 2, 3, 5)
# what the errors say where each check has caught it
_MARKS = {"not a usable GGUF": "header", "another process": "child", "could not load": "llama.cpp"}

How: TypeAlias = Literal["works", "header", "checks", "llama.cpp", "child", "fault"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a model was taken: who caught it, and what was wrong about that, if anything."""

    case: Case
    how: How
    text: str
    faults: tuple[str, ...]


def try_case(
    case: Case, data_dir: Path, commands: Commands | None, server: Server | None
) -> Verdict:
    """Put it into the store, try it, remove it."""
    name = f"damaged/case-{case.number}"
    path = stored(data_dir, name, case.files)
    faults: list[str] = []
    infer: Result | None = None
    chat: Result | None = None
    try:
        if commands is not None:
            info = commands.run("info", str(path))
            infer = commands.run("infer", str(path), "-p", QUESTION, "--max-tokens", "8")
            faults += [f"info: {f}" for f in _of_command(info)]
            faults += [f"infer: {f}" for f in _of_command(infer)]
            listed = commands.run("list")
            if listed.code or name not in listed.out:
                faults.append(f"list: exit code {listed.code}: {listed.err[:200]}")
        if server is not None:
            chat = server.chat(name)
            faults += [f"serve: {f}" for f in _of_request(chat)]
            # it lists what can be used, and comes in any case
            if (listed := server.models()).code != 200:
                faults.append(f"models: status {listed.code}: {listed.out[:200]}")
            if case.base.startswith("bert"):
                faults += [f"vectors: {f}" for f in _of_request(server.vectors(name))]
    except CrashError as crash:
        faults.append(str(crash))
    finally:
        shutil.rmtree(path.parent)
    if infer is not None and chat is not None and (infer.code == 0) != (chat.code == 200):
        faults.append(f"infer: {_first(infer.err)} and serve: {chat.out[:200]}")
    text = _text(infer, chat)
    return Verdict(case, "fault" if faults else _how(infer, chat, text), text, tuple(faults))


def _of_command(result: Result) -> list[str]:
    """What is wrong about a command's end."""
    errors = [line for line in result.err.splitlines() if line.startswith("Error: ")]
    found = []
    if result.code not in _EXIT_CODES:
        found.append(f"exit code {result.code}")
    if (result.code == 0) == bool(errors) or len(errors) > 1:
        found.append(f"exit code {result.code} and {len(errors)} errors")
    if "Traceback" in result.err or any("Error: unexpected" in line for line in errors):
        found.append(result.err[-500:])
    if not _printable(result.err):
        found.append(f"what a terminal takes for commands: {result.err[:300]!r}")
    return found


def _of_request(result: Result) -> list[str]:
    """What is wrong about a response."""
    if result.code == 200:
        return []
    try:
        error = json.loads(result.out)["error"]
    except (ValueError, LookupError):
        return [f"status {result.code} with {result.out[:200]!r}"]
    if error["code"] == "internal_error" or not error["message"]:
        return [f"status {result.code}: {error['message']}"]
    return [] if _printable(error["message"]) else [f"not printable: {error['message']!r}"]


def _printable(text: str) -> bool:
    return all(character.isprintable() or character in "\n\r\t" for character in text)


def _text(infer: Result | None, chat: Result | None) -> str:
    if infer is not None:
        return "" if infer.code == 0 else _first(infer.err)
    return "" if chat is None or chat.code == 200 else chat.out


def _first(err: str) -> str:
    return next((line for line in err.splitlines() if line.startswith("Error: ")), "")


def _how(infer: Result | None, chat: Result | None, text: str) -> How:
    if not text:
        return "works"
    found = next((how for mark, how in _MARKS.items() if mark in text), "checks")
    return found  # type: ignore[return-value]


def report(verdicts: list[Verdict], say: Callable[[str], None]) -> None:
    """A line for each way it was caught, and for each fault."""
    for how in ("works", "header", "checks", "llama.cpp", "child", "fault"):
        say(f"{how:10} {sum(v.how == how for v in verdicts)}")
    for verdict in verdicts:
        for fault in verdict.faults:
            say(f"FAULT {verdict.case.title}: {fault}")
