"""A package as one page of HTML that needs nothing else: no network, no other file, and for most of it no script."""
