"""From syntax to typed expressions."""
