"""Problems on which the attacks' numbers were tuned, the suites that show their effect, and rare cases."""

from __future__ import annotations

SPHERE = {"problem": "sphere d=30 n=20, p = 1.75 to 5dn; CIFAR-10 n=10, p = 3.25dn", "suite": "sphere"}
SCARCE = {**SPHERE, "suite": "scarce"}
ALIKE = {"problem": "CIFAR-10 n=10, p = 3.25dn", "suite": "alike"}
NORMS = {"problem": "sphere with norms of 0.5 to 1.5 sqrt(d), tanh and gelu", "suite": "norms"}
BASIS = {"problem": "CIFAR-10 at 16 x 16, n = 30 and 60, p = 2.5 and 3dn", "suite": "basis"}
LARGE = {"problem": "CIFAR-10 n=100, p = 10dn (Figure 1)", "suite": "basis"}
OUTPUTS = {"problem": "breast-cancer n=8 with two outputs; digits n=5 with ten", "suite": "outputs"}
ANNEALED = {"problem": "sphere d=30 n=20 with 2, 5 and 10 outputs at 1.6 times the wall", "suite": "outputs"}
SPANNED = {
    "problem": "two-layer networks on ten CIFAR-10 images with ten outputs, p_L = 2.5dn; sphere d=30 n=20 with twenty",
    "suite": "outputs",
}
NETWORK = {"problem": "two-layer networks and conv nets on 4 to 12 digits", "suite": "network"}
DRIFTING = {"problem": "calibration families of `benches.drifting_networks`, 8 x 8 pixels, 0 to 89", "suite": "network"}
COUNT = {"problem": "sphere d=30 n=10, p = 3dn, n unknown", "suite": "count"}
ROUNDED = {"problem": "sphere d=30 n=20 with weights rounded to float16", "suite": "rounded"}
LAST = {"problem": "sphere d=30 n=10, nine samples known", "suite": "last"}
INSIDE = {"problem": "two-layer networks on ten CIFAR-10 images, p_L = 0.05 to 1dn", "suite": "subspace"}
LARGE_ONLY = "problems with more than 2^20 entries of V"
ROUNDING = "separates rounding from signal by orders of magnitude on each side"
COLUMNS = {"problem": "ReLU networks 64-256-5, 256-512-512-5 and 784-128-10 on 10 and 20 images", "suite": "columns"}
MISSING = {
    "problem": "SimuDy's network on 100 images, trained with small batches to a loss below 1e-3",
    "suite": "columns",
    "rare": "networks trained for long on more than 20 samples",
}
SMOOTH = {
    "problem": "GELU and tanh networks 64-500-5 to 256-512-512-5 on 10 and 20 images",
    "suite": "smooth",
}
