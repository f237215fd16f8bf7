"""`exhume law`: forecast from sizes or of a network, cost of an attack, and numerical tests of the theory."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from exhume.cli.options import Json, parse_whole, with_option_groups
from exhume.cli.render import cell, progress, show
from exhume.errors import InputError
from exhume.law import Forecast, forecast
from exhume.support.text import table

if TYPE_CHECKING:
    from exhume.research.theory import Check

_COLUMNS = 110  # to which the statements of --verify are wrapped


@dataclass(frozen=True)
class HardwareOptions:
    """What an attack would run on, as the user writes it; this machine is measured if nothing is given."""

    flops: Annotated[
        str | None, typer.Option(help="With --cost: float32 operations per second of one process, such as 20e12.")
    ] = None
    bandwidth: Annotated[str | None, typer.Option(help="With --cost: bytes a process reads per second.")] = None
    memory: Annotated[str | None, typer.Option(help="With --cost: memory of one process, such as 80GB.")] = None
    processes: Annotated[str | None, typer.Option(help="With --cost: how many processes share the work.")] = None
    network: Annotated[str | None, typer.Option(help="With --cost: bytes a process sends per second.")] = None
    drawing: Annotated[
        str | None, typer.Option(help="With --cost: numbers of V that one process draws per second; 1e9 by default.")
    ] = None

    def stated(self) -> dict[str, str | None]:
        """The options by name, "--flops" and so on."""
        return {f"--{name}": value for name, value in asdict(self).items()}


_MODEL = ("--parameters", "--dim", "--samples", "--outputs", "--activation")
# The options of each form of the command.
_OPTIONS = {
    "a forecast": (*_MODEL, "--known-samples", "--subspace-dim", "--norms-known"),
    "--cost": (*_MODEL, *HardwareOptions().stated()),
    "--model": ("--input-shape", "--samples", "--activation"),
    "--verify": ("--seed",),
}


@with_option_groups
def law(
    context: typer.Context,
    *,
    parameters: Annotated[str | None, typer.Option(help="Weights of the trained layer, p; may be written 3e6.")] = None,
    dim: Annotated[str | None, typer.Option(help="Input dimension, d.")] = None,
    samples: Annotated[str | None, typer.Option(help="Training samples, n.")] = None,
    outputs: Annotated[int, typer.Option(help="Outputs of the layer, k.")] = 1,
    activation: Annotated[
        str,
        typer.Option(help="Activation: whether norms are unknowns, how many features a sample uses; --model shows it."),
    ] = "relu",
    known_samples: Annotated[str, typer.Option(help="How many of the samples the attacker knows already.")] = "0",
    subspace_dim: Annotated[
        str | None, typer.Option(help="Dimension of a known subspace that contains the samples; it replaces d.")
    ] = None,
    norms_known: Annotated[bool, typer.Option("--norms-known", help="The norms of the samples are known.")] = False,
    model: Annotated[
        str | None, typer.Option(help="Count the equations of all layers of a network: mymodel.py:build.")
    ] = None,
    input_shape: Annotated[
        str | None, typer.Option(help="With --model: shape of one input, for instance 3,32,32.")
    ] = None,
    cost: Annotated[bool, typer.Option("--cost", help="Predict passes, memory and time of the exact attack.")] = False,
    hardware: HardwareOptions,
    verify: Annotated[bool, typer.Option("--verify", help="Test numerically what the theorems rest on.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of --verify; 0 by default.")] = None,
    json: Json = False,
) -> None:
    """Forecast whether training data can be recovered from weights. Also plan the cost, or verify the theory.

    Example: exhume law --parameters 3e6 --dim 3072 --samples 100

    Example: exhume law --cost --parameters 3e6 --dim 3072 --samples 100

    Example: exhume law --model mymodel.py:build --input-shape 3,32,32 --samples 10

    Example: exhume law --verify
    """
    form = "--verify" if verify else "--model" if model is not None else "--cost" if cost else "a forecast"
    _check_options(context, form)
    if verify:
        _verify(seed or 0, json)
        return
    if model is not None:
        if input_shape is None or samples is None:
            raise InputError("--model needs --input-shape, for instance 3,32,32, and --samples")
        from exhume.cli.law.network import show_network  # imports torch

        source = context.get_parameter_source("activation")
        stated = activation if source is not None and source.name == "COMMANDLINE" else None
        show_network(model, input_shape, parse_whole(samples, "--samples", least=1), stated, json)
        return
    p, d, n = _sizes({"--parameters": parameters, "--dim": dim, "--samples": samples})
    if cost:
        from exhume.cli.law.cost import show_cost  # imports torch

        show_cost((p, d, n, outputs), activation, hardware.stated(), json)
        return
    result = forecast(
        p,
        d,
        n,
        num_outputs=outputs,
        activation=activation,
        known_samples=parse_whole(known_samples, "--known-samples", least=0),
        subspace_dim=None if subspace_dim is None else parse_whole(subspace_dim, "--subspace-dim", least=1),
        norms_known=norms_known,
    )
    show(_text(result), result.to_json(), json)


def _check_options(context: typer.Context, form: str) -> None:
    """Refuses options that this form of the command does not use."""
    given = [
        f"--{name.replace('_', '-')}"
        for name in context.params
        if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    ]
    misplaced = [option for option in given if option not in (form, *_OPTIONS[form], "--json")]
    if misplaced:
        owner = next((each for each in _OPTIONS if misplaced[0] in _OPTIONS[each]), None)
        belongs = f" ({misplaced[0]} belongs to {owner})" if owner else ""
        raise InputError(f"{form} does not take {', '.join(misplaced)}{belongs}; valid: {', '.join(_OPTIONS[form])}")


def _sizes(texts: dict[str, str | None]) -> tuple[int, int, int]:
    """p, d and n, all of which are needed."""
    missing = [option for option, text in texts.items() if text is None]
    if missing:
        raise InputError(
            f"missing {', '.join(missing)}; valid: {', '.join(texts)}, each with a whole number, or --verify alone"
        )
    p, d, n = (parse_whole(text or "", option, least=1) for option, text in texts.items())
    return p, d, n


def _text(result: Forecast) -> str:
    lines = [
        result.sentence,
        f"  equations               {result.equations}",
        f"  unknowns                {result.unknowns}",
        f"  equations per sample    {result.equations_per_sample}",
        f"  unknowns per sample     {result.unknowns_per_sample}",
        f"  binding count           {result.binding}",
        f"  p / (d n)               {result.ratio:.4g}",
        f"  verdict                 {result.verdict}",
        f"  fewest parameters       {result.smallest_parameters}",
        f"  comfortable parameters  {result.comfortable_parameters}",
        f"  most samples            {result.largest_samples}",
    ]
    return "\n".join(lines)


def _verify(seed: int, as_json: bool) -> None:
    """Runs the checks of the theory and prints them; exit code 1 if one of them fails."""
    from exhume.research.theory import verify

    with progress("checking the theory") as update:
        checks = verify(seed, lambda done, total: update(done, total, f"{done} of {total} checks"))
    holding = sum(check.passed for check in checks)
    text = [*map(_describe, checks), f"{holding} of {len(checks)} statements hold (seed {seed})."]
    passed = holding == len(checks)
    show("\n\n".join(text), {"checks": [check.to_json() for check in checks], "passed": passed}, as_json)
    if not passed:
        raise typer.Exit(1)


def _describe(check: Check) -> str:
    """Name and statement, table, and whether the statement holds."""
    words = [any(isinstance(value, str) for value in column) for column in zip(*check.rows, strict=True)]
    left = [*words, False].index(False)  # leading columns of words
    rows = table(check.columns, [[cell(value, ".4g") for value in row] for row in check.rows], left=left)
    verdict = "holds" if check.passed else "does not hold"
    if check.predicted is None:
        conclusion = f"{verdict} (tolerance {check.tolerance:.0e})"
    else:
        fitted = "none" if check.fitted is None else f"{check.fitted:.3f}"
        conclusion = (
            f"fitted exponent {fitted}, predicted {check.predicted:g} (tolerance {check.tolerance:g}): {verdict}"
        )
    statement = textwrap.wrap(f"{check.name}: {check.statement}", _COLUMNS, subsequent_indent="  ")
    return "\n".join([*statement, textwrap.indent(rows, "  "), f"  {conclusion}"])
