"""What an attack returns: why it stopped, the samples, and a certificate of how far to trust them."""
