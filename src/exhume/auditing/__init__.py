"""Audits: can training data be recovered from a model that is about to be published?"""

from exhume.auditing.batch import Audited, audit_all
from exhume.auditing.initial import find_checkpoint
from exhume.auditing.result import Audit
from exhume.auditing.run import audit, audit_settings
from exhume.auditing.settings import Refused, Settings, read_settings

__all__ = [
    "Audit",
    "Audited",
    "Refused",
    "Settings",
    "audit",
    "audit_all",
    "audit_settings",
    "find_checkpoint",
    "read_settings",
]
