"""`geniex info`: the facts about one model."""

from typing import TYPE_CHECKING, Any

import typer

from geniex.cli.options import Json, ModelArgument, settings_of
from geniex.cli.output import Output, table
from geniex_catalogue.errors import NoRuntimeError
from geniex_catalogue.sizes import size_text

if TYPE_CHECKING:
    from geniex.config import Settings
    from geniex_catalogue.resolver import ResolvedModel


def info(ctx: typer.Context, model: ModelArgument, as_json: Json = False) -> None:
    """Show a model's files, context, memory and draft."""
    settings = settings_of(ctx)
    from geniex.session import find_local_model

    resolved = find_local_model(model, settings)
    facts = _facts(resolved, settings)
    output = Output()
    if as_json:
        output.json(facts)
        return
    rows = [
        (name.replace("_", " "), text) for name, v in facts.items() if (text := _shown(name, v))
    ]
    output.data(table(rows))


def _facts(resolved: "ResolvedModel", settings: "Settings") -> dict[str, Any]:
    from geniex_catalogue.entries import catalogue

    header = resolved.header
    entry = catalogue().entry(resolved.ref) if resolved.ref else None
    draft = catalogue().draft_for(resolved.ref) if resolved.ref else None
    facts: dict[str, Any] = {
        "name": resolved.name,
        "description": entry.description if entry else None,
        "license": entry.license if entry else None,
        "format": resolved.format,
        "precision": resolved.precision,
        "size": resolved.size,
        "files": [str(path) for path in resolved.files],
    }
    if header is not None:
        facts |= {
            "role": header.role,
            "architecture": header.architecture,
            "parameters": header.parameter_count,
            "layers": header.block_count,
            "context_length": header.context_length,
            "chat_template": header.chat_template is not None,
            "built_in_heads": header.has_heads,
        }
    facts["draft"] = str(draft) if draft else None
    return {**facts, **_memory(resolved, settings)}


def _memory(resolved: "ResolvedModel", settings: "Settings") -> dict[str, Any]:
    from geniex.session import plan_model

    try:
        _, plan = plan_model(resolved, settings)
    except NoRuntimeError as exc:
        return {"runs_here": False, "reason": exc.message}
    return {
        "runs_here": True,
        "runtime": plan.runtime,
        "compute": plan.compute,
        "planned_context": plan.context_length,
        "memory_needed": plan.needed_memory,
        "memory_free": plan.available_memory,
    }


def _shown(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in ("size", "memory_needed", "memory_free"):
        return size_text(value)
    if name == "parameters":
        return f"{value / 1e6:.1f} million"
    return ", ".join(value) if isinstance(value, list) else str(value)
