"""Charts that only some reports show: the place of a model on the axis of the law, and what unmixing rests on."""
