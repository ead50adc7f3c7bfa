"""Where files come from: one file a hub."""
