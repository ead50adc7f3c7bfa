"""How fast a model runs here: what is measured, measuring it, and what came out."""
