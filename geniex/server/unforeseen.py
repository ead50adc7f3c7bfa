"""An error that nobody foresaw, as the log may tell it: where it happened, and not what it said.

The text of such an error may hold what a client sent: the word that could not be read, the key that
was missing. What the system says of files and memory holds nothing of the kind.
"""

_PLAIN = (OSError, MemoryError, RecursionError)
_WITHHELD = "(its text is withheld: it may be a client's)"
_MOST = 8  # causes of causes


def untold(error: BaseException, depth: int = _MOST) -> BaseException:
    """An error of the same name, with the same traceback and causes, without its text."""
    kind = type(error)
    if isinstance(error, _PLAIN) and error.__context__ is None and error.__cause__ is None:
        return error
    # by the same name, since that is what a log shows
    named: type[Exception] = type(kind.__name__, (Exception,), {"__module__": kind.__module__})
    told = named(str(error) if isinstance(error, _PLAIN) else _WITHHELD)
    told.__traceback__ = error.__traceback__
    if depth:
        if error.__cause__ is not None:
            told.__cause__ = untold(error.__cause__, depth - 1)
        elif error.__context__ is not None and not error.__suppress_context__:
            told.__context__ = untold(error.__context__, depth - 1)
    return told
