"""Which data an account is about: one ledger a data set, one account a source, its versions, who is to be
forgotten."""
