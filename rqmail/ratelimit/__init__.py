"""The brake before Exchange's own: how much each mailbox may send, counted on Redis for all processes.

``limiter.py`` is what others call: one message's place (``check_and_reserve.lua``), one mailbox's ``switches.py``, many
mailboxes' ``reading.py``. ``server.py`` runs the scripts and fails open, ``refilling.py`` tells what Redis forgot
from the table, ``uncounted.py`` what went out without it. ``layout.lua`` says what is kept in Redis.
"""
