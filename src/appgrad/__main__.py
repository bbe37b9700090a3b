"""`python -m appgrad` is the command line."""

from .cli import main

main()
