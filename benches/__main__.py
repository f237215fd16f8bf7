"""`python -m benches [name ...]` runs the named benches, or all of them, each in a separate process."""

import importlib
import subprocess
import sys

BENCHES = (
    "structure",
    "step_cost",
    "startup",
    "cost_table",
    "memory",
    "sample_count",
    "activations",
    "released_weights",
    "certificate",
    "mixed_certificates",
    "cifar10",
    "convergence",
    "success_curve",
    "paper_curve",
    "networks",
    "network_certificate",
    "ordinary_certificates",
    "first_layer",
    "subspace_dimension",
    "informed",
    "gradient_matching",
    "pruning",
    "logistic",
    "width_bound",
    "seeds",
    "records",
    "estimators",
    "twins",
    "audits",
    "null_audits",
    "several_outputs",
    "unmix",
    "layers",
    "resnet",
    "replay",
    "tabular",
    "diagnosis",
    "defences",
    "unmix_defences",
    "passes",
    "sensitivity",
    "sphere100",
    "scaling",
    "hot_loop",
    "laptop",
    "figure1",
    "several_processes",
)


def main(chosen: list[str]) -> None:
    unknown = set(chosen) - set(BENCHES)
    if unknown:
        sys.exit(f"unknown bench {', '.join(sorted(unknown))}; valid: {', '.join(BENCHES)}")
    if len(chosen) == 1:
        module = importlib.import_module(f"benches.{chosen[0]}")
        print(f"## {chosen[0]}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        module.main()
        return
    for name in chosen or BENCHES:  # separate processes, so that peak memory is measured per bench
        subprocess.run([sys.executable, "-m", "benches", name], check=True)
        print(flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
