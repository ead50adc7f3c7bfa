"""What `geniex bench` sets out to measure: shapes that fit, and settings that differ."""

from pathlib import Path
from typing import Literal

import pytest

from geniex.bench.plan import (
    Case,
    Drafting,
    Fitted,
    Shape,
    Sizes,
    Variant,
    draftings,
    groups,
    variants,
)
from geniex.bench.prose import prose, tokens_of
from geniex.best import Best
from geniex.config import Settings
from geniex.speculation import PLAIN
from geniex_catalogue.errors import UsageError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes.planning import Plan
from tests.geniex.conftest import MACHINE


class TestSizes:
    def test_defaults_that_fit(self) -> None:
        fitted = Sizes().fit(4096, None, "m")
        assert fitted.shapes == (Shape(128), Shape(512)) and fitted.tokens == 64

    @pytest.mark.parametrize(
        ("context", "shapes", "tokens"),
        [
            pytest.param(256, (Shape(128),), 64, id="the longer one is left out"),
            pytest.param(64, (Shape(24),), 16, id="none of them fits"),
        ],
    )
    def test_a_small_context(self, context: int, shapes: tuple[Shape, ...], tokens: int) -> None:
        fitted = Sizes().fit(context, None, "m")
        assert (fitted.shapes, fitted.tokens) == (shapes, tokens)

    @pytest.mark.parametrize(
        "sizes",
        [
            pytest.param(Sizes(prompt_tokens=(8, 200)), id="prompt"),
            pytest.param(Sizes(depths=(0, 250)), id="depth"),
            pytest.param(Sizes(prompt_tokens=(8,), tokens=250), id="answer"),
        ],
    )
    def test_what_was_asked_for_and_is_too_long_is_refused(self, sizes: Sizes) -> None:
        with pytest.raises(UsageError, match="a context of 256 tokens"):
            sizes.fit(256, None, "m")

    def test_every_combination(self) -> None:
        sizes = Sizes(prompt_tokens=(8, 16), tokens=4, depths=(0, 32), parallel=(1, 2))
        fitted = sizes.fit(256, None, "m")
        assert len(set(fitted.shapes)) == 8 and fitted.most == 2

    def test_parallels_beyond_the_runtime_are_told(self) -> None:
        fitted = Sizes(parallel=(1, 2, 4)).fit(4096, 1, "m")
        assert fitted.beyond == (2, 4) and fitted.most == 1

    def test_the_context_is_what_the_longest_needs(self) -> None:
        assert Sizes(prompt_tokens=(100,), tokens=20, depths=(0, 200)).needed == 512


class TestSettings:
    def test_plain_comes_first(self) -> None:
        made = draftings(["draft-mtp", "ngram-simple"], "tiny-draft", [1, 2])
        assert [one.label for one in made] == [
            "plain",
            *("draft-mtp 1", "draft-mtp 2", "draft-mtp adaptive"),
            *("ngram-simple 1", "ngram-simple 2", "ngram-simple adaptive"),
        ]
        assert [one.draft_model for one in made[1:]] == ["tiny-draft"] * 3 + [None] * 3
        assert [one.adapt for one in made[1:4]] == [False, False, True]
        assert made[3].draft_tokens == 2 and made[2].wish.options.n_max == 2

    def test_one_length_is_the_adaptive_default(self) -> None:
        assert draftings(["ngram-simple"], None, []) == (
            Drafting(),
            Drafting("ngram-simple adaptive", "ngram-simple"),
        )

    @pytest.mark.parametrize(
        ("types", "draft", "tokens"),
        [
            pytest.param([], "tiny-draft", [], id="draft alone"),
            pytest.param([], None, [2], id="tokens alone"),
            pytest.param(["none"], "tiny-draft", [], id="draft of none"),
            pytest.param(["ngram-simple"], "tiny-draft", [], id="no use for a draft"),
            pytest.param(["draft-magic"], None, [], id="unknown"),
        ],
    )
    def test_words_that_would_do_nothing(
        self, types: list[str], draft: str | None, tokens: list[int]
    ) -> None:
        with pytest.raises(UsageError):
            draftings(types, draft, tokens)

    def test_labels_name_what_differs(self) -> None:
        plain, drafted = Drafting(), Drafting("ngram-simple adaptive", "ngram-simple")
        assert [v.label for v in variants([plain], [], [])] == ["plain"]
        assert [v.label for v in variants([plain], ["cpu"], [4])] == ["plain"]
        assert [v.label for v in variants([plain, drafted], ["cpu", "gpu"], [1, 4])][:4] == [
            *("cpu, 1 thread", "cpu, 1 thread, ngram-simple adaptive"),
            *("cpu, 4 threads", "cpu, 4 threads, ngram-simple adaptive"),
        ]

    def test_what_is_kept_of_a_variant(self, tmp_path: Path) -> None:
        [one, _, fixed, _] = variants(draftings(["ngram-simple"], None, [2]), [], [1, 4])[:4]
        assert one.best("m", compared=True) == Best("m", threads=1, spec_type="none")
        assert one.best("m", compared=False) == Best("m", threads=1)
        assert fixed.settings(Settings(tmp_path, nctx=99), 512).nctx == 99
        assert one.settings(Settings(tmp_path), 512).nctx == 512


def a_case(name: str, needed: int, kind: Literal["gguf", "qairt"] = "gguf") -> Case:
    """A case that takes so many bytes of 100."""
    path = Path(name)
    return Case(
        model=ResolvedModel(name, None, kind, path, (path,), None, needed),
        variant=Variant("plain", Drafting()),
        settings=Settings(path),
        machine=MACHINE,
        plan=Plan("llama_cpp", "cpu", (), 0, 512, needed, 100),
        speculation=PLAIN,
        fitted=Fitted((Shape(8),), 8),
    )


class TestGroups:
    @pytest.mark.parametrize(
        ("cases", "expected"),
        [
            pytest.param([("a", 50), ("b", 50)], [["a", "b"]], id="all side by side"),
            pytest.param(
                [("a", 40), ("b", 60), ("a", 40)], [["a", "a"], ["b"]], id="each model by itself"
            ),
            pytest.param([("a", 70), ("a", 70)], [["a"], ["a"]], id="each alone"),
            pytest.param([("a", 300)], [["a"]], id="what fits nowhere is tried"),
        ],
    )
    def test_by_memory(self, cases: list[tuple[str, int]], expected: list[list[str]]) -> None:
        made = groups([a_case(*one) for one in cases])
        assert [[case.model.name for case in group] for group in made] == expected

    def test_bundles_are_alone(self) -> None:
        made = groups([a_case("b", 1, "qairt"), a_case("a", 1), a_case("c", 1, "qairt")])
        assert [[case.model.name for case in group] for group in made] == [["a"], ["b"], ["c"]]


class TestProse:
    def test_the_same_for_a_seed(self) -> None:
        assert prose(3, 500) == prose(3, 500) != prose(4, 500)

    @pytest.mark.parametrize("count", [1, 7, 900])
    def test_as_many_tokens_as_asked_for(self, count: int) -> None:
        assert len(tokens_of(1, count, lambda text: [len(word) for word in text.split()])) == count
        assert len(tokens_of(1, count, lambda text: list(text.encode()))) == count

    def test_no_long_stretch_comes_twice(self) -> None:
        text = prose(1, 20_000)
        pieces = [text[at : at + 80] for at in range(0, len(text) - 80)]
        assert len(set(pieces)) == len(pieces)
