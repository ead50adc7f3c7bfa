"""Whether a bundle is whole, asked before it comes into the store, and whether it can run here."""

from pathlib import Path

from geniex_catalogue.errors import BundleError, GenieXError
from geniex_runtimes.errors import BundleTargetError
from geniex_runtimes.qairt.bundle import read_bundle
from geniex_runtimes.qairt.device import this_device
from geniex_runtimes.qairt.verification import check_whole, verify

_AGAIN = "nothing was stored; get the bundle anew from where it came from, or export it anew"


def admit(folder: Path, source: Path) -> str | None:
    """Why a bundle that is whole cannot run on this machine; None where it can.

    `source` is where its files come from, by which the user knows them: a folder or a zip. Raises
    BundleError for one that is incomplete, damaged, or no bundle of a text model. Shards are asked
    what they hold only where the runtime is installed, and in a process of their own.
    """
    try:
        bundle = read_bundle(folder)
        for shard in bundle.shards:
            check_whole(shard)
        try:
            verify(bundle, this_device())
        except BundleError:
            raise
        except (GenieXError, OSError) as exc:
            # the runtime is not installed, or does not work: that is not the bundle's fault
            return _in_words(exc)
    except BundleTargetError as exc:
        return f"`{_origin(exc, folder, source)}` {exc.reason}"
    except BundleError as exc:
        again = exc.hint is None or "import the bundle again" in exc.hint
        raise BundleError(
            _origin(exc, folder, source), exc.reason, hint=_AGAIN if again else exc.hint
        ) from exc
    return None


def _origin(error: BundleError, folder: Path, source: Path) -> Path:
    """The file at fault, by the name that the user knows."""
    if error.file.is_relative_to(folder):
        return source / error.file.relative_to(folder)
    return error.file


def _in_words(error: GenieXError | OSError) -> str:
    if isinstance(error, OSError):
        return str(error)
    return f"{error.message}; {error.hint}" if error.hint else error.message
