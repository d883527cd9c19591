"""``python -m rqmail.cli``: the command line without its script."""

from rqmail.cli import main

main()
