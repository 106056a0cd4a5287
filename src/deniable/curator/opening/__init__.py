"""How a data set is opened: what its sources are called, and the account of a ledger that pays for it."""
