"""The body of a request for embeddings."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from geniex.server.completions.protocol import TokenLists, Tokens
from geniex.server.fields import RequestFields
from geniex.server.refusals import about, unsupported
from geniex.server.shapes import MAX_PROMPTS, check_full_inputs
from geniex_catalogue.errors import GenieXError, UsageError

Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MAX_PROMPTS)]


class EmbeddingsRequest(RequestFields):
    """Vectors that are asked for."""

    said = "input"

    input: Annotated[Text | Tokens | Texts | TokenLists, BeforeValidator(check_full_inputs)] = (
        Field(description="A text or token ids, or a list of either.")
    )
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(
        None, ge=1, description="Only the length that the model's vectors have anyway."
    )

    @property
    def inputs(self) -> list[Any]:
        """The inputs, one or several: texts, or lists of token ids."""
        given = self.input
        return [given] if isinstance(given, str) or isinstance(given[0], int) else [*given]

    user: str | None = Field(None, description="Changes nothing.")

    def blamed(self, error: GenieXError) -> GenieXError:
        """What is not about a field of loading is about the input: it has no such token."""
        blamed = super().blamed(error)
        ours = blamed is error and isinstance(error, UsageError)
        return about(error, "input") if ours else blamed

    def check_dimensions(self, length: int) -> None:
        """Raise RequestError where vectors of another length are asked for."""
        if self.dimensions is not None and self.dimensions != length:
            raise unsupported(
                f"`dimensions` of {self.dimensions} is not supported: this model's vectors have "
                f"{length} numbers",
                "dimensions",
            )
