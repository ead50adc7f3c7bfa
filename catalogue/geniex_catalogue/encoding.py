"""What file names can hold here: a locale that is not UTF-8 cannot name every file."""

import sys


def locale_hint() -> str | None:
    """What to do where file names are not UTF-8 here; None where they are."""
    encoding = sys.getfilesystemencoding()
    if encoding.lower().replace("_", "-") == "utf-8":
        return None
    return f"file names are {encoding} in this locale: set LC_ALL=C.UTF-8, or PYTHONUTF8=1"
