"""Where the rows come from: FROM, joins, subqueries; each row still belongs to one unit, or is public."""
