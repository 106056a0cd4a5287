"""One module for each revision; a released revision never changes."""
