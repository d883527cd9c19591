"""The whole system on one machine, to try it out: ``rqmail run``.

``story`` tells what happens in order; ``folder`` is what is kept, ``children`` the processes, ``sample`` the campaign,
``view`` what is seen meanwhile.
"""
