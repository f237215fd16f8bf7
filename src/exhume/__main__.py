"""`python -m exhume`: the command line, for launchers that start a module, such as torchrun."""

from exhume.cli import main

if __name__ == "__main__":
    main()
