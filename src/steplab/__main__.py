"""Lets `python -m steplab` do what the command `steplab` does."""

from steplab.cli import main

if __name__ == "__main__":
    main()
