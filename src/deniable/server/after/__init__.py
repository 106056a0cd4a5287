"""What follows a release, in processes of its own: no text of an analyst's is run in the server's."""
