"""Doors into other people's frameworks: each hands the mail that is sent there to rqmail."""
