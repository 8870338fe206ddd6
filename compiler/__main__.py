"""`python -m compiler` is `podwright`."""

from compiler.cli import main

main()
