"""The console command, and `python -m geniex`."""

import os
import signal
import sys
import threading
from types import FrameType

_INTERRUPTED = 130


def main() -> None:
    """Run the command line. Raises SystemExit.

    The imports take a tenth of a second: a Ctrl-C meanwhile ends the process in silence.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _leave)
        from geniex import hangup

        if hangup.is_for_keys(sys.argv[1:], os.environ):
            hangup.hold()
    from geniex.cli.app import main as run

    run()


def _leave(number: int, frame: FrameType | None) -> None:
    # not by an exception: it would come up in the middle of an import, with a traceback
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
