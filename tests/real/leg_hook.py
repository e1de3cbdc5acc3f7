"""What the suite starts in its client leg: a gateway in front of the suite's server, and a client.

Called with the server's URL as its last argument. With LEG_DIRECT set there is no gateway in between.
"""

import os
import subprocess
import sys

from parts import HERE, Parts, place


def client(url: str) -> int:
    script = HERE / "clients" / "leg.mjs"
    return subprocess.run([place("REAL_NODE"), script, url], check=False, timeout=60).returncode


def main() -> int:
    server = sys.argv[-1]
    if os.environ.get("LEG_DIRECT"):
        return client(server)
    with Parts() as parts:
        part, url = parts.gateway({"suite": {"url": server}})
        code = client(f"{url}/servers/suite/mcp")
        if code:
            print(part.tail(), file=sys.stderr)
        return code


sys.exit(main())
