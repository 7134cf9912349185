"""People's data: reading, checking, and what `split` makes of them."""
