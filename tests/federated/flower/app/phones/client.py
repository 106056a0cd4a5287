"""A node hands messages to its device, and knows nothing else."""

from deniable.federated.devices.flower import relay_app

app = relay_app()
