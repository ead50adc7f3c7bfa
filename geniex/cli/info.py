"""`geniex info`: the facts about one model."""

from typing import TYPE_CHECKING, Any

import typer

from geniex.cli.options import Json, ModelArgument, settings_of
from geniex.cli.output import Output, one_line, table
from geniex_catalogue.errors import BundleError, GGUFError
from geniex_catalogue.sizes import size_text
from geniex_runtimes.errors import NoRuntimeError

if TYPE_CHECKING:
    from geniex.config import Settings
    from geniex_catalogue.names import ModelRef
    from geniex_catalogue.resolver import ResolvedModel


def info(ctx: typer.Context, model: ModelArgument, as_json: Json = False) -> None:
    """Show a model's files, context, memory and draft.

    Of a model that is not here its hub is asked, and nothing is fetched but the first bytes.
    """
    settings = settings_of(ctx)
    from geniex.session import find_model
    from geniex_catalogue.resolver import PullNeeded

    output = Output()
    found = find_model(model, settings)
    if isinstance(found, PullNeeded):
        if found.aside:
            output.warn(found.aside)
        facts = _remote(found.ref, settings, output)
    else:
        files = [str(path) for path in found.files]
        facts = {**_facts(found, files), **_memory(found, settings)}
    if as_json:
        output.json(facts)
        return
    rows = [
        (name.replace("_", " "), text) for name, v in facts.items() if (text := _shown(name, v))
    ]
    output.data(table(rows))


def _remote(ref: "ModelRef", settings: "Settings", output: Output) -> dict[str, Any]:
    """The facts of a model that is not here."""
    from geniex.chipset import machine_of
    from geniex.cli.fetching import picker
    from geniex_catalogue.pull_plan import PullWish
    from geniex_catalogue.remote_model import look_up
    from geniex_catalogue.store import Store

    with output.asking(f"looking for {ref}...") as status:
        pick = picker(settings, output, status, ask=False)
        wish = PullWish(offline=settings.offline, machine=machine_of(settings), pick=pick)
        remote = look_up(ref, Store(settings.data_dir), wish)
    for note in remote.notes:
        output.note(one_line(note))
    facts = _facts(remote.chosen, list(remote.files))
    # what a bundle needs stands in its files
    memory = _memory(remote.chosen, settings) if remote.chosen.header is not None else {}
    return {
        **facts,
        "here": False,
        "hub": remote.hub,
        "revision": remote.revision,
        "precisions": [{"precision": c.label, "size": c.size} for c in remote.precisions],
        "drafts": list(remote.drafts),
        "projectors": list(remote.projectors),
        **memory,
    }


def _facts(resolved: "ResolvedModel", files: list[str]) -> dict[str, Any]:
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
        "files": files,
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
    facts["here"] = True
    return facts


def _memory(resolved: "ResolvedModel", settings: "Settings") -> dict[str, Any]:
    from geniex.session import plan_model
    from geniex_runtimes.bundle_plan import check_bundle
    from geniex_runtimes.llama_cpp import soundness

    try:
        _, plan = plan_model(resolved, settings)
        check_bundle(resolved)
        if resolved.format == "gguf":
            soundness.check(resolved.path, resolved.header)
    except (NoRuntimeError, BundleError, GGUFError) as exc:
        return {"runs_here": False, "reason": exc.message}
    return {
        "runs_here": True,
        "runtime": plan.runtime,
        "compute": plan.compute,
        "planned_context": plan.context_length,
        "kv_type": plan.kv_type,
        "memory_needed": plan.needed_memory,
        "memory_free": plan.available_memory,
    }


def _shown(name: str, value: Any) -> str | None:
    if value is None or value == []:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in ("size", "memory_needed", "memory_free"):
        return size_text(value)
    if name == "parameters":
        return f"{value / 1e6:.1f} million"
    if name == "precisions":
        sizes = ((row["precision"], row["size"]) for row in value)
        value = [
            f"{label} ({size_text(size) if size else 'size unknown'})" for label, size in sizes
        ]
    return one_line(", ".join(value)) if isinstance(value, list) else one_line(str(value))
