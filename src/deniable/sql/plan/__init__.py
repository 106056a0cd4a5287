"""From a checked query to a mechanism: what is measured, with how much noise, and what that costs."""
