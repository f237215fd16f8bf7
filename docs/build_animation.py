"""Draws docs/images/attack.gif: 20 digits coming out of the weights of a model: `python docs/build_animation.py`.

The frames are the samples that the attack holds after its steps; the last one is the result, and below it the training
images, which the attack has not seen.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from scipy.optimize import linear_sum_assignment

import exhume
from exhume import data
from exhume.attacks import ProgressEvent
from exhume.support.images import stretched

PAGE = Path(__file__).parent / "images" / "attack.gif"
SAMPLES, FEATURES, SHAPE = 20, 6400, (1, 8, 8)
COLUMNS, SIDE, GAP, TEXT = 10, 56, 6, 26  # pixels
FRAMES, FRAME_MS, LAST_MS = 90, 400, 5000


def main() -> None:
    """Attacks, and writes the animation."""
    digits = data.load("digits", samples=SAMPLES)
    victim = exhume.RandomFeatures(num_features=FEATURES, seed=0).fit(digits.inputs, digits.labels)
    seen: list[tuple[float, torch.Tensor]] = []

    def note(event: ProgressEvent) -> None:
        if event.samples is not None and len(event.samples) >= SAMPLES and event.samples.shape[1] == 64:
            seen.append((event.passes, event.samples.clone()))

    result = exhume.reconstruct(victim.target(), num_samples=SAMPLES, progress=note)
    score = exhume.score(result, digits.inputs)
    truth = digits.inputs[[match.truth_index for match in sorted(score.matches, key=lambda each: each.row)]]
    # A search may hold more rows than there are samples, in another order and with other signs: in every frame each
    # sample of the result is shown by a row of its own that is like it up to sign. The truth is not used for this.
    frames = []
    chosen = np.unique(np.geomspace(1, len(seen), FRAMES).round().astype(int)) - 1
    for place in chosen:
        passes, rows = seen[place]
        cosines = torch.nn.functional.normalize(result.samples.float()) @ torch.nn.functional.normalize(rows.float()).T
        best = torch.from_numpy(linear_sum_assignment(cosines.abs().numpy(), maximize=True)[1])
        signs = cosines.gather(1, best[:, None]).sign()
        frames.append(_frame(rows.float()[best] * signs, None, f"attack on the weights: {passes:,.0f} passes"))
    recovered = f"{score.recovered} of {SAMPLES} recovered, error {score.error:.0e}; below: the training images"
    frames.append(_frame(result.samples, truth, recovered))
    durations = [FRAME_MS] * (len(frames) - 1) + [LAST_MS]
    frames[0].save(PAGE, save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True)
    print(f"{len(frames)} frames, {sum(durations) / 1000:.0f} s, {PAGE.stat().st_size / 1e6:.2f} MB: {PAGE}")


def _frame(samples: torch.Tensor, truth: torch.Tensor | None, words: str) -> Image.Image:
    """One picture: two rows of ten samples, a line of words, and two rows of true images or of nothing."""
    height = 4 * (SIDE + GAP) + TEXT + GAP
    frame = Image.new("L", (COLUMNS * (SIDE + GAP) + GAP, height), 255)
    ImageDraw.Draw(frame).text((GAP, 2 * (SIDE + GAP) + GAP), words, fill=0, font_size=16)
    for top, vectors in ((GAP, samples), (2 * (SIDE + GAP) + TEXT + GAP, truth)):
        for place, picture in enumerate([] if vectors is None else stretched(vectors, SHAPE)):
            pixels = Image.fromarray((picture[0].numpy() * 255).astype(np.uint8)).resize(
                (SIDE, SIDE), Image.Resampling.NEAREST
            )
            row, column = divmod(place, COLUMNS)
            frame.paste(pixels, (GAP + column * (SIDE + GAP), top + row * (SIDE + GAP)))
    return frame.quantize(16)


if __name__ == "__main__":
    main()
