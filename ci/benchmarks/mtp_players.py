"""Who plays in the speculation benchmark: our engine and llama.cpp's server, each in a process.

`python -m ci.benchmarks.mtp_players HOW THREADS N_MAX TARGET [DRAFT]` answers lines of
{"prompts", "count"}.
"""

import json
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from ci.benchmarks.child import Worker, answer_lines
from ci.benchmarks.mtp_models import Subject

CONTEXT = 1024
PLAIN, FIXED, ADAPTIVE, PEER = "plain", "fixed", "adaptive", "xllamacpp"
Prompt = str | Sequence[int]


@dataclass(frozen=True)
class Played:
    """A round's answers: counts in tokens, times in seconds, all summed but the `texts`.

    `tokens` are those after each answer's first, `seconds` the time since it. `cpu` is the whole
    process from request to end. `own` is the engine thread's CPU time outside native decodes.
    """

    tokens: int
    seconds: float
    cpu: float
    texts: tuple[str, ...]
    steps: int = 0
    proposed: int = 0
    accepted: int = 0
    own: float = 0.0
    state: str = ""

    @property
    def speed(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds

    @property
    def cpu_speed(self) -> float:
        """Tokens per second of the process's CPU time, which other programs hardly touch."""
        return self.tokens / self.cpu

    def __add__(self, other: "Played") -> "Played":
        """Both, the other's being the later answers."""
        mine, its = asdict(self), asdict(other)
        return Played(**{key: its[key] if key == "state" else mine[key] + its[key] for key in its})


class Side(Worker):
    """One side of a comparison, in a process of its own."""

    def __init__(self, how: str, subject: Subject, threads: int) -> None:
        words = [how, str(threads), str(subject.n_max), str(subject.target)]
        if subject.draft is not None:
            words.append(str(subject.draft))
        super().__init__(how, "ci.benchmarks.mtp_players", words)

    def play(self, prompt: Prompt, count: int) -> Played:
        """Answer a prompt greedily, with up to `count` tokens."""
        answer = self.ask({"prompts": [prompt], "count": count})
        return Played(**(answer | {"texts": tuple(answer["texts"])}))


@dataclass(frozen=True)
class Setup:
    """What the far end loads: CPU threads, the most draft tokens, the files."""

    threads: int
    n_max: int
    target: Path
    draft: Path | None


class Player(Protocol):
    """The far end of a side."""

    def play(self, prompts: Sequence[Prompt], count: int) -> Played:
        """As `Side.play`, nothing cached."""
        ...


class Stopwatch:
    """Splits the CPU time of the engine's thread into native decodes and all the rest.

    CPU and not wall: on a machine with other programs a wall clock also counts their turns. The
    decodes run on the engine's thread itself where there is one thread. Looking at the clock is
    counted as ours, about 0.3 us a look and two looks a decode.
    """

    def __init__(self, decode: Callable[..., Any]) -> None:
        self._decode = decode
        self._left = 0.0
        self.own = 0.0

    def __call__(self, *arguments: Any) -> Any:
        """Decode."""
        if self._left:
            self.own += time.thread_time() - self._left
        code = self._decode(*arguments)
        self._left = time.thread_time()
        return code

    def start(self) -> None:
        """Forget what was before: the next decode is the first."""
        self._left = self.own = 0.0


class Geniex:
    """Our own engine, through the contract of a runtime."""

    def __init__(self, how: str, setup: Setup) -> None:
        from geniex_catalogue.gguf import read_header
        from geniex_catalogue.resolver import ResolvedModel
        from geniex_runtimes.llama_cpp import library
        from geniex_runtimes.llama_cpp.runtime import LlamaCppRuntime
        from geniex_runtimes.options import LoadOptions, SpeculativeOptions

        def resolved(path: Path) -> ResolvedModel:
            size = path.stat().st_size
            return ResolvedModel(
                str(path), None, "gguf", path, (path,), None, size, read_header(path)
            )

        speculative, own_draft = SpeculativeOptions(), None
        if how != PLAIN:
            speculative = SpeculativeOptions(
                ("draft-mtp",), n_max=setup.n_max, adapt=how == ADAPTIVE, require=True
            )
            own_draft = resolved(setup.draft) if setup.draft is not None else None
        native = library.load()
        self._watch = Stopwatch(native.decode)
        native.decode = self._watch
        options = LoadOptions(
            threads=setup.threads, context_length=CONTEXT, speculative=speculative, draft=own_draft
        )
        self._model = LlamaCppRuntime().load(resolved(setup.target), options)

    def play(self, prompts: Sequence[Prompt], count: int) -> Played:
        """Through `generate`, with the profiles it gives."""
        from geniex_runtimes.contract import Done, GenerationRequest, Profile, PromptPiece
        from geniex_runtimes.options import SamplingOptions

        texts: list[str] = []
        profiles: list[Profile] = []
        own = 0.0
        before = time.process_time()
        for prompt in prompts:
            self._watch.start()
            request = GenerationRequest(
                prompt=[PromptPiece(prompt)] if isinstance(prompt, str) else prompt,
                sampling=SamplingOptions(temperature=0.0, repetition_penalty=1.0),
                max_tokens=count,
                reuse_prefix=False,
            )
            text = ""
            for event in self._model.generate(request):
                if isinstance(event, Done):
                    profiles.append(event.profile)
                else:
                    text += event.text
            texts.append(text)
            own += self._watch.own
        return Played(
            tokens=sum(one.generated_tokens - 1 for one in profiles),
            seconds=sum(one.decode_time for one in profiles),
            cpu=time.process_time() - before,
            texts=tuple(texts),
            steps=sum(one.draft_steps for one in profiles),
            proposed=sum(one.draft_proposed for one in profiles),
            accepted=sum(one.draft_accepted for one in profiles),
            own=own,
            state=profiles[-1].spec_state or "",
        )


class Xllamacpp:
    """llama.cpp's own C++ server loop with `draft-mtp`, as the xllamacpp wheel carries it."""

    def __init__(self, setup: Setup) -> None:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(setup.target)
        params.n_ctx = CONTEXT
        params.n_batch = params.n_ubatch = 512
        params.n_parallel = 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = setup.threads
        params.cache_ram_mib = 0
        params.verbosity = 0
        kinds = xllamacpp.common_speculative_type
        params.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_MTP]
        drafting = params.speculative.draft
        drafting.n_max = setup.n_max
        drafting.cpuparams.n_threads = drafting.cpuparams_batch.n_threads = setup.threads
        if setup.draft is not None:
            drafting.mparams.path = str(setup.draft)
        self._server = xllamacpp.Server(params)

    def play(self, prompts: Sequence[Prompt], count: int) -> Played:
        """Requests to its own /completion; the times are the server's, without HTTP."""
        before = time.process_time()
        answers = [self._complete(prompt, count) for prompt in prompts]
        cpu = time.process_time() - before
        timings = [answer["timings"] for answer in answers]
        return Played(
            tokens=sum(one["predicted_n"] - 1 for one in timings),
            seconds=sum(one["predicted_ms"] for one in timings) / 1000,
            cpu=cpu,
            texts=tuple(answer["content"] for answer in answers),
            proposed=sum(one.get("draft_n", 0) for one in timings),
            accepted=sum(one.get("draft_n_accepted", 0) for one in timings),
        )

    def _complete(self, prompt: Prompt, count: int) -> dict[str, Any]:
        body = {
            "prompt": prompt if isinstance(prompt, str) else list(prompt),
            "n_predict": count,
            "samplers": ["top_k"],
            "top_k": 1,
            "cache_prompt": False,
        }
        request = urllib.request.Request(
            self._server.listening_address + "/completion",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=600) as response:
            answer: dict[str, Any] = json.load(response)
        return answer


def main(words: Sequence[str]) -> None:
    """Load what the words name, and answer."""
    how, threads, n_max, target, *rest = words
    setup = Setup(int(threads), int(n_max), Path(target), Path(rest[0]) if rest else None)

    def start() -> Callable[[Any], object]:
        player: Player
        player = Xllamacpp(setup) if how == PEER else Geniex(how, setup)
        return lambda question: asdict(player.play(question["prompts"], question["count"]))

    answer_lines(start)


if __name__ == "__main__":
    main(sys.argv[1:])
