"""A page that shows the samples of a running attack as they emerge; the browser loads it again every two seconds.

It is written from what the attack itself knows: the truth is not read.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from exhume.attacks import Pace, ProgressEvent
from exhume.report.page import environment
from exhume.results.reconstruction import Reconstruction
from exhume.support import files
from exhume.support.images import data_uri, shape_of_picture, stretched
from exhume.support.text import duration

_EVERY = 2.0  # seconds between two writes, and between two loads by the browser
_MOST_SAMPLES = 60
_LARGEST_SIDE = 128  # pixels
_MOST_POINTS = 400  # of the curve of the loss


@dataclass
class WatchPage:
    """The page of one attack.

    Attributes:
        path: the file, in the folder of the attack in that of the run.
        method: the attack's name.
        input_shape: of one sample.
    """

    path: Path
    method: str
    input_shape: Sequence[int]
    _began: float = field(default_factory=time.monotonic)
    _written: float = -math.inf
    _pace: Pace = field(default_factory=Pace)
    _losses: list[tuple[float, float]] = field(default_factory=list)
    _samples: torch.Tensor | None = None

    def update(self, event: ProgressEvent) -> None:
        """Takes an event of the attack, and writes the page again if the last one is two seconds old."""
        if event.loss > 0 and math.isfinite(event.loss):
            self._losses.append((event.passes, event.loss))
        if event.samples is not None and event.samples.shape[1] == math.prod(self.input_shape):
            self._samples = event.samples
        words, now = self._pace.update(event), time.monotonic()
        if now - self._written < _EVERY:
            return
        self._written = now
        self._write(f"running: {words}", "", refresh=_EVERY)

    def finish(self, result: Reconstruction) -> None:
        """Writes the samples of the result and the verdict; the page is not loaded again."""
        self._samples = result.samples
        self._write(f"{result.ending}", f"verdict: {result.certificate.verdict}", refresh=None)

    def _write(self, status: str, verdict: str, refresh: float | None) -> None:
        page = (
            environment()
            .get_template("watch.html.j2")
            .render(
                method=self.method,
                run=self.path.parent.parent.name,
                status=status,
                verdict=verdict,
                refresh=refresh,
                elapsed=duration(time.monotonic() - self._began),
                pictures=self._pictures(),
                is_picture=shape_of_picture(self.input_shape) is not None,
                points=self._points(),
                losses=(self._losses[0][1], self._losses[-1][1]) if self._losses else (),
            )
        )
        files.write_bytes(self.path, page.encode())

    def _pictures(self) -> list[str]:
        """The first samples as pictures; vectors as a strip of one pixel per coordinate."""
        if self._samples is None:
            return []
        shape = shape_of_picture(self.input_shape) or (1, 1, self._samples.shape[1])
        finite = self._samples[:_MOST_SAMPLES].detach().cpu().nan_to_num(posinf=0.0, neginf=0.0)
        return [data_uri(each, _LARGEST_SIDE if shape[1] > 1 else None) for each in stretched(finite, shape)]

    def _points(self) -> str:
        """The curve of the loss in a box of 100 x 30, logarithmic, as points of SVG."""
        every = 1 + len(self._losses) // _MOST_POINTS
        curve = self._losses[::every]
        if len(curve) < 2:
            return ""
        last, values = max(passes for passes, _ in curve), [math.log10(loss) for _, loss in curve]
        low, high = min(values), max(values)
        return " ".join(
            f"{100 * passes / max(last, 1e-9):.2f},{30 * (high - value) / max(high - low, 1e-9):.2f}"
            for (passes, _), value in zip(curve, values, strict=True)
        )
