"""What an attack would cost, in passes, operations, memory and time, and what it could read, before it is run."""

from exhume.planning.cost import Cost, Plan, Seconds, plan
from exhume.planning.hardware import GPU, Hardware
from exhume.planning.known_data_sets import Outlook, outlook
from exhume.planning.network_counts import LayerCount, NetworkForecast, forecast_network

__all__ = [
    "GPU",
    "Cost",
    "Hardware",
    "LayerCount",
    "NetworkForecast",
    "Outlook",
    "Plan",
    "Seconds",
    "forecast_network",
    "outlook",
    "plan",
]
