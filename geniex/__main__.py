"""`python -m geniex`: the console command."""

from geniex.cli.app import main

if __name__ == "__main__":
    main()
