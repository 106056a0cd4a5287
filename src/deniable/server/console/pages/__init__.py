"""The pages of the console, one file each: what is read from a visit, and what the page is given to show."""
