"""A local Microsoft Graph and Entra over HTTPS, for runs and tests without a tenant.

Start with ``server`` (starting and stopping it) and ``application`` (what is on which path); ``graph`` reads like the
list of operations, ``calls`` is what each of them goes through, ``client`` is for those who test against it.
"""
