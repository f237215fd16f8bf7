"""Tests on every supported Python, with pinned versions: `nox`, or `nox --session test-3.12`."""

import nox

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["test"]
PYTHONS = ["3.11", "3.12", "3.13"]


@nox.session(python=PYTHONS)
def test(session: nox.Session) -> None:
    """The test suite; arguments after -- go to pytest."""
    # torch goes first: nothing installed after it may bring another build of it.
    session.install("-c", "constraints.txt", "torch")
    session.install("-c", "constraints.txt", "-e", ".[dev]")
    session.run("python", "-m", "pytest", "-m", "not slow", "-n", "2", "--dist", "worksteal", *session.posargs)


@nox.session(python=PYTHONS)
def wheel(session: nox.Session) -> None:
    """The wheel and the sdist in an empty environment."""
    session.run("python", ".ci/try_install.py")


@nox.session(python=PYTHONS[0])
def lowest(session: nox.Session) -> None:
    """The wheel with the lowest supported versions of its dependencies."""
    session.run("python", ".ci/try_install.py", "--lowest")
