"""The program `exhume`, also `python -m exhume` for launchers that start a module, such as torchrun."""

import sys


def main() -> None:
    """Runs the command line; Ctrl-C ends it without a traceback even while Python still loads it."""
    try:
        from exhume import cli

        cli.main()
    except KeyboardInterrupt:
        print("interrupted: nothing was saved; run it again", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
