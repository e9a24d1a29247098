"""The whole system on this machine: the embedded AWS, this repository's template in it, an upstream, and workers."""
