"""Tables held in memory: their columns, read, standardised and written back."""
