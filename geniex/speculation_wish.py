"""What the user asked of speculation: the words of flags and fields, read and checked."""

from dataclasses import dataclass, field
from pathlib import Path

from geniex_catalogue import names
from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import GenieXError, ModelPathError, UsageError
from geniex_runtimes.options import SpeculativeOptions

MTP = "draft-mtp"


@dataclass(frozen=True, slots=True)
class SpeculationWish:
    """What the user asked for: `options` with the types, or `auto`; `draft` is a name or a path.

    `off` is plain decoding that was asked for, and not just left open; `free_length` is that nobody
    said how long drafts may be.
    """

    options: SpeculativeOptions = field(default_factory=SpeculativeOptions)
    auto: bool = False
    draft: str | None = None
    off: bool = False
    free_length: bool = field(default=False, compare=False)

    @property
    def wanted(self) -> bool:
        """Whether there is to be speculation at all."""
        return self.auto or bool(self.options.types)


NO_WISH = SpeculationWish()


def read_wish(
    spec_type: str | None = None,
    draft_model: str | Path | None = None,
    *,
    draft_tokens: int | None = None,
    draft_min: int | None = None,
    draft_p_min: float | None = None,
    draft_adapt: bool = True,
    require_spec: bool = False,
    paths: bool = True,
) -> SpeculationWish:
    """The wish in the user's words; what is None is the default.

    Without `paths` a draft is a name, and nothing on disk is looked at.
    `spec_type` is `auto`, `none`, or known types with commas. Raises UsageError for what is unknown
    and for words that would do nothing, ModelRefError or ModelNotFoundError for a draft's name that
    is none: before a target of many gigabytes is fetched in vain.
    """
    draft = str(draft_model) if isinstance(draft_model, Path) else draft_model
    for word, value in (("spec_type", spec_type), ("draft_model", draft)):
        if not isinstance(value, str | None):
            raise UsageError(f"`{word}` takes a text, not {value!r}")
    for word, truth in (("draft_adapt", draft_adapt), ("require_spec", require_spec)):
        if type(truth) is not bool:
            raise UsageError(f"`{word}` takes True or False, not {truth!r}")
    if spec_type is None:
        _refuse_words_without_type(
            {
                "--draft-model": draft is not None,
                "--draft-tokens": draft_tokens is not None,
                "--draft-min": draft_min is not None,
                "--draft-p-min": draft_p_min is not None,
                "--no-draft-adapt": not draft_adapt,
                "--require-spec": require_spec,
            }
        )
        return NO_WISH
    from geniex_runtimes.llama_cpp.speculative.types import (
        AUTO,
        copies_only,
        default_length,
        parse_types,
    )

    types = parse_types(spec_type)
    auto = types == (AUTO,)
    options = SpeculativeOptions(
        types=() if auto else types,
        n_max=default_length(types) if draft_tokens is None else draft_tokens,
        n_min=draft_min or 0,
        p_min=draft_p_min or 0.0,
        adapt=draft_adapt,
        require=require_spec,
    )
    _check(options)
    free = draft_tokens is None
    wish = SpeculationWish(options, auto, draft, off=not types, free_length=free)
    if require_spec and wish.off:
        raise UsageError(
            f"`--require-spec` asks for speculation, and `--spec-type {spec_type}` for none",
            hint="leave one of them out",
        )
    if draft is not None and wish.wanted and not (auto or _takes_draft(types)):
        raise UsageError(
            f"{', '.join(types)} has no use for a draft model",
            hint="leave `--draft-model` out, or add `draft-mtp` to `--spec-type`",
        )
    if draft_p_min and copies_only(types):
        raise UsageError(
            f"{', '.join(types)} has no confidence, so `--draft-p-min` does nothing",
            hint="leave `--draft-p-min` out, or add `draft-mtp` to `--spec-type`",
        )
    if draft is not None and wish.wanted:
        _check_name(draft, paths=paths)
    return wish


def _check_name(draft: str, *, paths: bool) -> None:
    if paths and names.local_path(draft) is not None:
        return
    try:
        names.parse(draft, catalogue().aliases, paths=paths)
    except ModelPathError:
        return  # a missing file is no reason not to answer
    except GenieXError as exc:
        say_whose(exc, draft)
        raise


def say_whose(error: GenieXError, draft: str) -> None:
    """Put into an error's message that the draft is what it is about."""
    error.message = f'resolve draft model "{draft}": {error.message}'
    error.args = (error.message,)


def _check(options: SpeculativeOptions) -> None:
    for name, value in (("draft_tokens", options.n_max), ("draft_min", options.n_min)):
        if type(value) is not int:  # True is a number, too
            raise UsageError(f"`{value}` is no value for `{name}`", hint="it takes a whole number")
    if not isinstance(options.p_min, int | float):
        raise UsageError(f"`{options.p_min}` is no value for `draft_p_min`")
    if options.n_max < 1 or options.n_min < 0 or not 0 <= options.p_min <= 1:
        raise UsageError(
            f"drafts of {options.n_min} to {options.n_max} tokens above a confidence of "
            f"{options.p_min} are not possible",
            hint="a draft has 1 token or more, a confidence goes from 0 to 1",
        )
    if options.n_min > options.n_max:
        raise UsageError(
            f"drafts of at least {options.n_min} tokens cannot be at most {options.n_max} long",
            hint="raise `--draft-tokens`, or lower `--draft-min`",
        )


def _refuse_words_without_type(given: dict[str, bool]) -> None:
    flag = next((name for name, is_given in given.items() if is_given), None)
    if flag is not None:
        raise UsageError(
            f"`{flag}` does nothing without a type of speculation",
            hint=f"add `--spec-type {MTP}`, or `--spec-type auto`",
        )


def _takes_draft(types: tuple[str, ...]) -> bool:
    return any(name.startswith("draft-") for name in types)
