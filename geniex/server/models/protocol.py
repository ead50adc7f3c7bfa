"""The objects of the routes about models."""

from typing import Literal

from pydantic import BaseModel, Field

from geniex.server.fields import SpeculatingFields


class Model(BaseModel):
    """A model, as OpenAI describes one; `created` is seconds since the epoch.

    A compiled bundle has a `device`, the one that it runs on here: the NPU, or a simulator.
    """

    id: str = Field(description="Works verbatim wherever a model is named.")
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    device: str | None = None


class ModelList(BaseModel):
    """Every model that is here and can answer."""

    object: Literal["list"] = "list"
    data: list[Model]


class LoadRequest(SpeculatingFields):
    """How to load; what is left out is as the server was started. `model` is in the address."""


class LoadedObject(BaseModel):
    """A model in memory and what it was loaded as; warnings say what was not met."""

    id: str
    object: Literal["model.loaded"] = "model.loaded"
    runtime: str
    compute: str
    devices: list[str]
    context_length: int = Field(description="Tokens of each slot.")
    kv_type: str | None = Field(description="What the KV cache is kept in; null: it was compiled.")
    slots: int
    speculation: list[str] = Field(description="The types that are set up.")
    warnings: list[str]


class UnloadedObject(BaseModel):
    """How many sets of contexts were given up; running answers end first."""

    id: str
    object: Literal["model.unloaded"] = "model.unloaded"
    unloaded: int


class ResidentObject(BaseModel):
    """A model in memory: bytes are estimates, times are seconds."""

    id: str
    object: Literal["model.resident"] = "model.resident"
    runtime: str
    compute: str
    devices: list[str]
    context_length: int
    kv_type: str | None
    slots: int
    busy: int = Field(description="Requests that are answered now.")
    waiting: int = Field(description="Requests that wait for a slot.")
    bytes: int
    shared_bytes: int = Field(description="Weights: they count once for all contexts of the model.")
    idle_for: float | None = Field(description="null: it is busy.")
    expires_in: float | None = Field(description="null: it stays, or is busy.")
    pinned: bool
    speculation: list[str]
    purpose: str
    loading: bool
    worker_pid: int | None = Field(description="The process that has it; null: the server's own.")
    crashed: bool = Field(description="That process has died; the next request starts another.")


class ResidentList(BaseModel):
    """What is in memory, or on its way there."""

    object: Literal["list"] = "list"
    data: list[ResidentObject]
