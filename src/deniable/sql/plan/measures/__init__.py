"""What is measured of each group: one class for each kind of integer, with all that is known of it in one
file."""
