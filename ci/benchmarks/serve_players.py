"""The servers that `serve` compares, each in a process of its own, and the cost of a batch's rows.

`python -m ci.benchmarks.serve_players peer|peer-whole|rows ...` is the far end.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ci.benchmarks.child import Worker, answer_lines
from ci.geniex_server import running

MODULE = "ci.benchmarks.serve_players"


@dataclass(frozen=True)
class Setting:
    """What both sides get: slots, CPU threads, and tokens of context for each slot."""

    model: Path
    slots: int
    threads: int
    context: int


@dataclass(frozen=True)
class Served:
    """A server that listens: its address, and the fields that its requests need."""

    name: str
    url: str
    fields: Mapping[str, object] = field(default_factory=dict)


@contextmanager
def ours(setting: Setting) -> Iterator[Served]:
    """`geniex serve` with the model by its path."""
    words = [str(setting.model), "--parallel", str(setting.slots), "--keepalive", "-1"]
    words += ["--threads", str(setting.threads), "--nctx", str(setting.context)]
    with running(*words) as server:
        yield Served("geniex", server.url, {"model": str(setting.model)})


@contextmanager
def peer(setting: Setting) -> Iterator[Served]:
    """llama.cpp's own server, as the xllamacpp wheel carries it."""
    with Worker("xllamacpp", MODULE, ["peer", *_words(setting)]) as worker:
        yield Served("xllamacpp", worker.ask({})["url"])


class RowCosts:
    """What decodes cost on this machine at this moment. A context manager."""

    def __init__(self, setting: Setting) -> None:
        self._worker = Worker("rows", MODULE, ["rows", *_words(setting)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._worker.__exit__(*exc)

    def measure(self, rounds: int) -> tuple[float, float]:
        """Median seconds of a decode of one row, and of one row for every slot."""
        one, all_slots = self._worker.ask({"rounds": rounds})
        return one, all_slots


def _words(setting: Setting) -> list[str]:
    numbers = (setting.slots, setting.threads, setting.context)
    return [str(setting.model), *map(str, numbers)]


def _peer(setting: Setting, *, whole: bool) -> Callable[[Any], object]:
    """`whole`: layers with a sliding window keep their whole context, as ours do."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(setting.model)
    params.n_parallel = setting.slots
    params.n_ctx = setting.slots * setting.context
    # as ours: a slot's tokens lie apart from its neighbours'
    params.kv_unified = False
    params.swa_full = whole
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = setting.threads
    params.cache_ram_mib = 0
    params.verbosity = 0
    server = xllamacpp.Server(params)
    return lambda question: {"url": server.listening_address}


class Rows:
    """Decodes of one row and of a row for each slot, by the library that we call."""

    FIRST = 16  # tokens in each slot before the first measurement

    def __init__(self, setting: Setting) -> None:
        import llama_cpp

        self._api: Any = llama_cpp
        api = self._api
        api.llama_backend_init()
        self._model = api.llama_model_load_from_file(
            str(setting.model).encode(), api.llama_model_default_params()
        )
        params = api.llama_context_default_params()
        params.n_ctx = setting.context * setting.slots
        params.n_batch = params.n_ubatch = 512
        params.n_seq_max = setting.slots
        params.n_threads = params.n_threads_batch = setting.threads
        params.kv_unified = False
        params.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_ENABLED
        self._context = api.llama_init_from_model(self._model, params)
        self._batch = api.llama_batch_init(512, 0, 1)
        self._slots = setting.slots
        self._position = 0
        self._most = setting.context - self.FIRST - 1

    def measure(self, rounds: int) -> tuple[float, float]:
        """Median seconds of both, in turn, at the same length; one round warms up."""
        self._api.llama_memory_clear(self._api.llama_get_memory(self._context), False)
        self._position = 0
        for _ in range(self.FIRST):
            self._decode(range(self._slots))
        times: dict[int, list[float]] = {1: [], self._slots: []}
        for number in range(-1, min(rounds, self._most)):
            begin = time.perf_counter()
            self._decode(range(1), forward=False)
            middle = time.perf_counter()
            self._decode(range(self._slots))
            if number >= 0:
                times[1].append(middle - begin)
                times[self._slots].append(time.perf_counter() - middle)
        return statistics.median(times[1]), statistics.median(times[self._slots])

    def _decode(self, sequences: Sequence[int], *, forward: bool = True) -> None:
        """One token for each sequence, all with logits; without `forward` it is taken back."""
        batch = self._batch
        batch.n_tokens = len(sequences)
        for row, sequence in enumerate(sequences):
            batch.token[row] = 100 + self._position % 50
            batch.pos[row] = self._position
            batch.n_seq_id[row] = 1
            batch.seq_id[row][0] = sequence
            batch.logits[row] = 1
        if self._api.llama_decode(self._context, batch) != 0:
            raise RuntimeError("llama.cpp could not decode")
        self._api.llama_synchronize(self._context)
        if forward:
            self._position += 1
            return
        memory = self._api.llama_get_memory(self._context)
        for sequence in sequences:
            self._api.llama_memory_seq_rm(memory, sequence, self._position, -1)


def main(words: Sequence[str]) -> None:
    """Start what the words name, and answer."""
    what, model, slots, threads, context = words
    setting = Setting(Path(model), int(slots), int(threads), int(context))

    def start() -> Callable[[Any], object]:
        if what in ("peer", "peer-whole"):
            return _peer(setting, whole=what == "peer-whole")
        rows = Rows(setting)
        return lambda question: rows.measure(question["rounds"])

    answer_lines(start)


if __name__ == "__main__":
    main(sys.argv[1:])
