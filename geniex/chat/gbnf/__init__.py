"""Grammars in GBNF, llama.cpp's notation, put together from parts."""
