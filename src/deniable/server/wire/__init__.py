"""PostgreSQL's protocol, version 3: psql, pandas and BI tools get private answers. Own asyncio code, no
server behind it."""
