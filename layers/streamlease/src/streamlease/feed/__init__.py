"""One connection's life without I/O: what a feed is (`feed`), what happens to it and what it asks for (`events`), and
the machine that decides (`machine`)."""
