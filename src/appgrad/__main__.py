"""`python -m appgrad` is the command line."""

from .cli.start import main

main()
