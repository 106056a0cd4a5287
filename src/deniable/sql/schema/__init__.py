"""The owner's declaration: columns, types, bounds, public keys; as a value, as a file,
and a first draft from metadata."""
