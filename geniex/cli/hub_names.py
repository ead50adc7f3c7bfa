"""`--model-hub`: where a model comes from, whatever its name says."""

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from geniex_catalogue.errors import UsageError

if TYPE_CHECKING:
    from geniex_catalogue.names import ModelRef


class HubName(StrEnum):
    """Where a model comes from, with the short names."""

    HUGGINGFACE = "huggingface"
    HF = "hf"
    AIHUB = "aihub"
    DOCKER = "docker"
    DOCKERHUB = "dockerhub"
    LOCALFS = "localfs"
    LOCAL = "local"

    @property
    def is_local(self) -> bool:
        """Whether it is this machine."""
        return self in (HubName.LOCALFS, HubName.LOCAL)


def ref_at(model: str, precision: str | None, hub: HubName | None) -> "ModelRef":
    """The model that a name means at a hub. Raises ModelRefError, ModelNotFoundError for a name
    that is none, UsageError for one that belongs to another hub."""
    from geniex.model_manager import full_ref
    from geniex_catalogue.addresses import DOCKER, read_docker
    from geniex_catalogue.names import AI_HUB_ORG

    text = model.strip()
    if hub in (HubName.DOCKER, HubName.DOCKERHUB) and read_docker(text) is None:
        text = f"{DOCKER}{text}"
    if hub is HubName.AIHUB and "/" not in text:
        text = f"{AI_HUB_ORG}/{text}"
    ref = full_ref(text, precision)
    if hub is HubName.AIHUB and (ref.org != AI_HUB_ORG or ref.hub is not None):
        raise UsageError(
            f"`{model}` is no model of the AI Hub",
            hint="a name there looks like `ai-hub-models/Qwen3-4B`; `geniex hub list` shows them",
        )
    if hub in (HubName.HUGGINGFACE, HubName.HF):
        if ref.hub is not None:
            raise UsageError(f"`{model}` is a name on Docker Hub", hint="leave out `--model-hub`")
        return replace(ref, hub="huggingface")
    return ref
