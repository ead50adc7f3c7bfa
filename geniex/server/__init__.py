"""The OpenAI-compatible server: many clients at once, the same core as the terminal."""
