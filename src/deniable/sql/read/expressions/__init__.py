"""From syntax to typed expressions: the translator, and the rules for types that meet, texts and keys."""
