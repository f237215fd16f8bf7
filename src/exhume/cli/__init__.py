"""The command line: each command parses its options, calls the library and prints the result.

A command's module is imported when the command is used, so that `exhume --help` takes no longer than a small program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from exhume.errors import ExhumeError

# Name of each command and the first sentence of its help. Command `name` is the function, or the group of commands
# `app`, in exhume.cli.<name>; a test compares these sentences with theirs.
COMMANDS = {
    "demo": "Train a model on 20 digits and recover them from its weights.",
    "law": "Forecast whether training data can be recovered from weights. Also plan the cost, or verify the theory.",
    "data": "List the data sets and where they were found. Optionally download one.",
    "train": "Train a victim and write its run folder.",
    "attack": "Reconstruct the training data from the weights alone. The true data are not read.",
    "score": "Score a reconstruction against the true data. Writes score.json, and gallery.png for images.",
    "compare": "Run several attacks on one victim and score them. Writes compare.json, and compare.png for images.",
    "report": "Write one page of HTML that works offline. Only its owner can read it: it may show training data.",
    "audit": "Find out whether your model contains its training set. Forecast, attack, certificate, score and report.",
    "benchmark": "Rank attacks, also your own, on named victims. Writes results.json and a page.",
    "runs": "List run folders and audits with their verdicts and outcomes.",
    "sweep": "Run grids of experiments.",
    "reproduce": "Run figures of the paper and draw them. The paper's method and ours are side by side.",
}


class LazyGroup(TyperGroup):
    """Lists placeholders of its commands, which know their help; imports the command that is used."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parses the options before the command's name."""
        _skip_conversion_of_text(self, ctx)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name, in place of its placeholder."""
        name, _, rest = super().resolve_command(ctx, args)
        command = load_command(name)
        _skip_conversion_of_text(command, ctx)
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; a Ctrl-C that it does not answer itself came before anything was saved."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            from exhume.cli.interruption import NOTHING, end

            end(NOTHING)


def load_command(name: str | None) -> Any:
    """Imports a command and makes it one of the command line."""
    from exhume.cli.render import quiet_option

    module = import_module(f"exhume.cli.{name}")
    found = getattr(module, "app", None)
    if found is None:
        found = typer.Typer(add_completion=False, rich_markup_mode=None)
        found.command(name)(getattr(module, str(name)))
    command = typer.main.get_command(found)
    for each in getattr(command, "commands", {"": command}).values():
        each.params.append(quiet_option())
    return command


def _skip_conversion_of_text(command: Any, ctx: Any) -> None:
    """Passes options that are text, or keep their default, on as they are.

    To convert a value typer imports pydantic, which takes longer than all else that a forecast needs.
    """
    if command.callback is None:  # a group of commands without options of its own
        return
    hints = get_type_hints(getattr(command.callback, "__wrapped__", command.callback))
    for each in command.get_params(ctx):
        if not each.required and not each.multiple and each.nargs == 1:
            is_text = hints.get(each.name) in (str, str | None)
            vars(each)["process_value"] = partial(_process_value, each, each.process_value, is_text)


def _process_value(option: Any, convert: Callable[[Any, Any], Any], is_text: bool, ctx: Any, value: Any) -> Any:
    """The value for the command; `convert` is typer's way to it."""
    if value is None or isinstance(value, (bool, int, float)) or (is_text and isinstance(value, str)):
        return value if option.callback is None else option.callback(ctx, option, value)
    return convert(ctx, value)


app = typer.Typer(
    name="exhume",
    cls=LazyGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(lambda: None)


def _print_version(wanted: bool) -> None:
    if wanted:
        import exhume

        print(f"exhume {exhume.__version__}")
        raise typer.Exit()


@app.callback()
def _exhume(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Recover training data from trained weights, forecast when that is possible, and score the recovery."""


def main() -> None:
    """Runs the command line; an error that exhume raises on purpose becomes one line and exit code 2."""
    try:
        app()
    except ExhumeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


__all__ = ["COMMANDS", "app", "load_command", "main"]
