"""Precision labels: read from names, known from metadata, ordered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_catalogue import precision
from geniex_catalogue.errors import PrecisionNotFoundError

ALL_LABELS = [
    "F64 F32 F16 BF16 Q1_0 Q2_0 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q8_1 Q4_0_4_4 Q4_0_4_8 Q4_0_8_8",
    "Q2_K Q2_K_S Q2_K_L Q2_K_XL Q3_K Q3_K_S Q3_K_M Q3_K_L Q3_K_XL Q4_K Q4_K_S Q4_K_M Q4_K_L",
    "Q4_K_XL Q5_K Q5_K_S Q5_K_M Q5_K_L Q5_K_XL Q6_K Q6_K_L Q6_K_XL Q8_K_XL Q4_K_P Q8_KV",
    "IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M IQ3_XXS IQ3_XS IQ3_S IQ3_M IQ4_XS IQ4_NL IQ4_NL_XL",
    "IQ2_K IQ4_K IQ4_KS IQ4_KSS IQ2_KT IQ4_KS_R4 Q4_K_R4 Q8_0_R8 Q1_0_G128 I2_S TQ1_0 TQ2_0",
    "MXFP4 MXFP4_MOE MXFP4_MOE_BF16 NVFP4 W4A16 W8A16 W8A8",
    "UD-IQ1_S UD-IQ2_XXS UD-Q2_K_XL UD-Q4_K_XL UD-Q8_K_XL UD-TQ1_0 UD-Q4_K_M UD-Q4_0",
]


@pytest.mark.parametrize("label", [label for line in ALL_LABELS for label in line.split()])
def test_every_label_is_found_wherever_it_stands(label: str) -> None:
    for name in (
        f"model-{label}.gguf",
        f"model.{label.lower()}.gguf",
        f"model_{label}.GGUF",
        f"{label}.gguf",
        f"model-{label}-imat.gguf",
        f"model-{label}_finetune.gguf",
        f"model-{label}-00001-of-00012.gguf",
        f"{label}/model-00002-of-00003.gguf",
        f"deep/{label.lower()}/er/model.gguf",
        f"Qwen3-8B-{label}/ggml-model.gguf",
        f"F16/model-Q3_K_M-{label}.gguf",
    ):
        assert precision.label_of(name) == label, name


NAMES = {
    "fp16": ("model-fp16.gguf", "F16"),
    "FP32": ("model.FP32.gguf", "F32"),
    "i1": ("model.i1-Q4_K_M.gguf", "Q4_K_M"),
    "i1-iq": ("Model-7B.i1-IQ3_XXS.gguf", "IQ3_XXS"),
    "ud-underscore": ("model_UD_Q4_K_XL.gguf", "UD-Q4_K_XL"),
    "mxfp4-moe-dash": ("model-mxfp4-moe.gguf", "MXFP4_MOE"),
    "bare-q4": ("Phi-3-mini-4k-instruct-q4.gguf", "Q4"),
    "bare-q8": ("model-Q8.gguf", "Q8"),
    "bare-q8-alone": ("q8.gguf", "Q8"),
    "bare-iq4": ("model-IQ4.gguf", "IQ4"),
    "bare-folder": ("Q8/model.gguf", "Q8"),
    "bare-split": ("model-q6-00001-of-00002.gguf", "Q6"),
    "last-token": ("model-F16-Q4_K_M.gguf", "Q4_K_M"),
    "last-token-float": ("model-Q4_K_M-f16.gguf", "F16"),
    "fp8-source": ("DeepSeek-V3-FP8-Q4_K_M.gguf", "Q4_K_M"),
    "name-before-folder": ("Q8_0/model-Q4_0.gguf", "Q4_0"),
    "nearest-folder": ("BF16/Q6_K/model.gguf", "Q6_K"),
    "windows-folder": ("Q4_0\\model.gguf", "Q4_0"),
    "not-a-gguf": ("model-Q4_0.bin", "Q4_0"),
    "google": ("gemma-4-26B_q4_0-it.gguf", "Q4_0"),
    "google-override": ("gemma-4-E2B-q4_0-override.gguf", "Q4_0"),
    "rachidar": ("gemma-4-26b-A4B-it-assistant-Q4_0-q4emb.gguf", "Q4_0"),
    "unsloth-head": ("MTP/gemma-4-26B-A4B-it-Q8_0-MTP.gguf", "Q8_0"),
    "gpt-oss": ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
    "gpt-oss-split": ("gpt-oss-120b-mxfp4-00001-of-00003.gguf", "MXFP4"),
    "bartowski": ("google_gemma-3-4b-it-Q6_K_L.gguf", "Q6_K_L"),
    "bracket": ("model (Q5_K_M).gguf", "Q5_K_M"),
    "projector": ("mmproj-model-f16.gguf", "F16"),
    "moe-size": ("Qwen3-30B-A3B-Instruct-2507-IQ4_XS.gguf", "IQ4_XS"),
    # no label at all
    "qwen3": ("Qwen3-8B.gguf", None),
    "qwen3.5": ("Qwen3.5-2B.gguf", None),
    "f1": ("F1-7B-instruct.gguf", None),
    "f5": ("F5-TTS.gguf", None),
    "phi-4": ("Phi-4-mini.gguf", None),
    "phi-4-end": ("phi-4.gguf", None),
    "q1": ("Skywork-Q1-preview.gguf", None),
    "q1-end": ("Model-Q1.gguf", None),
    "q4-not-at-the-end": ("Report-Q4-2025.gguf", None),
    "fp8": ("model-fp8.gguf", None),
    "128k": ("Phi-3-mini-128k-instruct.gguf", None),
    "a3b": ("Qwen3-30B-A3B.gguf", None),
    "e4b": ("gemma-4-E4B-it.gguf", None),
    "i1-alone": ("model.i1.gguf", None),
    "glued": ("aQ4_0.gguf", None),
    "glued-behind": ("modelQ4_0x.gguf", None),
    "glued-float": ("x-aF16.gguf", None),
    "mtp": ("mtp-gemma-4-12b-it.gguf", None),
    "number-other-digits": ("model-Q\u0664_\u0660.gguf", None),
    "empty": ("", None),
    "ending-alone": (".gguf", None),
    "slashes": ("///", None),
}


@pytest.mark.parametrize(
    ("name", "expected"), [pytest.param(*case, id=key) for key, case in NAMES.items()]
)
def test_label_of_a_name(name: str, expected: str | None) -> None:
    assert precision.label_of(name) == expected


def test_the_numbers_of_llama_cpp_agree_with_the_gguf_package() -> None:
    gguf = pytest.importorskip("gguf")
    for member in gguf.LlamaFileType:
        if member.name == "GUESSED":
            continue
        expected = member.name.removeprefix("ALL_").removeprefix("MOSTLY_")
        assert precision.label_of_file_type(member.value) == expected
        assert precision.label_of_file_type(member.value | gguf.LlamaFileType.GUESSED) == expected


def test_a_number_that_is_not_known_has_no_label() -> None:
    assert precision.label_of_file_type(999) is None


ORDERS = {
    "reference": ("Q8_0 Q5_K_M Q4_K_M Q4_0", "Q4_0 Q4_K_M Q8_0 Q5_K_M"),
    "four-bits-and-up": ("F16 Q6_K Q2_K Q5_K_M Q3_K_M", "Q5_K_M Q6_K Q3_K_M Q2_K F16"),
    "low-bits": ("IQ1_S IQ2_M Q2_K IQ3_XS Q3_K_S", "Q3_K_S IQ3_XS Q2_K IQ2_M IQ1_S"),
    "one-width": ("IQ4_XS UD-Q4_K_XL Q4_1 Q4_K_L Q4_K_S", "Q4_K_S Q4_K_L Q4_1 IQ4_XS UD-Q4_K_XL"),
    "floats": ("F32 BF16 F16", "F16 BF16 F32"),
    "unknown-last": ("DEFAULT F32 IQ1_S", "IQ1_S F32 DEFAULT"),
    "mxfp4": ("MXFP4 F16", "MXFP4 F16"),
    "twice": ("Q4_0 Q4_0", "Q4_0"),
    "none": ("", ""),
}


@pytest.mark.parametrize(
    ("labels", "expected"), [pytest.param(*case, id=key) for key, case in ORDERS.items()]
)
def test_order_of_preference(labels: str, expected: str) -> None:
    assert precision.preferred(labels.split()) == expected.split()


FOUND = {
    "exact": ("Q4_0", "Q4_0 Q8_0", "Q4_0"),
    "case": ("q4_k_m", "Q4_K_M", "Q4_K_M"),
    "label-in-lower-case": ("Q4_K_M", "q4_k_m", "q4_k_m"),
    "fp16": ("FP16", "F16", "F16"),
    "f16-of-a-store-with-fp16": ("F16", "FP16", "FP16"),
    "i1": ("i1-Q4_K_M", "Q4_K_M", "Q4_K_M"),
    "ud": ("UD-Q4_K_XL", "UD-Q4_K_XL Q4_K_XL", "UD-Q4_K_XL"),
    "plain-beside-ud": ("Q4_K_XL", "UD-Q4_K_XL Q4_K_XL", "Q4_K_XL"),
    "ud-alone": ("Q4_K_XL", "UD-Q4_K_XL Q4_K_M", "UD-Q4_K_XL"),
    "default": ("default", "DEFAULT", "DEFAULT"),
    "bare": ("q8", "Q8", "Q8"),
    "odd-store-label": ("n/a", "N/A", "N/A"),
}


@pytest.mark.parametrize(
    ("asked", "available", "expected"),
    [pytest.param(*case, id=key) for key, case in FOUND.items()],
)
def test_a_label_is_found_in_any_spelling(asked: str, available: str, expected: str) -> None:
    assert precision.find(asked, available.split()) == expected
    assert precision.require("org/repo", asked, available.split()) == expected


MISSING = {
    "typo": ("Q9_NOPE", "Q4_0 Q8_0", None),
    "near": ("Q4_K_N", "Q8_0 Q4_K_M F16", "Q4_K_M"),
    "plain-is-not-ud": ("UD-Q4_K_M", "Q4_K_M Q8_0", "Q4_K_M"),
    "bare-is-no-pattern": ("Q8", "Q8_0", "Q8_0"),
    "bf16": ("F16", "BF16 Q4_0", "BF16"),
}


@pytest.mark.parametrize(
    ("asked", "available", "nearest"),
    [pytest.param(*case, id=key) for key, case in MISSING.items()],
)
def test_a_label_that_is_not_there_lists_what_is(
    asked: str, available: str, nearest: str | None
) -> None:
    labels = available.split()
    with pytest.raises(PrecisionNotFoundError) as caught:
        precision.require("org/repo", asked, labels)

    error = caught.value
    assert asked in error.message
    assert "org/repo" in error.message
    assert all(label in error.message for label in labels)
    assert set(error.available) == set(labels)
    assert any(f"`{label}`" in (error.hint or "") for label in labels)
    assert nearest is None or f"`{nearest}`" in (error.hint or "")


@given(st.text(max_size=80))
def test_any_name_has_a_label_or_none(name: str) -> None:
    label = precision.label_of(name)

    if label is not None:
        assert label == precision.canonical(label)
        assert precision.label_of(f"x-{label}.gguf") == label
        assert precision.find(label.lower(), [label]) == label


@given(st.lists(st.text(max_size=12) | st.sampled_from(["Q4_0", "UD-Q4_K_XL", "F16", "IQ3_M"])))
def test_any_labels_can_be_ordered(labels: list[str]) -> None:
    ordered = precision.preferred(labels)

    assert set(ordered) == set(labels)
    assert precision.preferred(reversed(ordered)) == ordered


@given(st.integers(min_value=0, max_value=2**64))
def test_any_file_type(number: int) -> None:
    label = precision.label_of_file_type(number)

    assert label is None or label == precision.canonical(label)
