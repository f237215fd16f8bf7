"""The planning room: what an attack would cost, in passes, flops, memory and time, before it is begun."""

from exhume.planning.cost import Cost, Plan, Seconds, plan
from exhume.planning.hardware import GPU, THOUSAND_GPUS, Hardware
from exhume.planning.outlook import Outlook, outlook

__all__ = ["GPU", "THOUSAND_GPUS", "Cost", "Hardware", "Outlook", "Plan", "Seconds", "outlook", "plan"]
