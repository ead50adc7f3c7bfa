"""One pull in a process of its own: `python -m ci.benchmarks.puller DATA_DIR NAME`.

Prints a line of JSON: the seconds from the first question to the hub until the model is published,
checked and on the disk, and the most memory that the process ever held, in bytes.
"""

import importlib
import json
import resource
import sys
import time
from pathlib import Path

from geniex_catalogue.names import parse
from geniex_catalogue.pull import pull
from geniex_catalogue.store import Store


def main(words: list[str]) -> None:
    """Pull, and tell what it took."""
    # what is imported on use is imported now: curl has been started when its time begins
    importlib.import_module("httpx2")
    importlib.import_module("huggingface_hub.hf_api")
    store = Store(Path(words[0]))
    begin = time.perf_counter()
    model = pull(parse(words[1]), store)
    seconds = time.perf_counter() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "memory": memory, "size": model.size}))


if __name__ == "__main__":
    main(sys.argv[1:])
