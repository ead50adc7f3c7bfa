"""Texts of the terminal in the keywords of Python."""

import logging
from pathlib import Path

import pytest

import geniex
from geniex.best import Best
from geniex.config_file import ConfigFile
from geniex.keywords import in_keywords, told_in
from geniex_catalogue.errors import UsageError

KEYWORDS = {"nctx": "n_ctx", "compute": "compute", "spec-type": "spec_type", "ngl": "ngl"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("`--nctx 4096` is ignored", "`n_ctx=4096` is ignored"),
        ("raise `--nctx`", "raise `n_ctx`"),
        ("add `--spec-type draft-mtp`", "add `spec_type='draft-mtp'`"),
        ("`--compute gpu --ngl -1` puts", "`compute='gpu' ngl=-1` puts"),
        ("--spec-type set on a model", "spec_type set on a model"),
        ("run `geniex infer M --nctx 4`", "run `geniex infer M --nctx 4`"),
        ("`--unknown 4` -- as it is", "`--unknown 4` -- as it is"),
    ],
)
def test_flags_are_keywords(text: str, told: str) -> None:
    assert in_keywords(text, KEYWORDS) == told


def test_errors_are_told_in_keywords() -> None:
    with pytest.raises(UsageError) as caught, told_in(KEYWORDS):
        raise UsageError("`--nctx 0` is none", hint="leave `--nctx` out")
    assert str(caught.value) == caught.value.message == "`n_ctx=0` is none"
    assert caught.value.hint == "leave `n_ctx` out"


def test_each_face_of_python_has_its_own(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="`draft_tokens` does nothing without") as caught:
        geniex.load("tiny", draft_tokens=2, data_dir=tmp_path)
    assert "add `spec_type='draft-mtp'`" in str(caught.value.hint)
    with pytest.raises(UsageError, match="`spec_n_max` does nothing without"):
        geniex.AutoModelForCausalLM.from_pretrained("tiny", spec_n_max=2, data_dir=tmp_path)


def test_an_engine_of_bundles_does_nothing_elsewhere(tmp_path: Path) -> None:
    with geniex.load("tiny", qairt_engine="ort", data_dir=tmp_path) as model:
        assert model.warnings == (
            "`qairt_engine` does nothing: `geniex/tiny-chat:Q8_0` runs on llama_cpp",
        )


def test_best_settings_are_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    best = Best("geniex/tiny-chat:Q8_0", spec_type="ngram-simple", draft_tokens=2)
    ConfigFile(tmp_path).set_best(best)
    with caplog.at_level(logging.INFO, "geniex.session"):
        with geniex.load("tiny", data_dir=tmp_path) as model:
            assert model.chat("hi", max_tokens=1).profile.spec_state is not None
        assert "best settings of `geniex bench`: spec_type=ngram-simple" in caplog.text
        with geniex.load("tiny", data_dir=tmp_path, spec_type="none") as model:
            assert model.chat("hi", max_tokens=1).profile.spec_state is None
