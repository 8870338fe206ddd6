"""`python -m compiler` is `podwright`."""

from compiler.entry import main

main()
