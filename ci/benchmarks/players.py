"""Who plays: our engine and its peers, behind one small door.

A player decodes greedily from token ids. Each runs in a process of its own, since the peers bring
their own copy of llama.cpp: see `python -m ci.benchmarks.child`.
"""

import json
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Setting:
    """What both sides of a comparison get: context in tokens, and CPU threads."""

    model: Path
    threads: int
    context: int


@dataclass(frozen=True)
class Answer:
    """The tokens of an answer, without the end-of-generation token, and tokens per second.

    The speed counts the tokens after the first one, over the time since the first one.
    """

    tokens: tuple[int, ...]
    speed: float


class Player(Protocol):
    """An engine that tokenises, and decodes greedily with nothing cached."""

    def tokenize(self, text: str) -> list[int]:
        """Token ids with one BOS where the model wants one."""
        ...

    def play(self, prompt: Sequence[int], count: int, *, with_tokens: bool) -> Answer:
        """Up to `count` tokens; without `with_tokens` at full speed, their ids left out."""
        ...


def loaded(path: Path, *, threads: int, context: int, **options: Any) -> Any:
    """Our runtime's model of a file; `options` are further ones of LoadOptions."""
    from geniex_catalogue.gguf import read_header
    from geniex_catalogue.resolver import ResolvedModel
    from geniex_runtimes.llama_cpp.runtime import LlamaCppRuntime
    from geniex_runtimes.options import LoadOptions

    resolved = ResolvedModel(
        name=str(path),
        ref=None,
        format="gguf",
        path=path,
        files=(path,),
        precision=None,
        size=path.stat().st_size,
        header=read_header(path),
    )
    settings = LoadOptions(threads=threads, context_length=context, **options)
    return LlamaCppRuntime().load(resolved, settings)


class Geniex:
    """Our own engine, through the contract of a runtime."""

    def __init__(self, setting: Setting) -> None:
        self._model = loaded(setting.model, threads=setting.threads, context=setting.context)

    def tokenize(self, text: str) -> list[int]:
        """As `generate` would tokenise it; special tokens in the text count."""
        from geniex_runtimes.contract import PromptPiece

        tokens: list[int] = self._model.tokenize([PromptPiece(text)])
        return tokens

    def play(self, prompt: Sequence[int], count: int, *, with_tokens: bool) -> Answer:
        """Through `generate`; the ids of the tokens come with their logprobs."""
        from geniex_runtimes.contract import Done, GenerationRequest
        from geniex_runtimes.options import SamplingOptions

        request = GenerationRequest(
            prompt=prompt,
            sampling=SamplingOptions(temperature=0.0, repetition_penalty=1.0),
            max_tokens=count,
            logprobs=0 if with_tokens else None,
            reuse_prefix=False,
        )
        tokens: list[int] = []
        speed = 0.0
        for event in self._model.generate(request):
            if isinstance(event, Done):
                speed = event.profile.decode_speed
            else:
                tokens += [entry.token for entry in event.logprobs]
        return Answer(tuple(tokens), speed)


class LlamaCppPython:
    """The `Llama` class of llama-cpp-python: the same native library under another loop."""

    def __init__(self, setting: Setting) -> None:
        import llama_cpp

        self._api = llama_cpp
        # flash attention and batch sizes as ours: otherwise sums are rounded in another order
        self._llama = llama_cpp.Llama(
            model_path=str(setting.model),
            n_ctx=setting.context,
            n_threads=setting.threads,
            n_threads_batch=setting.threads,
            n_batch=512,
            flash_attn=True,
            verbose=False,
        )
        self._vocab = llama_cpp.llama_model_get_vocab(self._llama.model)

    def tokenize(self, text: str) -> list[int]:
        """With BOS where the model wants one, special tokens recognised."""
        return list(self._llama.tokenize(text.encode(), add_bos=True, special=True))

    def play(self, prompt: Sequence[int], count: int, *, with_tokens: bool) -> Answer:
        """Through `Llama.generate`, the loop under all its other methods."""
        self._llama.reset()
        tokens: list[int] = []
        first = last = 0.0
        for token in self._llama.generate(list(prompt), temp=0.0, repeat_penalty=1.0):
            last = time.perf_counter()
            first = first or last
            if self._api.llama_vocab_is_eog(self._vocab, token):
                break
            tokens.append(int(token))
            if len(tokens) == count:
                break
        return Answer(tuple(tokens), (len(tokens) - 1) / (last - first) if last > first else 0.0)


class Xllamacpp:
    """llama.cpp's own C++ server loop, as the xllamacpp wheel carries it."""

    def __init__(self, setting: Setting) -> None:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(setting.model)
        params.n_ctx = setting.context
        params.n_batch = params.n_ubatch = 512
        params.n_parallel = 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = setting.threads
        params.cache_ram_mib = 0
        params.verbosity = 0
        self._server = xllamacpp.Server(params)

    def _post(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        request = urllib.request.Request(
            self._server.listening_address + path,
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=600) as response:
            answer: dict[str, Any] = json.load(response)
        return answer

    def tokenize(self, text: str) -> list[int]:
        """With BOS where the model wants one, special tokens recognised."""
        body = {"content": text, "add_special": True, "parse_special": True}
        return list(self._post("/tokenize", body)["tokens"])

    def play(self, prompt: Sequence[int], count: int, *, with_tokens: bool) -> Answer:
        """One request to its own /completion; the times are the server's, without HTTP."""
        body = {
            "prompt": list(prompt),
            "n_predict": count,
            "samplers": ["top_k"],
            "top_k": 1,
            "cache_prompt": False,
            "return_tokens": True,
        }
        answer = self._post("/completion", body)
        timings = answer["timings"]
        tokens = tuple(answer["tokens"])
        if answer.get("stop_type") == "eos":
            tokens = tokens[:-1]
        seconds = timings["predicted_ms"] / 1000
        return Answer(tokens, (timings["predicted_n"] - 1) / seconds if seconds else 0.0)


PLAYERS: dict[str, Callable[[Setting], Player]] = {
    "geniex": Geniex,
    "llama-cpp-python": LlamaCppPython,
    "xllamacpp": Xllamacpp,
}
