"""The commands, as in the tests of the terminal."""

from tests.geniex.cli.conftest import cli, data_dir

__all__ = ["cli", "data_dir"]
