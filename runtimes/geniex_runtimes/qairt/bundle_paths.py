"""Files that a bundle's JSON files name: inside its folder, there, and not empty."""

import stat
from collections.abc import Sequence
from pathlib import Path, PureWindowsPath

from geniex_catalogue.errors import BundleError, ModelRefError
from geniex_catalogue.names import check_file_name

DAMAGED = "pull or import the bundle again; if that changes nothing, export it anew"
_AGAIN = "pull or import the bundle again: files of it did not arrive"


def inside(folder: Path, section_file: Path, key: str, name: str) -> Path:
    """The file that `key` of `section_file` names. Raises BundleError."""
    shown, name = f"{name[:200]!a}", name.removeprefix("./")
    try:
        if PureWindowsPath(name).drive:
            raise ValueError
        check_file_name(name)
        path = folder.joinpath(*name.split("/"))
        real, root = path.resolve(), folder.resolve()
        if not real.is_relative_to(root):
            raise BundleError(
                section_file,
                f"`{key}` names {shown}, a link that leads out of the folder",
                hint="import it with `geniex pull local/NAME --local-path FOLDER`, which copies",
            )
        facts = real.stat()
    except (ModelRefError, ValueError, RuntimeError) as exc:
        # RuntimeError: links that lead around in a circle
        raise BundleError(
            section_file, f"`{key}` names {shown}, which is no file name inside the folder"
        ) from exc
    except FileNotFoundError as exc:
        raise BundleError(
            section_file, f"`{key}` names {shown}, which is missing", hint=_AGAIN
        ) from exc
    except OSError as exc:
        raise BundleError(
            section_file, f"`{key}` names {shown}, which cannot be read: {exc.strerror or exc}"
        ) from exc
    if not stat.S_ISREG(facts.st_mode):
        raise BundleError(section_file, f"`{key}` names {shown}, which is no regular file")
    if facts.st_size == 0:
        raise BundleError(section_file, f"`{key}` names {shown}, which is empty", hint=_AGAIN)
    return path


def unloadable(shards: Sequence[Path], by: str) -> BundleError:
    """The error for context binaries that look whole, and that `by` could not load."""
    first, *others = shards
    also = "".join(f"or `{one.name}` " for one in others)
    return BundleError(first, f"{also}cannot be loaded by {by}: it may be damaged", hint=DAMAGED)
