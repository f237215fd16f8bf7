"""Numerical tests of the theory and reproductions of the paper's figures. Nothing else imports this."""
