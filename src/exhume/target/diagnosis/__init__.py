"""What the weights alone show of how a model was trained."""

from exhume.target.diagnosis.findings import Finding, diagnose

__all__ = ["Finding", "diagnose"]
