"""Measures cases in turns, so that what disturbs the machine disturbs all of them alike.

First each case is loaded alone, for its load time and memory. Then the cases of a group are loaded
side by side, and every round asks each of them the same, forwards and backwards by turns.
"""

import gc
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from geniex.bench.asking import Asker, Runner, Sample
from geniex.bench.footprint import resident
from geniex.bench.plan import Case, Shape, groups
from geniex.bench.result import BenchResult, CaseResult, Row
from geniex.session import OpenModel, load_model
from geniex_catalogue.errors import GenieXError

_LOADS = 3
_SETTINGS = ("kv_type", "flash_attn", "mmap", "ngl", "qairt_engine")
_ENDED = "the model ends its answers early: its end tokens were held back"
_SHORT = "some answers ended early: their speed is of fewer tokens"
_FRESH = "earlier tokens of a prompt were not kept: `--depth` is part of what is prefilled"


class Bench:
    """Runs cases and fills `result`, which holds what is there also after an interruption.

    `run` runs native calls, `tell` is told what is going on, `warn` what the user should know.
    `errors` are of the cases that could not be loaded or stopped midway; the others go on.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        result: BenchResult,
        *,
        run: Runner,
        tell: Callable[[str], None] = lambda text: None,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._groups = groups(cases)
        self._result = result
        self._run = run
        self._tell = tell
        self._warn = warn
        self.errors: list[GenieXError] = []
        self._found = {id(case): _blank(case) for case in cases}
        models: set[str] = set()
        for case in cases:
            found = self._found[id(case)]
            found.first = case.model.name not in models
            models.add(case.model.name)
        if len(self._groups) > 1 and len(cases) > 1:
            self._note(
                "not all settings are measured side by side: ratios between models may drift"
            )

    def measure(self) -> None:
        """Measure everything that can be measured."""
        for group in self._groups:
            usable = self._load_alone(group)
            try:
                self._ask(usable)
            except GenieXError as exc:
                self._fail(", ".join(case.name for case in usable), exc)
        self._result.complete = not self.errors

    def _fail(self, name: str, error: GenieXError) -> None:
        self.errors.append(error)
        self._result.notes.append(f"{name}: {error.message}")

    def _note(self, text: str) -> None:
        if text not in self._result.notes:
            self._result.notes.append(text)
            self._warn(text)

    # -- loading

    def _open(self, case: Case) -> OpenModel:
        given_up = False

        def progress(share: float) -> bool:
            return not given_up

        def give_up() -> None:
            nonlocal given_up
            given_up = True

        return self._run(
            lambda: load_model(
                case.model,
                case.settings,
                planned=(case.machine, case.plan),
                speculation=case.speculation,
                slots=case.fitted.most,
                progress=progress,
            ),
            give_up,
        )

    def _load_alone(self, group: Sequence[Case]) -> list[Case]:
        """Time the loads; the answer is the cases that are what they are called."""
        usable = list(group)
        times = min(_LOADS, self._result.repeat)
        for turn in range(times):
            for case in list(usable):
                self._tell(f"loading {case.name} ({turn + 1} of {times})")
                try:
                    as_called = self._load_once(case)
                except GenieXError as exc:
                    as_called = False
                    self._fail(case.name, exc)
                if not as_called:
                    usable.remove(case)
        return usable

    def _load_once(self, case: Case) -> bool:
        found = self._found[id(case)]
        gc.collect()
        before, begun = resident(), time.monotonic()
        with self._open(case) as model:
            took = time.monotonic() - begun
            if not self._is_as_called(case, model):
                return False
            if found not in self._result.cases:
                self._result.cases.append(found)
                _describe(found, model)
            # memory counts once it is touched
            Asker(model.loaded, self._run).sample(case.fitted.shapes[0], 2, seed=0)
            found.load_time.append(took)
            found.memory.append(float(max(0, resident() - before)))
        return True

    def _is_as_called(self, case: Case, model: OpenModel) -> bool:
        """Whether a case that is to speculate does; what became plain would be a lie in a table."""
        if case.speculation.options.types and not model.loaded.info.speculation:
            why = next(iter(model.loaded.info.warnings), "it was not set up")
            self._note(f"`{case.name}` is left out: {why}")
            return False
        for text in model.warnings:
            if text not in self._found[id(case)].warnings:
                self._found[id(case)].warnings.append(text)
                self._warn(f"{case.name}: {text}")
        return True

    # -- asking

    def _ask(self, group: Sequence[Case]) -> None:
        with ExitStack() as opened:
            askers = {}
            for case in group:
                self._tell(f"loading {case.name}")
                model = opened.enter_context(self._open(case))
                askers[id(case)] = Asker(model.loaded, self._run)
            for turn in range(self._result.warmup):
                self._warm_up(group, askers, turn)
            for turn in range(self._result.repeat):
                self._round(group, askers, turn)

    def _warm_up(self, group: Sequence[Case], askers: dict[int, Asker], turn: int) -> None:
        early: set[str] = set()
        for case in group:
            for shape in case.fitted.shapes:
                self._tell(f"warming up {case.name}")
                sample = askers[id(case)].sample(shape, case.fitted.tokens, seed=-1 - turn)
                if sample.answered < shape.parallel * case.fitted.tokens:
                    early.add(case.model.name)
        for case in group:
            if case.model.name in early:  # all of a model's cases are asked alike
                askers[id(case)].hold_back()
                self._note(f"{case.model.name}: {_ENDED}")

    def _round(self, group: Sequence[Case], askers: dict[int, Asker], turn: int) -> None:
        ordered = list(group) if turn % 2 == 0 else list(reversed(group))
        shapes = dict.fromkeys(shape for case in group for shape in case.fitted.shapes)
        for shape in shapes:
            for case in ordered:
                if shape in case.fitted.shapes:
                    self._tell(f"round {turn + 1} of {self._result.repeat}: {case.name}")
                    sample = askers[id(case)].sample(shape, case.fitted.tokens, seed=turn + 1)
                    self._keep(case, shape, sample)

    def _keep(self, case: Case, shape: Shape, sample: Sample) -> None:
        found = self._found[id(case)]
        row = found.row(shape)
        if row is None:
            row = Row(shape)
            found.rows.append(row)
        row.add("prefill_speed", sample.prefill_speed)
        row.add("decode_speed", sample.decode_speed)
        row.add("total_speed", sample.total_speed)
        row.add("ttft", sample.ttft)
        if sample.accepted is not None:
            row.add("accepted", sample.accepted)
        row.answered.append(sample.answered)
        if sample.answered < shape.parallel * case.fitted.tokens:
            self._note(f"{case.model.name}: {_SHORT}")
        if sample.cached < shape.depth // 2:
            self._note(f"{case.model.name}: {_FRESH}")


def _blank(case: Case) -> CaseResult:
    options = case.speculation.options
    return CaseResult(
        model=case.model.name,
        label=case.variant.label,
        runtime=case.plan.runtime,
        compute=case.plan.compute,
        threads=case.settings.threads,
        draft_model=case.speculation.draft.name if case.speculation.draft is not None else None,
        draft_tokens=options.n_max if options.types else None,
        draft_adapt=options.adapt if options.types else None,
        settings={name: getattr(case.settings, name) for name in _SETTINGS},
    )


def _describe(found: CaseResult, model: OpenModel) -> None:
    info = model.loaded.info
    found.runtime, found.compute, found.devices = info.runtime, info.compute, info.devices
    found.context_length = info.context_length
    found.speculation = info.speculation
