"""Opening a model as it was settled."""

from collections.abc import Callable
from typing import Protocol

from geniex.config import Settings
from geniex.server.planning import Case
from geniex.session import OpenModel
from geniex.speculation import Speculation
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.contract import (
    HardwareProfile,
)
from geniex_runtimes.planning import (
    Plan,
)


class Opener(Protocol):
    """Loads a model; see `geniex.session.load_model`."""

    def __call__(
        self,
        resolved: ResolvedModel,
        settings: Settings,
        *,
        planned: tuple[HardwareProfile, Plan] | None,
        speculation: Speculation,
        slots: int,
        embedding: bool,
        keep_heads: bool,
        progress: Callable[[float], bool] | None,
    ) -> OpenModel:
        """The loaded model. Raises GenieXError."""
        ...


def open_case(opener: Opener, case: Case, progress: Callable[[float], bool]) -> OpenModel:
    """The model of a case. `progress` gives it up by False. Raises GenieXError."""
    return opener(
        case.reading.resolved,
        case.reading.settings,
        planned=(case.machine, case.plan),
        speculation=case.speculation,
        slots=case.slots,
        embedding=case.reading.purpose == "embedding",
        # a later request may speculate with them, on the same weights
        keep_heads=True,
        progress=progress,
    )
