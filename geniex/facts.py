"""What a chat has to know of the model it talks to, here or on a server."""

from dataclasses import dataclass, field

from geniex.session import OpenModel
from geniex_runtimes.options import SpeculativeOptions


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model in use; `context_length` is tokens.

    `types` are the kinds of speculation that are set up, `speculative` what answers do unless told
    otherwise, with drafts of at most `longest_draft` tokens. `adapts`: whether an answer can say
    if the draft's length follows what pays off. `draft` is the draft's name.
    """

    name: str
    runtime: str
    compute: str
    devices: tuple[str, ...]
    context_length: int
    types: tuple[str, ...] = ()
    speculative: SpeculativeOptions = field(default_factory=SpeculativeOptions)
    longest_draft: int = 1
    adapts: bool = True
    draft: str | None = None


def facts_of(model: OpenModel) -> ModelFacts:
    """The facts of a model in this process."""
    info, speculation = model.loaded.info, model.speculation
    return ModelFacts(
        name=model.resolved.name,
        runtime=info.runtime,
        compute=info.compute,
        devices=info.devices,
        context_length=info.context_length,
        types=info.speculation,
        speculative=speculation.options,
        longest_draft=speculation.options.n_max,
        draft=speculation.draft.name if speculation.draft is not None else None,
    )
