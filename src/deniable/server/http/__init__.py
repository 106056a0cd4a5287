"""REST under /v1: one thin function a route, each of which asks the service."""
