"""Any model as a classifier: its adapters, its digest, and whether it answers each input on its own."""
