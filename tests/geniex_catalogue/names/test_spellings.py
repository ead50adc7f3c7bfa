"""Spellings: all that mean one model, and that none leads out of the store."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given

from geniex_catalogue.errors import GenieXError
from geniex_catalogue.names import parse
from tests.geniex_catalogue.names.typed import ALIASES, TEXTS

NAMES = {
    # the form itself
    "plain": ("org/repo", "org/repo"),
    "case-is-kept": ("Org/Repo-GGUF", "Org/Repo-GGUF"),
    "dots-and-dashes": ("a.b-c_d/e.f-g_h", "a.b-c_d/e.f-g_h"),
    "digits": ("01-ai/4.5", "01-ai/4.5"),
    "leading-underscore": ("_x/_y", "_x/_y"),
    "double-dash": ("local/a--b", "local/a--b"),
    "local": ("local/smol", "local/smol"),
    "org-is-one-letter": ("C/repo", "C/repo"),
    "org-named-hf": ("hf/repo", "hf/repo"),
    "repo-ends-with-gguf-dash": ("x/y-gguf", "x/y-gguf"),
    # precision
    "precision": ("org/repo:Q4_K_M", "org/repo:Q4_K_M"),
    "precision-lower": ("org/repo:q4_k_m", "org/repo:Q4_K_M"),
    "precision-mixed": ("org/repo:Ud-q4_K_xl", "org/repo:UD-Q4_K_XL"),
    "precision-w4a16": ("org/repo:w4a16", "org/repo:W4A16"),
    "precision-unknown-word": ("org/repo:DEFAULT", "org/repo:DEFAULT"),
    "precision-empty": ("org/repo:", "org/repo"),
    "precision-spaces": ("org/repo : q8_0 ", "org/repo:Q8_0"),
    "precision-slash-behind": ("org/repo:Q8_0/", "org/repo:Q8_0"),
    # file
    "file": ("org/repo:model.gguf", "org/repo:model.gguf"),
    "file-in-folder": ("o/r:Q4_K_M/x-00001-of-00003.gguf", "o/r:Q4_K_M/x-00001-of-00003.gguf"),
    "file-in-two-folders": ("o/r:a/b/x.gguf", "o/r:a/b/x.gguf"),
    "file-upper-ending": ("o/r:X.GGUF", "o/r:X.GGUF"),
    "file-with-space": ("o/r:my model.gguf", "o/r:my model.gguf"),
    "file-not-ascii": ("o/r:modèle-Q4_0.gguf", "o/r:modèle-Q4_0.gguf"),
    "file-slash-before": ("o/r:/x.gguf", "o/r:x.gguf"),
    # what surrounds
    "spaces": ("  org/repo \n", "org/repo"),
    "spaces-inside": ("org / repo", "org/repo"),
    "slash-behind": ("org/repo/", "org/repo"),
    "slashes-behind": ("org/repo//", "org/repo"),
    "slash-before": ("/org-that-is-no-folder/repo", "org-that-is-no-folder/repo"),
    "slash-before-precision": ("/org-that-is-no-folder/r:q4_0", "org-that-is-no-folder/r:Q4_0"),
    "slash-before-colon": ("org/repo/:Q4_0", "org/repo:Q4_0"),
    "double-quotes": ('"org/repo:Q4_0"', "org/repo:Q4_0"),
    "single-quotes": ("'org/repo'", "org/repo"),
    "backticks": ("`org/repo`", "org/repo"),
    "curly-quotes": ("\u201corg/repo\u201d", "org/repo"),
    "angle-brackets": ("<https://hf.co/org/repo>", "org/repo"),
    "quotes-and-spaces": (" ' org/repo ' ", "org/repo"),
    "byte-order-mark": ("\ufefforg/repo\u200b", "org/repo"),
    "no-break-space": ("\u00a0org/repo\u00a0", "org/repo"),
    # Docker Hub
    "docker": ("docker.io/ai/gemma3", "docker.io/ai/gemma3"),
    "docker-tag": ("docker.io/ai/smollm2:360M-q4_0", "docker.io/ai/smollm2:360M-q4_0"),
    "docker-latest": ("Docker.IO/ai/gemma3:latest", "docker.io/ai/gemma3"),
    "docker-index": ("index.docker.io/ai/gemma3:", "docker.io/ai/gemma3"),
    "docker-registry": ("https://registry-1.docker.io/ai/g", "docker.io/ai/g"),
    "docker-page": ("https://hub.docker.com/r/ai/gemma3", "docker.io/ai/gemma3"),
    "docker-page-tags": ("hub.docker.com/r/ai/gemma3/tags?page=1", "docker.io/ai/gemma3"),
    # one model, two orgs
    "ai-hub-models": ("ai-hub-models/X", "qualcomm/X"),
    "ai-hub-models-case": ("AI-Hub-Models/Qwen3-4B:q4_k_m", "qualcomm/Qwen3-4B:Q4_K_M"),
    "qualcomm-case": ("QUALCOMM/Qwen3-4B", "qualcomm/Qwen3-4B"),
    # addresses
    "https": ("https://huggingface.co/org/repo", "org/repo"),
    "http": ("http://huggingface.co/org/repo", "org/repo"),
    "https-upper": ("HTTPS://HuggingFace.co/Org/Repo", "Org/Repo"),
    "www": ("https://www.huggingface.co/org/repo", "org/repo"),
    "no-scheme": ("huggingface.co/org/repo", "org/repo"),
    "no-scheme-www": ("www.huggingface.co/org/repo/", "org/repo"),
    "hf-co": ("hf.co/org/repo", "org/repo"),
    "hf-co-precision": ("hf.co/org/repo:Q4_K_M", "org/repo:Q4_K_M"),
    "hf-co-bare-precision": ("hf.co/org/repo:Q4", "org/repo:Q4"),
    "hf-co-https-precision": ("https://hf.co/org/repo:q8_0", "org/repo:Q8_0"),
    "hf-co-file": ("hf.co/org/repo:a/x.gguf", "org/repo:a/x.gguf"),
    "mirror": ("https://hf-mirror.com/org/repo", "org/repo"),
    "hf-scheme": ("hf://org/repo", "org/repo"),
    "hf-scheme-precision": ("hf://org/repo:Q4_0", "org/repo:Q4_0"),
    "hf-scheme-file": ("hf://org/repo/a/x.gguf", "org/repo:a/x.gguf"),
    "hf-scheme-revision": ("hf://org/repo@main/x.gguf", "org/repo:x.gguf"),
    "hf-short": ("hf:org/repo", "org/repo"),
    "huggingface-scheme": ("huggingface://org/repo/x.gguf", "org/repo:x.gguf"),
    "port": ("https://huggingface.co:443/org/repo", "org/repo"),
    "empty-segments": ("https://huggingface.co//org//repo", "org/repo"),
    "tree": ("https://huggingface.co/org/repo/tree/main", "org/repo"),
    "tree-folder": ("https://huggingface.co/o/r/tree/main/UD-Q4_K_XL", "o/r:UD-Q4_K_XL"),
    "tree-folder-no-label": ("https://huggingface.co/o/r/tree/main/docs", "o/r"),
    "blob": ("https://huggingface.co/o/r/blob/main/x-Q4_0.gguf", "o/r:x-Q4_0.gguf"),
    "blob-folder": ("https://huggingface.co/o/r/blob/main/BF16/x.gguf", "o/r:BF16/x.gguf"),
    "blob-commit": ("https://huggingface.co/o/r/blob/5d1ac3b/x.gguf", "o/r:x.gguf"),
    "blob-pr": ("https://huggingface.co/o/r/blob/refs%2Fpr%2F1/x.gguf", "o/r:x.gguf"),
    "blob-pr-plain": ("https://huggingface.co/o/r/blob/refs/pr/1/x.gguf", "o/r:x.gguf"),
    "blob-readme": ("https://huggingface.co/o/r/blob/main/README.md", "o/r"),
    "resolve": ("https://huggingface.co/o/r/resolve/main/x.gguf?download=true", "o/r:x.gguf"),
    "resolve-escaped": ("https://huggingface.co/o/r/resolve/main/a%20b.gguf", "o/r:a b.gguf"),
    "raw": ("https://huggingface.co/o/r/raw/main/x.gguf", "o/r:x.gguf"),
    "query": ("https://huggingface.co/o/r?local-app=llama.cpp", "o/r"),
    "query-file": ("https://huggingface.co/o/r?show_file_info=x-Q4_0.gguf", "o/r:x-Q4_0.gguf"),
    "query-file-behind-a-file": (
        "https://huggingface.co/o/r/blob/main/y.gguf?show_file_info=x.gguf",
        "o/r:y.gguf",
    ),
    "fragment": ("https://huggingface.co/o/r#how-to-use", "o/r"),
    "discussions": ("https://huggingface.co/o/r/discussions/5", "o/r"),
    "api": ("https://huggingface.co/api/models/o/r", "o/r"),
    "hf-qualcomm": ("https://huggingface.co/qualcomm/Qwen3-4B", "qualcomm/Qwen3-4B"),
    "ai-hub": ("https://aihub.qualcomm.com/models/qwen3_4b", "qualcomm/qwen3_4b"),
    "ai-hub-compute": (
        "https://aihub.qualcomm.com/compute/models/qwen3_4b?x=1",
        "qualcomm/qwen3_4b",
    ),
    "ai-hub-no-scheme": ("aihub.qualcomm.com/models/qwen3_4b/", "qualcomm/qwen3_4b"),
    # aliases
    "alias": ("qwen3", "ggml-org/Qwen3-1.7B-GGUF:Q4_K_M"),
    "alias-case": ("QWEN3", "ggml-org/Qwen3-1.7B-GGUF:Q4_K_M"),
    "alias-precision": ("qwen3:q8_0", "ggml-org/Qwen3-1.7B-GGUF:Q8_0"),
    "alias-file": ("tiny:x.gguf", "geniex/tiny-chat:x.gguf"),
    "alias-empty-precision": ("qwen3:", "ggml-org/Qwen3-1.7B-GGUF:Q4_K_M"),
    "alias-quoted": ("'tiny'", "geniex/tiny-chat:Q8_0"),
    "alias-slash-behind": ("tiny/", "geniex/tiny-chat:Q8_0"),
    "alias-without-precision": ("phi-npu", "qualcomm/Phi-3.5-Mini-Instruct"),
    "alias-without-precision-typed": ("phi-npu:w4a16", "qualcomm/Phi-3.5-Mini-Instruct:W4A16"),
}


@pytest.mark.parametrize(
    ("text", "expected"), [pytest.param(*case, id=key) for key, case in NAMES.items()]
)
def test_a_name_is_read(text: str, expected: str) -> None:
    ref = parse(text, ALIASES)

    assert str(ref) == expected
    assert parse(expected) == ref


@given(TEXTS)
def test_any_text_is_a_safe_name_or_an_error_of_ours(text: str) -> None:
    try:
        ref = parse(text, ALIASES)
    except GenieXError as error:
        assert str(error).isprintable()
        return
    assert parse(str(ref)) == ref
    below = PurePosixPath("store", ref.name, ref.file or "")
    assert ".." not in below.parts
    assert not PurePosixPath(ref.name).is_absolute()
    assert ref.name.count("/") == 1
