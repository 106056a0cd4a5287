"""Rounds with real devices: what travels, who carries it, the server's side and the device's."""
