"""From the user's words to types and a draft: what is refused, what is chosen, what is said."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from geniex.speculation import MEDIA_IGNORED, Speculation, decide
from geniex.speculation_wish import SpeculationWish, read_wish
from geniex_catalogue.errors import GenieXError, HubNotFoundError, ModelNotFoundError, UsageError
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import ModelRef
from geniex_catalogue.resolver import PullNeeded, ResolvedModel, resolve
from geniex_catalogue.store import Store
from geniex_runtimes.contract import SPEC_FALLBACK
from geniex_runtimes.errors import SpeculativeError
from geniex_runtimes.options import SpeculativeOptions
from tests.ggufwriter import build, entry, small, tensor

DRAFT = "geniex/tiny-chat-draft:Q8_0"
BIG = "google/gemma-4-26B-A4B-it-qat-q4_0-gguf"
BIG_DRAFT = "RachidAR/gemma-4-26B-A4B-it-qat-assistant-q4_0-gguf"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data")


def target(name: str, store: Store) -> ResolvedModel:
    found = resolve(name, store)
    assert isinstance(found, ResolvedModel)
    return found


def here(store: Store) -> Callable[..., ResolvedModel | None]:
    """Finds what is on this disk, as the server and the Python API do."""

    def find(name: str, *, offered: bool) -> ResolvedModel | None:
        found = resolve(name, store, "draft")
        if isinstance(found, PullNeeded):
            if offered:
                return None
            raise ModelNotFoundError(name)
        return found

    return find


def decided(wish: SpeculationWish, model: ResolvedModel, store: Store) -> Speculation:
    return decide(wish, model, "llama_cpp", store, here(store))


class TestWords:
    def test_nothing_said_is_nothing_wanted(self) -> None:
        assert not read_wish().wanted
        assert read_wish().options == SpeculativeOptions()

    @pytest.mark.parametrize("text", ["", "none", " , ", "NONE"])
    def test_off(self, text: str) -> None:
        wish = read_wish(text, "org/draft", draft_tokens=5)
        assert not wish.wanted

    def test_the_defaults_of_the_tutorial(self) -> None:
        wish = read_wish("draft-mtp", "org/draft")
        assert wish == SpeculationWish(SpeculativeOptions(("draft-mtp",)), False, "org/draft")
        assert (wish.options.n_max, wish.options.n_min, wish.options.p_min) == (3, 0, 0.0)
        assert wish.options.adapt and not wish.options.require

    def test_every_word_arrives(self) -> None:
        wish = read_wish(
            "ngram-simple,draft-mtp",
            draft_tokens=5,
            draft_min=2,
            draft_p_min=0.5,
            draft_adapt=False,
            require_spec=True,
        )
        assert set(wish.options.types) == {"draft-mtp", "ngram-simple"}
        assert replace(wish.options, types=()) == SpeculativeOptions((), 5, 2, 0.5, False, True)

    def test_auto(self) -> None:
        wish = read_wish(" Auto ")
        assert wish.auto and wish.wanted and wish.options.types == ()

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            pytest.param({"spec_type": "draft-magic"}, "draft-magic", id="unknown"),
            pytest.param({"spec_type": "draft-eagle3"}, "draft-eagle3", id="not reachable"),
            pytest.param({"spec_type": "auto,draft-mtp"}, "auto", id="auto and more"),
            pytest.param({"draft_model": "a/b"}, "--spec-type draft-mtp", id="draft alone"),
            pytest.param({"draft_tokens": 3}, "`--draft-tokens` does nothing", id="tokens alone"),
            pytest.param({"draft_min": 0}, "`--draft-min` does nothing", id="min alone"),
            pytest.param({"draft_p_min": 0.0}, "`--draft-p-min` does", id="p alone"),
            pytest.param({"draft_adapt": False}, "`--no-draft-adapt` does", id="adapt alone"),
            pytest.param({"require_spec": True}, "`--require-spec` does", id="require alone"),
            pytest.param(
                {"spec_type": "none", "require_spec": True}, "for none", id="require nothing"
            ),
            pytest.param(
                {"spec_type": "draft-mtp,draft-simple"}, "used together", id="two kinds of draft"
            ),
            pytest.param({"spec_type": "auto", "draft_adapt": "no"}, "'no'", id="no truth"),
            pytest.param({"spec_type": "auto", "draft_tokens": True}, "whole", id="no number"),
            pytest.param(
                {"spec_type": "ngram-simple", "draft_model": "a/b"}, "no use", id="draft for none"
            ),
            pytest.param(
                {"spec_type": "ngram-mod", "draft_p_min": 0.5}, "`--draft-p-min` does", id="no p"
            ),
            pytest.param({"spec_type": "auto", "draft_tokens": 0}, "not possible", id="no tokens"),
            pytest.param({"spec_type": "auto", "draft_min": -1}, "not possible", id="negative"),
            pytest.param(
                {"spec_type": "auto", "draft_p_min": float("nan")}, "not possible", id="nan"
            ),
            pytest.param(
                {"spec_type": "auto", "draft_min": 4}, "at least 4", id="min above the most"
            ),
        ],
    )
    def test_what_cannot_be_honoured(self, words: dict[str, object], told: str) -> None:
        with pytest.raises(UsageError) as caught:
            read_wish(**words)  # type: ignore[arg-type]
        assert told in f"{caught.value.message} {caught.value.hint}"

    @pytest.mark.parametrize("draft", ["tiny-draftt", "a/b/c/d", "not a name"])
    def test_a_draft_that_is_no_name(self, draft: str) -> None:
        with pytest.raises(GenieXError, match=f'^resolve draft model "{draft}": '):
            read_wish("auto", draft)
        assert not read_wish("none", draft).wanted


class TestAsked:
    @pytest.mark.parametrize("as_path", [True, False], ids=["path", "name"])
    def test_a_draft_by_name_or_path(
        self, store: Store, tiny_chat_draft: Path, as_path: bool
    ) -> None:
        wish = read_wish("draft-mtp", str(tiny_chat_draft) if as_path else DRAFT)
        made = decided(wish, target("geniex/tiny-chat", store), store)
        assert made.options == wish.options and made.choice == "" and made.warnings == ()
        assert made.draft is not None and made.draft.path == tiny_chat_draft

    def test_a_path_object(self, tiny_chat_draft: Path) -> None:
        wish = read_wish("draft-mtp", tiny_chat_draft)
        assert wish == read_wish("draft-mtp", str(tiny_chat_draft))

    def test_a_relative_path(
        self, store: Store, tiny_chat_draft: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tiny_chat_draft.parent)
        for text in (tiny_chat_draft.name, f"./{tiny_chat_draft.name}"):
            made = decided(read_wish("draft-mtp", text), target("tiny", store), store)
            assert made.draft is not None and made.draft.path.samefile(tiny_chat_draft)

    @pytest.mark.parametrize(
        ("kind", "name", "told"),
        [
            pytest.param("draft-mtp", "geniex/tiny-chat", f"--draft-model {DRAFT}", id="known"),
            pytest.param("draft-mtp", None, "exactly this model", id="unknown"),
            pytest.param("draft-simple", "geniex/tiny-chat", "same vocabulary", id="simple"),
        ],
    )
    def test_a_draft_that_is_needed(
        self, store: Store, tiny_chat: Path, kind: str, name: str | None, told: str
    ) -> None:
        with pytest.raises(UsageError, match=f"{kind} needs a draft model") as caught:
            decided(read_wish(kind), target(name or str(tiny_chat), store), store)
        assert told in str(caught.value.hint)

    def test_heads_of_its_own_need_no_draft(self, store: Store, toys: Path) -> None:
        made = decided(read_wish("draft-mtp"), target(str(toys / "q35-mix.gguf"), store), store)
        assert made.options.types == ("draft-mtp",) and made.draft is None

    @pytest.mark.parametrize("toy", ["mimo-hollow", "exaone4-heads"])
    def test_heads_that_are_declared_alone_ask_for_no_draft(
        self, store: Store, toys: Path, toy: str
    ) -> None:
        # what is wrong with them is told when the pair is checked, and the answer goes on
        made = decided(read_wish("draft-mtp"), target(str(toys / f"{toy}.gguf"), store), store)
        assert made.options.types == ("draft-mtp",) and made.draft is None

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            pytest.param(None, "does not exist", id="missing"),
            pytest.param(b"# a text\n", "GGUF", id="text file"),
            pytest.param(small()[:40], "GGUF", id="truncated"),
            pytest.param(build([entry("general.type", "mmproj")]), "projector", id="projector"),
        ],
    )
    def test_a_file_at_fault_is_plain_decoding_with_the_reason(
        self,
        store: Store,
        tmp_path: Path,
        content: bytes | None,
        told: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        file = tmp_path / "draft.gguf"
        if content is not None:
            file.write_bytes(content)
        caplog.set_level(logging.WARNING, "geniex.speculation")
        model = target("tiny", store)
        made = decided(read_wish("draft-mtp", str(file)), model, store)
        assert made.options.types == () and made.draft is None
        assert made.warnings[0].startswith(f"{SPEC_FALLBACK}: ") and told in made.warnings[0]
        assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
            ("WARNING", made.warnings[0])
        ]
        with pytest.raises(SpeculativeError, match=told):
            decided(read_wish("draft-mtp", str(file), require_spec=True), model, store)

    def test_a_name_at_fault_is_an_error(self, store: Store) -> None:
        with pytest.raises(GenieXError, match=r'resolve draft model "org/none": .*not found'):
            decided(read_wish("draft-mtp", "org/none"), target("tiny", store), store)


class TestAuto:
    @pytest.mark.parametrize("toy", ["q35-mix", "mimo-mix"])
    def test_heads_come_first(self, store: Store, toys: Path, toy: str) -> None:
        made = decided(read_wish("auto"), target(str(toys / f"{toy}.gguf"), store), store)
        assert made.options.types == ("draft-mtp",) and made.draft is None
        assert "own file" in made.choice

    @pytest.mark.parametrize(
        ("toy", "why"), [("exaone4-heads", "exaone4"), ("mimo-hollow", "is missing")]
    )
    def test_heads_that_cannot_be_run_are_left_alone(
        self, store: Store, toys: Path, toy: str, why: str
    ) -> None:
        model = target(str(toys / f"{toy}.gguf"), store)
        made = decided(read_wish("auto"), model, store)
        assert made.options.types == ("ngram-simple",) and why in made.choice

    def test_then_the_draft_of_the_catalogue(self, store: Store) -> None:
        wish = read_wish("auto", draft_tokens=2, draft_adapt=False)
        made = decided(wish, target("geniex/tiny-chat", store), store)
        assert made.options == SpeculativeOptions(("draft-mtp",), n_max=2, adapt=False)
        assert made.draft is not None and made.draft.name == DRAFT
        assert made.choice == f"speculation: draft-mtp, with {DRAFT}"

    @pytest.mark.parametrize("stored", [True, False], ids=["store", "folder"])
    def test_then_a_draft_beside_the_model(
        self, store: Store, tmp_path: Path, tiny_chat: Path, tiny_chat_draft: Path, stored: bool
    ) -> None:
        folder = tmp_path / "src"
        folder.mkdir()
        (folder / "m-Q8_0.gguf").write_bytes(tiny_chat.read_bytes())
        (folder / "assistant.gguf").write_bytes(tiny_chat_draft.read_bytes())
        name = str(folder)
        if stored:
            import_path(ModelRef("org", "repo"), folder, store)
            name = "org/repo"
        made = decided(read_wish("auto"), target(name, store), store)
        assert made.options.types == ("draft-mtp",)
        assert made.draft is not None and made.draft.path.name == "assistant.gguf"

    def test_else_repetition(self, store: Store, tiny_chat: Path) -> None:
        made = decided(read_wish("auto"), target(str(tiny_chat), store), store)
        assert made.options.types == ("ngram-simple",) and made.draft is None
        assert made.choice == "speculation: ngram-simple, no draft of this model is known"

    def test_a_known_draft_that_is_not_here_is_named(self, store: Store, tiny_chat: Path) -> None:
        import_path(ModelRef(*BIG.split("/")), tiny_chat, store)
        made = decided(read_wish("auto"), target(BIG, store), store)
        assert made.options.types == ("ngram-simple",)
        assert f"geniex pull {BIG_DRAFT}:Q4_0" in made.choice

    def test_a_draft_that_does_not_fit_is_left_alone(self, store: Store, tmp_path: Path) -> None:
        folder = tmp_path / "src"
        folder.mkdir()
        (folder / "m.gguf").write_bytes(small())
        (folder / "assistant.gguf").write_bytes(small("gemma4-assistant"))
        made = decided(read_wish("auto"), target(str(folder), store), store)
        assert made.options.types == ("ngram-simple",)
        assert made.choice != "speculation: ngram-simple, no draft of this model is known"

    def test_a_hub_that_fails_is_no_error(self, store: Store, tiny_chat: Path) -> None:
        import_path(ModelRef(*BIG.split("/")), tiny_chat, store)

        def find(name: str, *, offered: bool) -> ResolvedModel | None:
            assert offered
            raise HubNotFoundError("no such repository")

        made = decide(read_wish("auto"), target(BIG, store), "llama_cpp", store, find)
        assert made.choice == "speculation: ngram-simple, no such repository"

    @pytest.mark.parametrize(("name", "kind"), [(DRAFT, "draft-mtp"), ("m", "draft-simple")])
    def test_a_named_draft_says_its_kind_itself(
        self, store: Store, tiny_chat: Path, name: str, kind: str
    ) -> None:
        wish = read_wish("auto", DRAFT if name == DRAFT else str(tiny_chat))
        made = decided(wish, target("tiny", store), store)
        assert made.options.types == (kind,) and made.draft is not None


class TestElsewhere:
    WARNING = "speculative decoding is only supported by llama_cpp; ignoring for runtime qairt"

    @pytest.mark.parametrize("kind", ["draft-mtp", "auto"])
    def test_another_runtime_ignores_it(self, store: Store, kind: str) -> None:
        def find(name: str, *, offered: bool) -> ResolvedModel | None:
            raise AssertionError("no draft is needed")

        model = target("tiny", store)
        made = decide(read_wish(kind, "org/draft"), model, "qairt", store, find)
        assert made == Speculation(warnings=(self.WARNING,))
        with pytest.raises(SpeculativeError, match="qairt"):
            decide(read_wish(kind, require_spec=True), model, "qairt", store, find)
        assert decide(read_wish("none"), model, "qairt", store, find) == Speculation()

    @pytest.mark.parametrize("stored", [True, False], ids=["store", "file"])
    def test_a_projector_is_told_of(self, store: Store, tmp_path: Path, stored: bool) -> None:
        folder = tmp_path / "src"
        folder.mkdir()
        (folder / "m-Q8_0.gguf").write_bytes(small())
        projector = build(
            [entry("general.type", "mmproj"), entry("general.architecture", "clip")],
            [tensor("v.x", [8])],
            32,
        )
        (folder / "mmproj-F16.gguf").write_bytes(projector)
        name = str(folder / "m-Q8_0.gguf")
        if stored:
            import_path(ModelRef("org", "repo"), folder, store)
            name = "org/repo"
        model = target(name, store)
        assert MEDIA_IGNORED in decided(read_wish("ngram-simple"), model, store).warnings
        assert decided(read_wish("none"), model, store).warnings == ()
