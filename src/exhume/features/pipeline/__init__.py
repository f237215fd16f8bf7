"""Feature maps of data pipelines, from plain tensors: random Fourier features, and compositions of functions."""
