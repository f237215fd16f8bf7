"""What an attack would cost, in passes, operations, memory and time, before it is run."""

from exhume.planning.cost import Cost, Plan, Seconds, plan
from exhume.planning.hardware import GPU, Hardware
from exhume.planning.known_data_sets import Outlook, outlook

__all__ = ["GPU", "Cost", "Hardware", "Outlook", "Plan", "Seconds", "outlook", "plan"]
