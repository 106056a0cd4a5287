"""What keeps the doors open in a flood: work in threads and waiting in the event loop, shares of threads and
places for each address, and who is behind a proxy."""
