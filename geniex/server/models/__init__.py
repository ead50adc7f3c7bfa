"""Which models are here, what is in memory, and loading by hand."""
