"""Adapters: the attacks under the interfaces of other toolboxes, each an extra."""
