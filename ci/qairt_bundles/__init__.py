"""Test bundles for the `qairt` runtime: a tiny trained decoder, compiled for several Hexagons."""
