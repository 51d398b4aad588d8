"""`python -m stretto`: the command line, as the `stretto` command is."""

from stretto.cli import main

if __name__ == "__main__":
    main()
