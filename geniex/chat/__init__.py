"""Messages to prompt, and text to content: shared by every face."""
