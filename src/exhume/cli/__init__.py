"""The command line: parse, call, render."""

from __future__ import annotations

import sys

import typer

from exhume.cli import attack, audit, compare, data, demo, law, report, reproduce, score, sweep, train, train_networks
from exhume.errors import ExhumeError

app = typer.Typer(
    name="exhume",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Recover training data from trained weights, forecast when that is possible, and score the recovery.",
)
app.command("demo")(demo.demo)
app.command("law")(law.law)
app.command("data")(data.data)
for kind in train_networks.KINDS:
    train.app.command(kind.name)(train_networks.command_for(kind))
app.add_typer(train.app, name="train")
app.command("attack")(attack.attack)
app.command("score")(score.score)
app.command("compare")(compare.compare)
app.command("report")(report.report)
app.command("audit")(audit.audit)
app.add_typer(sweep.app, name="sweep")
app.command("reproduce")(reproduce.reproduce)


def main() -> None:
    """Runs the command line; errors that exhume foresees become one line and exit code 2."""
    try:
        app()
    except ExhumeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted; what was finished before stays", file=sys.stderr)
        sys.exit(130)


__all__ = ["app", "main"]
