"""Where the server is, for the commands that are its clients."""

import os
from typing import Annotated

import typer

from geniex.address import Address, parse_address
from geniex.client.server import Server
from geniex.config import Settings

API_KEY = "GENIEX_APIKEY"

Host = Annotated[
    str | None,
    typer.Option(
        "--host", help="Where the server is, host or host:port [default: 127.0.0.1:18181]"
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option("--api-key", help=f"The key that the server asks for; {API_KEY} hides it"),
]


def connect(settings: Settings, api_key: str | None) -> Server:
    """The server that flags, variables and the settings file name; nothing is sent yet."""
    address = parse_address(settings.host) if settings.host else Address()
    return Server(address, api_key if api_key is not None else os.environ.get(API_KEY))
