"""The worker's process, whose log lines arrive at the level and under the name they were logged."""

import logging
import re
from collections.abc import Callable

from geniex_runtimes.llama_cpp.isolated.messages import WIRE, Order, Report
from geniex_runtimes.workers.process import WorkerProcess

# marks a line that went through `logging`: level, name, text; other lines native code has printed
MARK = "\x02"
LEVEL, DIGEST = "--log=", "--messages="

_LOGGED = re.compile(rf"{MARK}(\d{{1,2}}) (geniex[\w.]*) (.*)")
_MODULE = "geniex_runtimes.llama_cpp.isolated.worker"
# what stands before ggml's last words: the path of a file on the machine that built it
_FOLDERS = re.compile(r"^\S*[/\\](?=[^/\\\s:]+:\d+: )")
_FRESH = 2.0  # seconds before the end in which a line may tell of it


class LlamaProcess(WorkerProcess):
    """One worker; what native code prints, such as a failed assertion, are its last words."""

    def __init__(self, deliver: Callable[[Report | None], None]) -> None:
        """Start it. Raises OSError."""
        level = logging.getLogger("geniex").getEffectiveLevel()
        super().__init__(_MODULE, WIRE, deliver, f"{LEVEL}{level}", f"{DIGEST}{WIRE.digest}")

    def order(self, order: Order) -> None:
        """Say something. Raises ProtocolError for what is too large."""
        self.send(order)

    def heed(self, line: str) -> str:
        """See WorkerProcess."""
        if logged := _LOGGED.fullmatch(line):
            level, name, text = int(logged[1]), logged[2], logged[3]
            logging.getLogger(name).log(level, "%s", text)
            return text if level >= logging.ERROR else ""
        logging.getLogger("geniex.llama_cpp").debug("worker %d: %s", self.pid, line)
        return _FOLDERS.sub("", line)

    def why(self) -> str:
        """What its last lines say of its end; empty where it ended without a word."""
        self.settle()
        return self.last_words(_FRESH)
