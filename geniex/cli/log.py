"""Where log lines go: stderr from the level asked for, nowhere by default."""

import logging

_LEVELS = {
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}
_OURS = ("geniex", "geniex_runtimes", "geniex_catalogue", "uvicorn")
_NATIVE = "geniex.llama_cpp"  # llama.cpp itself says hundreds of things at debug


def set_up(level: str, *, native: bool = True) -> None:
    """Show our own log lines from `level` up; `trace` shows those of every library too.

    Without `native`, what llama.cpp warns of is left out, and only its errors are shown.
    """
    root = logging.getLogger()
    for logger in (root, *map(logging.getLogger, _OURS)):
        for handler in [h for h in logger.handlers if isinstance(h, _StderrHandler)]:
            logger.removeHandler(handler)
    # without a handler of its own, Python would print warnings by itself
    shown_at = _StderrHandler() if level != "none" else logging.NullHandler()
    shown_at.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    quiet = logging.INFO if level == "debug" else logging.NOTSET
    logging.getLogger(_NATIVE).setLevel(quiet if native else logging.ERROR)
    shown = (root,) if level == "trace" else tuple(map(logging.getLogger, _OURS))
    for logger in shown:
        logger.addHandler(shown_at)
        logger.setLevel(_LEVELS.get(level, logging.CRITICAL))


class _StderrHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Our handler, told apart from those of others."""
