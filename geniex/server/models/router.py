"""`/v1/models`, `/v1/ps`: which models are here, what is in memory, loading by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from geniex.server.blame import blaming
from geniex.server.models import listing
from geniex.server.models.protocol import (
    LoadedObject,
    LoadRequest,
    Model,
    ModelList,
    ResidentList,
    ResidentObject,
    UnloadedObject,
)
from geniex.server.pump import Job, collect, leased
from geniex.server.security.json_body import StrictRoute
from geniex.session import OpenModel
from geniex_catalogue.errors import GenieXError

if TYPE_CHECKING:
    from geniex.server.residents import Resident
    from geniex.server.state import ServerState


def router(state: ServerState) -> APIRouter:
    """The routes about models. What is slow runs on threads."""
    routes = APIRouter(tags=["models"], route_class=StrictRoute)
    settings, options = state.settings, state.options

    @routes.get("/models", include_in_schema=False, response_model_exclude_none=True)
    @routes.get("/v1/models", operation_id="listModels", response_model_exclude_none=True)
    def list_models() -> ModelList:
        """Every model that is here and can answer, each precision on its own."""
        return ModelList(data=[_model(found) for found in listing.listed(settings, options)])

    # before the route of one model, whose path takes these too
    @routes.post("/v1/models/{model:path}/load", operation_id="loadModel")
    async def load_model(
        model: str, request: Request, body: LoadRequest | None = None
    ) -> LoadedObject:
        """Load a model now, so that the first request finds it in memory."""
        asked = (body or LoadRequest.model_validate({})).model_copy(update={"model": model})
        found = await run_in_threadpool(listing.find, model, settings, options)
        purpose = await run_in_threadpool(listing.purpose_of, found.id, settings, options)
        wish = asked.wish(state, purpose)
        work = blaming(asked, leased(state.pool, wish, asked.stays(), _facts))
        [loaded] = await collect(work, request)
        return loaded.model_copy(update={"id": found.id})

    @routes.post("/v1/models/{model:path}/unload", operation_id="unloadModel")
    def unload_model(model: str) -> UnloadedObject:
        """Give up a model's memory; answers that run end first."""
        name = _in_memory(model, state)
        return UnloadedObject(id=name, unloaded=state.pool.unload(name))

    @routes.get("/models/{model:path}", include_in_schema=False, response_model_exclude_none=True)
    @routes.get(
        "/v1/models/{model:path}", operation_id="retrieveModel", response_model_exclude_none=True
    )
    def retrieve_model(model: str) -> Model:
        """One model, by any spelling of its name; `/` and `:` as they are or percent-encoded."""
        return _model(listing.find(model, settings, options))

    @routes.get("/v1/ps", operation_id="listLoadedModels")
    def list_loaded() -> ResidentList:
        """What is in memory, or on its way there."""
        return ResidentList(data=[_resident(found) for found in state.pool.residents()])

    return routes


def _model(found: listing.Listed) -> Model:
    return Model(id=found.id, created=found.created, owned_by=found.owner, device=found.device)


def _resident(found: Resident) -> ResidentObject:
    return ResidentObject.model_validate(found, from_attributes=True)


def _facts(job: Job, model: OpenModel) -> Iterator[LoadedObject]:
    info = model.loaded.info
    yield LoadedObject(
        id=model.resolved.name,
        runtime=info.runtime,
        compute=info.compute,
        devices=list(info.devices),
        context_length=info.context_length,
        kv_type=model.plan.kv_type,
        slots=info.slots,
        speculation=list(info.speculation),
        warnings=list(model.warnings),
    )


def _in_memory(name: str, state: ServerState) -> str:
    """The canonical name; a model whose files are gone may still be in memory."""
    try:
        return listing.find(name, state.settings, state.options).id
    except GenieXError:
        if any(resident.id == name for resident in state.pool.residents()):
            return name
        raise
