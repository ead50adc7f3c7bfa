"""The server: an OpenAI-compatible face over HTTP."""
