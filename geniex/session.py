"""From a name to answers: what the terminal and the server share.

`open_model` resolves, looks at the hardware, plans and loads; `OpenModel.answer` renders messages,
generates and splits reasoning from content.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Self

from geniex import limits
from geniex.answering import Answer, AnswerEnd, AnswerEvents, AnswerOptions, AnswerPart
from geniex.changing_models import changes_told
from geniex.chat.messages import Message
from geniex.chat.reasoning import Part
from geniex.chat.template import ChatTemplate
from geniex.chat.tools import ToolCallPart
from geniex.config import Settings
from geniex.grammar import Marks
from geniex.preparing import prepare, render, with_prompt_options
from geniex.speculation import PLAIN, REFUSED, FindDraft, Speculation, decide
from geniex.speculation_wish import NO_WISH, SpeculationWish
from geniex.tuned import has_draft, tuned
from geniex_catalogue.errors import ModelNotFoundError, PrecisionNotFoundError, UsageError
from geniex_catalogue.resolver import PullNeeded, ResolvedModel, Use, resolve
from geniex_catalogue.store import Store
from geniex_runtimes import dispatcher, registry
from geniex_runtimes.bundle_plan import compiled_facts
from geniex_runtimes.contract import (
    Done,
    Generation,
    GenerationRequest,
    HardwareProfile,
    LoadedModel,
    ProbeResult,
    PromptPiece,
    TextEvent,
)
from geniex_runtimes.errors import ContextLengthError, NoRuntimeError
from geniex_runtimes.options import LoadOptions
from geniex_runtimes.planning import (
    Plan,
    Wish,
)

__all__ = [
    "Answer",
    "AnswerEnd",
    "AnswerEvents",
    "AnswerOptions",
    "AnswerPart",
    "OpenModel",
    "Part",
    "ToolCallPart",
    "decide_speculation",
    "find_local_model",
    "find_model",
    "load_model",
    "look_at_hardware",
    "open_model",
    "plan_model",
    "plan_on",
    "wish_of",
]

log = logging.getLogger("geniex.session")

# weights that are an eighth of the memory are read, which takes seconds, where that pays later
_LITTLE = 8


def _unsplit(generation: Generation) -> Iterator[Part | Done]:
    at = 0
    for event in generation:
        if isinstance(event, TextEvent):
            yield Part("content", event.text, event.logprobs, at)
            at += len(event.text)
        else:
            yield event


class OpenModel:
    """A loaded model and how it came to be chosen. All methods may be called from any thread."""

    def __init__(
        self,
        resolved: ResolvedModel,
        hardware: HardwareProfile,
        plan: Plan,
        loaded: LoadedModel,
        speculation: Speculation,
    ) -> None:
        self.resolved = resolved
        self.hardware = hardware
        self.plan = plan
        self.loaded = loaded
        self.speculation = speculation
        self.template = ChatTemplate.of(loaded.info)
        self._marks = Marks(loaded)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know about the choice and the load."""
        told = (*self.plan.notes, *self.speculation.warnings, *self.loaded.info.warnings)
        return tuple(dict.fromkeys(told))

    def answer(self, messages: Sequence[Message], options: AnswerOptions) -> AnswerEvents:
        """Start to answer. Closing the events cancels.

        Raises TemplateError, ContextLengthError and UsageError (SchemaError among them) at once;
        iterating raises GenerationError.
        """
        _check(options)
        prepared = prepare(self.template, self._marks, messages, options)
        flow = prepared.flow()
        asked = with_prompt_options(prepared)
        request = _request(prepared.rendered.pieces, asked)
        generation = self._generate(replace(request, counted=flow.may_stop))
        parts = flow.parts(generation)
        return AnswerEvents(
            generation,
            parts,
            prepared.notes,
            lambda: self._count("".join(flow.thoughts)),
            self._why_plain(),
        )

    def _generate(self, request: GenerationRequest) -> Generation:
        try:
            return self.loaded.generate(request)
        except ContextLengthError as exc:
            if self.resolved.format == "qairt":
                exc.fixed = True
                exc.hint = "shorten the prompt: the context of a bundle is fixed"
            raise

    def _why_plain(self) -> str:
        """Why nothing is drafted though that was asked for; empty where that is not so."""
        if self.loaded.info.speculation:
            return ""
        return next((text for text in self.warnings if text.startswith(REFUSED)), "")

    def _count(self, text: str) -> int:
        """How many tokens a text has on its own."""
        if not text:
            return 0
        pieces = [PromptPiece(text, literal=True)]
        return len(self.loaded.tokenize(pieces)) - len(self.loaded.tokenize([]))

    def answer_tokens(self, tokens: Sequence[int], options: AnswerOptions) -> AnswerEvents:
        """Go on from token ids as they are: no template, nothing taken for reasoning."""
        return self.complete(tokens, options)

    def complete(
        self, prompt: str | Sequence[int], options: AnswerOptions, *, literal: bool = False
    ) -> AnswerEvents:
        """Go on from a text or token ids: no template, nothing taken for reasoning or calls.

        Special tokens in a text count as such unless it is `literal`.
        """
        _check(options)
        pieces = [PromptPiece(prompt, literal)] if isinstance(prompt, str) else prompt
        generation = self._generate(_request(pieces, options))
        return AnswerEvents(generation, _unsplit(generation), plain=self._why_plain())

    def prompt_tokens(self, messages: Sequence[Message], options: AnswerOptions) -> list[int]:
        """The token ids of the prompt that `answer` would evaluate.

        Raises TemplateError and UsageError.
        """
        rendered, _ = render(self.template, messages, options)
        return self.loaded.tokenize(rendered.pieces)

    def close(self) -> None:
        """Free the model; a running answer ends. May be called twice."""
        self.template.close()
        self.loaded.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _request(
    prompt: Sequence[PromptPiece] | Sequence[int], options: AnswerOptions
) -> GenerationRequest:
    return GenerationRequest(
        prompt=prompt,
        sampling=options.sampling,
        max_tokens=options.max_tokens,
        stop=options.stop,
        logprobs=options.logprobs,
        reuse_prefix=options.reuse_prefix,
        speculative=options.speculative,
    )


def _check(options: AnswerOptions) -> None:
    """Raise UsageError for options that cannot be met, whoever gave them."""
    for name in limits.LIMITS:
        given = options if name == "max_tokens" else options.sampling
        limits.check(name, getattr(given, name))
    if not all(isinstance(text, str) for text in options.stop):
        raise UsageError("`stop` takes a text, or several")
    grammar = options.sampling.grammar
    if grammar is not None and not isinstance(grammar, str):
        raise UsageError("`grammar` takes a text in GBNF")


def find_model(
    name: str, settings: Settings, use: Use = "model", *, paths: bool = True
) -> ResolvedModel | PullNeeded:
    """The files of a model, or what would have to be pulled; without `paths`, never a path's.

    Raises the catalogue's errors.
    """
    return resolve(name, Store(settings.data_dir), use, paths=paths)


def find_local_model(name: str, settings: Settings, *, paths: bool = True) -> ResolvedModel:
    """The files of a model that is here. Raises ModelNotFoundError or PrecisionNotFoundError."""
    return _here(name, find_model(name, settings, paths=paths))


def _here(name: str, found: ResolvedModel | PullNeeded) -> ResolvedModel:
    if isinstance(found, ResolvedModel):
        return found
    if found.cached_precisions:
        raise PrecisionNotFoundError(
            found.ref.name, found.ref.selector or "", found.cached_precisions
        )
    aside = f"; {found.aside}" if found.aside else ""
    raise ModelNotFoundError(name, hint=f"run `geniex pull {found.ref}` first{aside}")


def wish_of(settings: Settings) -> Wish:
    """What the user asked for, as the dispatcher takes it."""
    return Wish(
        runtime=settings.runtime,
        compute=settings.compute,
        context_length=settings.nctx,
        gpu_layers=settings.ngl,
        require=settings.require,
        kv_type=settings.kv_type,
        flash_attention=settings.flash_attn,
    )


def look_at_hardware(settings: Settings) -> HardwareProfile:
    """The machine, with the chipset that the user has set in the place of the one probed."""
    from geniex_runtimes import hardware
    from geniex_runtimes.hardware.chipset import named

    machine = hardware.probe(settings.data_dir)
    if settings.chipset is None:
        return machine
    known = named(settings.chipset)
    return replace(
        machine,
        chipset=known.name,
        htp_arch=machine.htp_arch if known.htp_arch is None else known.htp_arch,
        probes=(*machine.probes, ProbeResult("chipset", f"{settings.chipset}, as it was set")),
    )


def plan_model(resolved: ResolvedModel, settings: Settings) -> tuple[HardwareProfile, Plan]:
    """Look at the machine and choose. Raises NoRuntimeError with every reason, and BundleError."""
    machine = look_at_hardware(settings)
    return machine, plan_on(machine, resolved, wish_of(settings))


def plan_on(machine: HardwareProfile, resolved: ResolvedModel, wish: Wish) -> Plan:
    """Choose for a machine; see `dispatcher.plan`. Raises BundleError for a faulty bundle too."""
    with changes_told(resolved):
        compiled = compiled_facts(resolved)
    return dispatcher.plan(resolved, machine, registry.availability(), wish, compiled)


def decide_speculation(
    wish: SpeculationWish, resolved: ResolvedModel, plan: Plan, settings: Settings, find: FindDraft
) -> Speculation:
    """How a model that is to run by `plan` speculates; see `geniex.speculation.decide`."""
    return decide(wish, resolved, plan.runtime, Store(settings.data_dir), find)


def load_model(
    resolved: ResolvedModel,
    settings: Settings,
    *,
    planned: tuple[HardwareProfile, Plan] | None = None,
    speculation: Speculation = PLAIN,
    slots: int = 1,
    embedding: bool = False,
    keep_heads: bool = False,
    progress: Callable[[float], bool] | None = None,
) -> OpenModel:
    """Load a model as `planned`, else as planned now; see LoadOptions for the rest.

    `progress` gets 0.0 to 1.0, from any thread; its False gives the load up. Raises NoRuntimeError,
    RuntimeNotInstalledError, LoadError, GGUFError, ModelNotFoundError where another process has
    removed it meanwhile, or SpeculativeError where speculation was required and cannot be.
    """
    machine, plan = planned or plan_model(resolved, settings)
    if speculation.draft is not None:
        plan = dispatcher.with_draft(plan, resolved, speculation.draft, wish_of(settings))
    threads, note = _threads(settings.threads, machine, plan)
    if plan.runtime == "qairt":
        asked = ("--mlock",) * settings.mlock + ("--no-mmap",) * (settings.mmap is False)
        note += tuple(f"`{flag}` is ignored: the NPU has a bundle's weights" for flag in asked)
    plan = replace(plan, notes=(*plan.notes, *note))
    options = LoadOptions(
        compute=plan.compute,
        devices=plan.devices,
        context_length=plan.context_length,
        gpu_layers=plan.gpu_layers,
        threads=threads,
        slots=slots,
        extra_buffers=machine.extra_buffers,
        speculative=speculation.options,
        draft=speculation.draft,
        data_dir=settings.data_dir,
        embedding=embedding,
        keep_heads=keep_heads,
        qairt_engine=settings.qairt_engine,
        sliding_window=settings.sliding_window,
        prefix_cache=settings.prefix_cache,
        isolate=settings.isolate,
        kv_type=plan.kv_type or "f16",
        flash_attention=settings.flash_attn,
        mlock=settings.mlock,
        mmap=_mapped(settings, resolved, machine),
        trust=settings.trust,
    )
    with changes_told(resolved, speculation.draft):
        loaded = registry.get(plan.runtime).load(resolved, options, progress=progress)
    _check_required(loaded, settings)
    return OpenModel(resolved, machine, plan, loaded, speculation)


def _mapped(settings: Settings, model: ResolvedModel, machine: HardwareProfile) -> bool | None:
    """Whether to map weights; it may be left open for those that take little of the memory."""
    small = model.size * _LITTLE <= machine.memory_total
    return True if settings.mmap is None and not small else settings.mmap


def _check_required(loaded: LoadedModel, settings: Settings) -> None:
    """Close a model that is not where it was required to be, and raise NoRuntimeError."""
    info = loaded.info
    if settings.require is not None and info.compute != settings.require:
        loaded.close()
        raise NoRuntimeError(
            info.name,
            [f"{info.runtime} loaded it on the {info.compute}, not on the {settings.require}"],
        )


def _threads(
    asked: int | None, machine: HardwareProfile, plan: Plan
) -> tuple[int | None, tuple[str, ...]]:
    """The threads to use, and a note where as many as were asked for cannot run, or do nothing."""
    most = machine.logical_cores
    if asked is not None and plan.runtime == "qairt":
        return None, (f"`--threads {asked}` is ignored: a bundle computes on the NPU",)
    if asked is None or not 0 < most < asked:
        return asked, ()
    return most, (f"`--threads {asked}` is more than this machine runs at once, using {most}",)


def open_model(
    name: str, settings: Settings, *, slots: int = 1, wish: SpeculationWish = NO_WISH
) -> OpenModel:
    """Open a model that is here, by name or path; nothing is pulled. Raises what its steps raise.

    The best settings of the model are used. A draft that is named and not here is a
    ModelNotFoundError.
    """

    def find(name: str, *, offered: bool) -> ResolvedModel | None:
        found = find_model(name, settings, "draft")
        if offered and isinstance(found, PullNeeded):
            return None
        return _here(name, found)

    resolved = find_local_model(name, settings)
    made = tuned(resolved, settings, wish, has_draft(settings))
    if made.note:
        log.info("%s: %s", resolved.name, made.note)
    settings, wish = made.settings, made.wish
    planned = plan_model(resolved, settings)
    speculation = decide_speculation(wish, resolved, planned[1], settings, find)
    return load_model(resolved, settings, planned=planned, speculation=speculation, slots=slots)
