"""`python -m appgrad` is the command line."""

from .cli.main import main

main()
