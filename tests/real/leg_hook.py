"""What the suite starts in its client leg: a gateway in front of the suite's server, and a client.

Called with the server's URL as its last argument. With LEG_DIRECT set there is no gateway in between.
"""

import json
import os
import subprocess
import sys
from urllib.parse import urlsplit

from idp import ask
from parts import HERE, Parts, place


def client(url: str) -> int:
    script = HERE / "clients" / "leg.mjs"
    return subprocess.run([place("REAL_NODE"), script, url], check=False, timeout=60).returncode


def credential(server: str, context: dict) -> dict:
    """What the configuration says of a server that wants an access token: the token endpoint is found as a person who
    writes it would, from the server's metadata."""
    parts = urlsplit(server)
    resource = ask(f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}").json()
    issuer = urlsplit(resource["authorization_servers"][0])
    path = f"/.well-known/oauth-authorization-server{issuer.path.rstrip('/')}"
    endpoint = ask(f"{issuer.scheme}://{issuer.netloc}{path}").json()["token_endpoint"]
    grant = {"token_url": endpoint, "client_id": context["client_id"], "client_secret": "env:LEG_SECRET"}
    return {"client_credentials": grant}


def main() -> int:
    server = sys.argv[-1]
    if os.environ.get("LEG_DIRECT"):
        return client(server)
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    with Parts() as parts:
        suite, more = {"url": server}, {}
        if "client_secret" in context:
            os.environ["LEG_SECRET"] = context["client_secret"]
            suite["auth"], more["auth"] = credential(server, context), {"egress": {"loopback": True}}
        # The suite sends arguments that its tools' schemas do not allow (null), to see what becomes of the headers.
        suite["check_arguments"] = False
        part, url = parts.gateway({"suite": suite}, **more)
        code = client(f"{url}/servers/suite/mcp")
        if code:
            print(part.tail(), file=sys.stderr)
        return code


sys.exit(main())
