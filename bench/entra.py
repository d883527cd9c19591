"""The sandbox's Entra in a process of its own: gives out the tokens a bench needs."""

from __future__ import annotations

import json
import sys

from rqmail.sandbox.server import Sandbox

if __name__ == "__main__":
    sandbox = Sandbox(data_dir=sys.argv[1])
    sandbox.serve_forever(lambda: print(json.dumps([sandbox.authority, str(sandbox.ca_file)]), flush=True))
