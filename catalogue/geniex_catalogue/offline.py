"""Whether the network may be used: `--offline`, GENIEX_OFFLINE, HF_HUB_OFFLINE."""

import os

from geniex_catalogue.errors import HubOfflineError

VARIABLES = ("GENIEX_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_YES = frozenset({"1", "ON", "YES", "TRUE"})


def is_yes(text: str) -> bool:
    """Whether a variable's text switches something on."""
    return text.strip().upper() in _YES


def forbidden_by(flag: bool = False) -> str | None:
    """What forbids the network: the name of a variable, or the flag; None where it is allowed."""
    variable = next((name for name in VARIABLES if is_yes(os.environ.get(name, ""))), None)
    return variable or ("--offline" if flag else None)


def require_network(
    what: str, flag: bool = False, *, instead: str = ", or name a model that `geniex list` shows"
) -> None:
    """Raise HubOfflineError where the network is forbidden; `what` says why it is needed.

    `instead` ends the hint: what can be done without a network.
    """
    reason = forbidden_by(flag)
    if reason is not None:
        undo = "leave out `--offline`" if reason == "--offline" else f"unset {reason}"
        raise HubOfflineError(
            f"{what}, and offline mode ({reason}) forbids fetching it",
            hint=f"{undo}{instead}",
        )
