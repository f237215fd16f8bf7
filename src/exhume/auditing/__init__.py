"""Audits: does a model that is about to be published carry its training set?"""

from exhume.auditing.audited import Audit
from exhume.auditing.run import audit, audit_settings
from exhume.auditing.settings import Refused, Settings, read_settings
from exhume.auditing.several import Audited, audit_all

__all__ = ["Audit", "Audited", "Refused", "Settings", "audit", "audit_all", "audit_settings", "read_settings"]
