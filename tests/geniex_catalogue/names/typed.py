"""What a user may type for a model."""

from hypothesis import strategies as st

ALIASES = {
    "qwen3": "ggml-org/Qwen3-1.7B-GGUF:Q4_K_M",
    "qwen3-4b": "Qwen/Qwen3-4B-GGUF:Q4_K_M",
    "tiny": "geniex/tiny-chat:Q8_0",
    "llama-3.2-1b": "unsloth/Llama-3.2-1B-Instruct-GGUF:Q4_K_M",
    "phi-npu": "qualcomm/Phi-3.5-Mini-Instruct",
}

_MARKS = [
    "/",
    ":",
    "..",
    ".",
    "\\",
    "%2f",
    "'",
    "<",
    ">",
    "~",
    "?",
    "#",
    "\0",
    "\udc80",
    "é",
    "@",
    " ",
]
_WORDS = ["a", "B-1", "org/repo", ".gguf", "hf.co/", "https://", "huggingface.co/", "C:", "Q4_0"]
_PIECES = st.sampled_from(_MARKS) | st.sampled_from(_WORDS)
TEXTS = st.one_of(st.text(max_size=60), st.lists(_PIECES, max_size=8).map("".join))
