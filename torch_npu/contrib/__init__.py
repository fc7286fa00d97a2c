"""Interfaces of other packages that scripts for NPUs use."""
