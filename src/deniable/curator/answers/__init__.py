"""What a question gets: its table with intervals, how it is written, kept and to be read."""
