"""Passes over a program: each changes it in place and keeps what it computes."""
