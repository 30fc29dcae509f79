"""`python -m bon`."""

from bon.commands.main import main

main()
