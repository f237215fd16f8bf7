"""`exhume law`: what the law says of given sizes, what an attack would cost, and numerical tests of the theory."""

from __future__ import annotations

from typing import Annotated

import typer

from exhume.cli import law_cost
from exhume.cli.law_verify import verify_law
from exhume.cli.options import whole
from exhume.cli.render import Json, show
from exhume.errors import InputError
from exhume.law import Forecast, forecast


def law(
    parameters: Annotated[str | None, typer.Option(help="Weights of the trained layer, p; 3e6 is understood.")] = None,
    dim: Annotated[str | None, typer.Option(help="Input dimension, d.")] = None,
    samples: Annotated[str | None, typer.Option(help="Training samples, n.")] = None,
    outputs: Annotated[int, typer.Option(help="Outputs of the layer, k.")] = 1,
    activation: Annotated[str, typer.Option(help="Activation: it decides whether norms count as unknowns.")] = "relu",
    known_samples: Annotated[str, typer.Option(help="How many of the samples the attacker holds already.")] = "0",
    subspace_dim: Annotated[
        str | None, typer.Option(help="Dimension of a known subspace with the samples in it; it stands in for d.")
    ] = None,
    norms_known: Annotated[bool, typer.Option("--norms-known", help="The norms of the samples are known.")] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="Predict passes, operations, memory and time of the exact attack.")
    ] = False,
    table: Annotated[bool, typer.Option("--table", help="With --cost: known data sets, up to ImageNet.")] = False,
    flops: law_cost.Flops = None,
    bandwidth: law_cost.Bandwidth = None,
    memory: law_cost.MemoryOf = None,
    processes: law_cost.Processes = None,
    network: law_cost.Network = None,
    drawing: law_cost.Drawing = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Test numerically what the theorems rest on; takes no sizes.")
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of --verify; 0 unless given.")] = None,
    json: Json = False,
) -> None:
    """Forecast whether training data can be reconstructed from the weights, plan it, or verify the theory.

    Example: exhume law --parameters 3e6 --dim 3072 --samples 100

    Example: exhume law --cost --parameters 3e6 --dim 3072 --samples 100

    Example: exhume law --verify
    """
    sizes = {"--parameters": parameters, "--dim": dim, "--samples": samples}
    stated = law_cost.Stated(flops, bandwidth, memory, processes, network, drawing)
    knowing = {
        "--known-samples": known_samples != "0",
        "--subspace-dim": subspace_dim is not None,
        "--norms-known": norms_known,
    }
    others = {"--outputs": outputs != 1, "--activation": activation != "relu", **knowing}
    _check_form(verify, cost, table, seed, [option for option, size in sizes.items() if size is not None], stated)
    _check_fixed("--verify" if verify else "--table" if table else None, _given(others))
    if verify:
        verify_law(seed or 0, json)
    elif cost and table:
        law_cost.cost_table(stated, json)
    elif cost:
        _check_planned(sizes, _given(knowing))
        law_cost.cost_of(*_numbers(sizes), outputs, activation, stated, json)
    else:
        p, d, n = _numbers(sizes)
        result = forecast(
            p,
            d,
            n,
            num_outputs=outputs,
            activation=activation,
            known_samples=whole(known_samples, "--known-samples", least=0),
            subspace_dim=None if subspace_dim is None else whole(subspace_dim, "--subspace-dim", least=1),
            norms_known=norms_known,
        )
        show(_text(result), result.to_json(), json)


def _check_form(
    verify: bool, cost: bool, table: bool, seed: int | None, sizes: list[str], stated: law_cost.Stated
) -> None:
    """Refuse options that belong to another form of the command."""
    if verify and cost:
        raise InputError("--cost and --verify were both given; valid: one of them")
    if verify and sizes:
        raise InputError(f"--verify was given {', '.join(sizes)}; valid: no sizes, it chooses its own")
    if table and sizes:
        raise InputError(f"--table was given {', '.join(sizes)}; valid: no sizes, it has its own")
    if seed is not None and not verify:
        raise InputError(f"--seed is {seed} without --verify; a forecast has no seed")
    misplaced = [*(["--table"] if table else []), *stated.given]
    if misplaced and not cost:
        raise InputError(f"{', '.join(misplaced)} without --cost; valid: exhume law --cost {' '.join(misplaced)} ...")


def _check_fixed(form: str | None, given: list[str]) -> None:
    """Refuse options that a form with problems of its own would ignore."""
    if form is not None and given:
        raise InputError(f"{form} was given {', '.join(given)}; valid: none of them, it has its own problems")


def _check_planned(sizes: dict[str, str | None], knowing: list[str]) -> None:
    """Refuse what no plan can be made of."""
    if knowing:
        raise InputError(
            f"{', '.join(knowing)} cannot be combined with --cost: only attacks without such knowledge are planned"
        )
    missing = [option for option, size in sizes.items() if size is None]
    if missing:
        raise InputError(f"missing {', '.join(missing)}; valid: all three, or exhume law --cost --table")


def _given(options: dict[str, bool]) -> list[str]:
    """The options that were given."""
    return [option for option, given in options.items() if given]


def _text(result: Forecast) -> str:
    lines = [
        result.sentence,
        f"  equations               {result.equations}",
        f"  unknowns                {result.unknowns}",
        f"  p / (d n)               {result.ratio:.4g}",
        f"  verdict                 {result.verdict}",
        f"  fewest parameters       {result.smallest_parameters}",
        f"  comfortable parameters  {result.comfortable_parameters}",
        f"  most samples            {result.largest_samples}",
    ]
    return "\n".join(lines)


def _numbers(sizes: dict[str, str | None]) -> tuple[int, int, int]:
    """p, d and n, all of which are needed."""
    p, d, n = (_required(option, size) for option, size in sizes.items())
    return p, d, n


def _required(option: str, value: str | None) -> int:
    """The whole number given for an option that a forecast cannot do without."""
    if value is None:
        raise InputError(f"missing option {option}; valid: {option} with a whole number, or --verify alone")
    return whole(value, option, least=1)
