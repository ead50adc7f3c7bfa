"""The GGUF runtime, on the low-level API of llama-cpp-python."""
