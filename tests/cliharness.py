"""What a command line gave, and how the tests run one."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """Exit code and streams of a command line."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout as one JSON value."""
        return json.loads(self.out)


Cli = Callable[..., Result]
