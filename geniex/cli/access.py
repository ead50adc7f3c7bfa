"""Who may call the server that `geniex serve` starts: its flags about names, pages and keys."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geniex_catalogue.errors import UsageError

if TYPE_CHECKING:
    from geniex.address import Address
    from geniex.api_keys import KeyRing

API_KEY, API_KEY_FILE = "GENIEX_APIKEY", "GENIEX_APIKEY_FILE"

ApiKey = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        help=f"What clients must send as their key; {API_KEY} hides it from others",
    ),
]
ApiKeyFile = Annotated[
    Path | None,
    typer.Option("--api-key-file", help="A file with a key on each line; SIGHUP has it read again"),
]
NoAuth = Annotated[
    bool,
    typer.Option("--no-auth", help="Ask for no key, whoever may reach the server"),
]
Origins = Annotated[
    str | None,
    typer.Option(
        "--origins",
        help="Web pages that may call, with commas; * is any, none is none [default: loopback]",
    ),
]
AllowedHosts = Annotated[
    str | None,
    typer.Option(
        "--allowed-hosts",
        metavar="NAME,...",
        help="Further names that clients call the server by; *.example.org, or * for any",
    ),
]
MaxConnections = Annotated[
    int | None,
    typer.Option(
        "--max-connections", min=1, help="Connections that clients may have [default: 512]"
    ),
]


@dataclass(frozen=True, slots=True)
class Access:
    """The keys that let clients in (None: all are let in), and what the operator is told of them,
    once the server listens.
    """

    keys: "KeyRing | None" = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_access(key: str | None, file: Path | None, address: "Address", *, no_auth: bool) -> Access:
    """By flags and variables. Beyond this machine there is always a key: without any given it is
    made, and told once. Raises UsageError.
    """
    if no_auth:
        if key is not None or file is not None:
            raise UsageError(
                "`--no-auth` and keys exclude each other", hint="leave one of them out"
            )
        warning = f"whoever reaches {address.host} may use the models"
        return Access(warnings=() if address.loopback else (warning,))
    if key is None:
        key = os.environ.get(API_KEY) or None
    if file is None and (text := os.environ.get(API_KEY_FILE)):
        file = Path(text)
    if key is None and file is None:
        return Access() if address.loopback else _made()
    from geniex.api_keys import KeyRing, exposure

    ring = KeyRing((key,) if key is not None else (), file)
    if file is None:
        return Access(ring)
    restart = f"Windows has no SIGHUP: `{file}` is read again by a restart alone"
    exposed = exposure(file)
    return Access(
        ring,
        notes=(restart,) if os.name == "nt" else (),
        warnings=(exposed,) if exposed is not None else (),
    )


def _made() -> Access:
    from geniex.api_keys import KeyRing, new_key

    key = new_key()
    return Access(
        KeyRing((key,)),
        notes=(
            f"API key, made for this run: {key}",
            "Clients send it as `Authorization: Bearer KEY`; `--api-key-file` keeps keys of yours",
        ),
    )
