"""`POST /v1/responses`: the Responses API of OpenAI, without anything stored."""
