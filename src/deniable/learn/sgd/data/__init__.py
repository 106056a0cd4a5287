"""Private rows: what one looks like (`forms`), lots of them from the containers that people have (`rows`),
by user (`users`), by the step of their arrival (`arrivals`), and views of them (`views`)."""
