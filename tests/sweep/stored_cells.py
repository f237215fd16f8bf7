"""Cells of a sweep in a store, for tests of the store and of its file."""

import fake_experiments

from exhume.sweep import Finished, Grid

CELLS = Grid(data="sphere", ratio=[1, 2], attack="exact", seeds=3).cells()
KEYS = [cell.key for cell in CELLS]


def finish(store, cell, **changes):
    about = {"seconds": 1.5, "worker": "tcp://w", "versions": {"exhume": "0", "torch": "2"}}
    return store.finish(cell.key, Finished(outcome=fake_experiments.outcome(cell, **changes)), **about)


def states(store, sweep="a"):
    return [record.state for record in store.records(sweep)]
