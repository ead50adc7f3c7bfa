"""Who keeps on disk what a loaded model has evaluated, as its load was told."""

import logging

from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.llama_cpp import kind_of_load
from geniex_runtimes.llama_cpp.context import Context
from geniex_runtimes.llama_cpp.keeping import Keeping
from geniex_runtimes.llama_cpp.kept_prefixes import KeptPrefixes
from geniex_runtimes.llama_cpp.kept_session import KeptSession
from geniex_runtimes.llama_cpp.library import Library
from geniex_runtimes.llama_cpp.seating import Keeper
from geniex_runtimes.llama_cpp.weights import Weights
from geniex_runtimes.options import LoadOptions

log = logging.getLogger("geniex.llama_cpp.kept")


def open_keeper(
    library: Library, weights: Weights, context: Context, model: ResolvedModel, options: LoadOptions
) -> tuple[Keeper | None, str]:
    """The keeper for an empty context that has no engine yet, and why a session begins anew."""
    cache = options.prefix_cache
    if cache is None:
        return None, ""
    try:
        facts = kind_of_load.facts(model, weights, options, context.options)
    except OSError as exc:
        log.warning("nothing is kept on disk: %s", exc)
        return None, str(exc)
    if cache.file is not None:
        session = KeptSession(library, context, cache.file, facts, weights.sliding_window)
        return session, session.failure
    if cache.folder is None:
        return None, ""
    folder = KeptPrefixes(cache.folder, cache.size, facts)
    return Keeping(library, context, folder, weights.sliding_window), ""
