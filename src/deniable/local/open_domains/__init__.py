"""Words that nobody listed beforehand: hashes, sketches, RAPPOR, and how unknown ones are found."""
