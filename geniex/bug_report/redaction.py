"""Taking out of a text what must not leave this machine: secrets, and who the user is."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from geniex_catalogue.regular import read_regular

_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL|COOKIE|HEADERS|SIGNATURE", re.IGNORECASE
)
# names of users that say nothing of a person, and would be found in many words
_COMMON_USERS = frozenset(
    {"root", "user", "admin", "administrator", "ubuntu", "debian", "runner", "builder", "geniex"}
)
_LEAST_SECRET = 4  # characters; a shorter one would be found in many words
_MOST_FILE = 1 << 16  # bytes of a file with keys
_PATTERNS = tuple(
    (re.compile(pattern, re.IGNORECASE), put)
    for pattern, put in (
        # who logs in, in an address; a password may hold the sign behind it
        (r"([a-z][a-z0-9+.-]*://)[^\s/\"'`]+@", r"\1<REDACTED>@"),
        # fields of an address, a header, a command line
        (
            r"((?:api[-_]?key|access[-_]?token|token|key|secret|password|passwd|sig|signature)"
            r"[\"']?\s*[=:]\s*[\"']?)(?!<REDACTED)[^\s&\"'`,;)}\]]+",
            r"\1<REDACTED>",
        ),
        (r"((?:--api-key|--token)\s+)[^\s]+", r"\1<REDACTED>"),
        (r"\b(bearer|basic)\s+[\w.~+/=-]{4,}", r"\1 <REDACTED>"),
        # what keys of well-known services look like
        (r"\b(?:hf|sk|pk|rk|gh[pousr]|glpat|xox[abprs]|npm|pypi)[_-][\w-]{12,}", "<REDACTED>"),
        (r"\bgithub_pat_\w{20,}", "<REDACTED>"),
        (r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}\b", "<REDACTED>"),
        (r"\beyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*", "<REDACTED>"),
        (r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}\b", "<EMAIL>"),
        # the folder of any user, also where it is not this one's
        (r"((?:/home/|/Users/|[a-z]:[\\/]+Users[\\/]+))[^\s/\\\"'`:]+", r"\1<USER>"),
    )
)


class Redactor:
    """Takes out what it was told of, and what looks like a secret.

    `secrets` are texts with the words to put in their place; the longest are looked for first.
    """

    def __init__(self, secrets: Iterable[tuple[str, str]]) -> None:
        known = {text: word for text, word in secrets if len(text) >= _LEAST_SECRET}
        self._known = sorted(known.items(), key=lambda pair: -len(pair[0]))
        self._users: list[re.Pattern[str]] = []

    def hide_user(self, name: str) -> None:
        """Take out a user's name, where it is a word."""
        if len(name) > 1 and name.lower() not in _COMMON_USERS:
            word = re.escape(name)
            pattern = rf"(?<![^\W_]){word}(?![^\W_])"
            self._users.append(re.compile(pattern, re.IGNORECASE))

    def text(self, text: str) -> str:
        """The text without them."""
        for secret, word in self._known:
            text = text.replace(secret, word)
        for pattern, put in _PATTERNS:
            text = pattern.sub(put, text)
        for user in self._users:
            text = user.sub("<USER>", text)
        return text

    def variable(self, name: str, value: str) -> str:
        """The value of a variable; nothing of it where its name says that it is a secret."""
        if _SECRET_NAME.search(name) and not _names_a_file(name, value):
            return "<REDACTED>" if value else "(empty)"
        return self.text(value)


def _names_a_file(name: str, value: str) -> bool:
    """Whether a variable with the name of a secret holds the place of one."""
    return name.endswith(("_FILE", "_PATH")) and os.sep in value


def redactor_of(environ: Mapping[str, str]) -> Redactor:
    """A redactor that knows this machine's secrets, its name, and its user's name and folder."""
    made = Redactor([*_secrets(environ), *_homes(environ), *_host()])
    for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER"):
        if value := environ.get(name):
            made.hide_user(value)
    home = _home(environ)
    if home is not None and home.name:
        made.hide_user(home.name)
    return made


def _secrets(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    files = [environ.get("GENIEX_APIKEY_FILE"), environ.get("HF_TOKEN_PATH")]
    home = _home(environ)
    cache = environ.get("HF_HOME") or (home / ".cache" / "huggingface" if home else None)
    files.append(str(Path(cache) / "token") if cache else None)
    for name, value in environ.items():
        if _SECRET_NAME.search(name) and not _names_a_file(name, value):
            for word in (value, *re.split(r"[\s,;=]+", value)):
                # words such as `true`, and numbers, are no secrets
                if len(word) >= 8 or (word == value and not word.isalnum()):
                    yield word, "<REDACTED>"
    for file in filter(None, files):
        try:
            text = read_regular(Path(file), _MOST_FILE).decode("utf-8", "replace")
        except OSError:
            continue  # most people have none
        for line in text.split():
            yield line, "<REDACTED>"


def _homes(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    home = _home(environ)
    if home is None or len(home.parts) < 2:
        return
    for path in {home, home.resolve()}:
        text = str(path)
        yield text, "~"
        yield text.replace("\\", "\\\\"), "~"
        yield path.as_posix(), "~"


def _home(environ: Mapping[str, str]) -> Path | None:
    named = environ.get("USERPROFILE") if os.name == "nt" else environ.get("HOME")
    try:
        return Path(named) if named else Path.home()
    except RuntimeError:
        return None


def _host() -> Iterator[tuple[str, str]]:
    import socket

    name = socket.gethostname()
    if name and name.lower() != "localhost":
        yield name, "<HOST>"
        if "." in name:
            yield name.partition(".")[0], "<HOST>"
