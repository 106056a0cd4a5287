"""What follows a release: SQL over released tables, which costs nothing."""
