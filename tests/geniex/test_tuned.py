"""Best settings of a model: how they are written, and what wins over what."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex.best import Best, parse_best
from geniex.config import read_settings
from geniex.config_file import ConfigFile
from geniex.server.finder import Finder
from geniex.server.reading import read
from geniex.server.residents import ModelWish
from geniex.session import find_local_model
from geniex.speculation_wish import NO_WISH, read_wish
from geniex.tuned import Tuned, tuned
from geniex_catalogue.errors import UsageError

TINY = "geniex/tiny-chat:Q8_0"
DRAFT = "geniex/tiny-chat-draft"
BEST = Best(TINY, compute="cpu", threads=3, spec_type="draft-mtp", draft_model=DRAFT)
NGRAM = read_wish("ngram-simple")
WORDS = st.text(min_size=1, max_size=20)
COUNTS = st.none() | st.integers(min_value=1, max_value=64)


@given(
    st.builds(
        Best,
        model=WORDS,
        compute=st.none() | WORDS,
        threads=COUNTS,
        spec_type=WORDS,
        draft_model=st.none() | WORDS,
        draft_tokens=COUNTS,
        draft_adapt=st.booleans(),
    )
)
def test_round_trip(best: Best) -> None:
    assert parse_best(best.model, best.text()) == best


@pytest.mark.parametrize(
    "text",
    ["", "threads", "threads=", "threads=0", "threads=x", "colour=red", "draft_adapt=maybe", "'"],
)
def test_what_are_no_best_settings(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_best("org/m:Q4_0", text)
    assert caught.value.hint == "`geniex config unset best.org/m:Q4_0` removes it"


class TestFile:
    def test_damage_is_named_and_can_be_taken_out(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text('{"best.m": "nonsense", "nctx": "64"}')
        with pytest.raises(UsageError, match=r"config\.json, `best\.m`"):
            read_settings({"data_dir": str(tmp_path)}, {})
        ConfigFile(tmp_path).unset("best.m")
        assert read_settings({"data_dir": str(tmp_path)}, {}).nctx == 64

    def test_it_is_not_set_by_hand(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError) as caught:
            ConfigFile(tmp_path).set("best.m", "threads=1")
        assert "--save-best" in str(caught.value.hint)


Use = Callable[..., Tuned]


@pytest.fixture
def use(tmp_path: Path) -> Use:
    """Tune the built-in model, after these flags, variables and keys of the file."""
    file = ConfigFile(tmp_path)
    file.set_best(BEST)

    def make(
        flags: dict[str, object] | None = None,
        variables: dict[str, str] | None = None,
        spec_type: str | None = None,
        draft_here: bool = True,
        **keys: str,
    ) -> Tuned:
        for key, value in keys.items():
            file.set(key, value)
        settings = read_settings({**(flags or {}), "data_dir": str(tmp_path)}, variables or {})
        model = find_local_model("tiny", settings)
        return tuned(model, settings, read_wish(spec_type), lambda name: draft_here)

    return make


class TestPrecedence:
    def test_best_wins_over_the_file(self, use: Use) -> None:
        made = use(threads="7", compute="gpu")
        assert (made.settings.threads, made.settings.compute) == (3, "cpu")
        assert made.wish == read_wish("draft-mtp", DRAFT)
        assert made.words == BEST.text()

    def test_a_variable_wins_over_best(self, use: Use) -> None:
        made = use(variables={"GENIEX_THREADS": "5"})
        assert (made.settings.threads, made.settings.compute) == (5, "cpu")
        assert "threads" not in made.words

    def test_a_flag_wins_over_best(self, use: Use) -> None:
        made = use(flags={"threads": 6}, variables={"GENIEX_THREADS": "5"})
        assert made.settings.threads == 6

    def test_threads_belong_to_the_unit(self, use: Use) -> None:
        made = use(flags={"compute": "gpu"}, threads="7")
        assert (made.settings.compute, made.settings.threads) == ("gpu", 7)

    @pytest.mark.parametrize("words", ["none", "ngram-simple", "auto"])
    def test_what_is_said_of_speculation_wins(self, use: Use, words: str) -> None:
        made = use(spec_type=words)
        assert made.wish == read_wish(words) and made.settings.threads == 3
        assert made.note == "best settings of `geniex bench`: compute=cpu threads=3"

    def test_without_its_draft_it_does_without(self, use: Use) -> None:
        made = use(draft_here=False)
        assert made.wish == NO_WISH
        assert made.note.endswith(f"threads=3, but the draft `{DRAFT}` is not here")


def test_another_model_has_none(tmp_path: Path, tiny_chat: Path) -> None:
    ConfigFile(tmp_path).set_best(BEST)
    settings = read_settings({"data_dir": str(tmp_path)}, {})
    model = find_local_model(str(tiny_chat), settings)
    assert tuned(model, settings, NO_WISH, lambda name: True) == Tuned(settings, NO_WISH)


def test_a_path_is_known_by_its_file(
    tmp_path: Path, tiny_chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ConfigFile(tmp_path).set_best(Best(str(tiny_chat.resolve()), threads=2))
    settings = read_settings({"data_dir": str(tmp_path)}, {})
    monkeypatch.chdir(tiny_chat.parent)
    model = find_local_model(f"./{tiny_chat.name}", settings)
    assert tuned(model, settings, NO_WISH, lambda name: True).settings.threads == 2


class TestServer:
    @pytest.fixture
    def ask(self, tmp_path: Path) -> Callable[..., tuple[int | None, str | None, tuple[str, ...]]]:
        ConfigFile(tmp_path).set_best(BEST)
        settings = read_settings({"data_dir": str(tmp_path)}, {})

        def make(**wish: object) -> tuple[int | None, str | None, tuple[str, ...]]:
            found = read(ModelWish("tiny", **wish), settings, Finder(settings))  # type: ignore[arg-type]
            types = found.speculation.options.types
            assert (found.draft is None) == (types != ("draft-mtp",))
            return found.settings.threads, found.settings.compute, types

        return make

    @pytest.mark.parametrize(
        ("wish", "expected"),
        [
            pytest.param({}, (3, "cpu", ("draft-mtp",)), id="nothing said"),
            pytest.param({"compute": "gpu"}, (None, "gpu", ("draft-mtp",)), id="a unit"),
            pytest.param({"speculation": read_wish("none")}, (3, "cpu", ()), id="none"),
            pytest.param({"speculation": NGRAM}, (3, "cpu", ("ngram-simple",)), id="other"),
            pytest.param({"purpose": "embedding"}, (3, "cpu", ()), id="vectors"),
        ],
    )
    def test_a_request_wins(
        self,
        ask: Callable[..., object],
        wish: dict[str, object],
        expected: tuple[object, ...],
    ) -> None:
        assert ask(**wish) == expected
