"""The authorization server of the tests (idp.mjs) as its users see it: tokens by the book, and those that nobody should
take.
"""

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request

from parts import HERE, Parts, place


class Answer:
    """What an HTTP request got: its status, headers by lower-case name and body."""

    def __init__(self, status: int, headers, body: bytes):
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers.items()}

    def json(self):
        return json.loads(self.body)

    def challenge(self) -> dict:
        """The parameters of `WWW-Authenticate: Bearer`; an answer without one has none."""
        scheme, _, rest = self.headers.get("www-authenticate", "").partition(" ")
        found = urllib.request.parse_keqv_list(urllib.request.parse_http_list(rest))
        return found if scheme == "Bearer" else {}

    def __str__(self) -> str:
        return f"{self.status} {self.headers.get('www-authenticate', '')} {self.body[:300]!r}"


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def ask(url: str, body=None, headers=None, method=None) -> Answer:
    """One HTTP request, without redirects and whatever the status."""
    request = urllib.request.Request(url, body, headers or {}, method=method)
    try:
        with urllib.request.build_opener(Stay).open(request, timeout=60) as answer:
            return Answer(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers, error.read())


class Idp:
    """A running authorization server."""

    def __init__(self, parts: Parts, registers: bool = True):
        env = {"NO_REGISTRATION": "" if registers else "1"}
        self.part = parts.start("idp", [place("REAL_NODE"), HERE / "idp.mjs"], env=env)
        self.issuer = self.part.line("listening on ")

    def control(self, what: str, **given) -> dict:
        body = json.dumps(given).encode()
        answer = ask(f"{self.issuer}/control/{what}", body, {"Content-Type": "application/json"})
        if answer.status != 200:
            raise RuntimeError(f"/control/{what}: {answer}")
        return answer.json()

    def events(self, client: str) -> list:
        """What happened to one client, by its name or id."""
        return [event for event in self.control("events")["events"] if event.get("client") == client]

    def machine(self, path: str, client: str = "robot", **form) -> Answer:
        """A request of a client that has a secret."""
        secret = base64.b64encode(f"{client}:{urllib.parse.quote(f'secret of {client}')}".encode()).decode()
        body = urllib.parse.urlencode(form).encode()
        return ask(f"{self.issuer}{path}", body, {"Authorization": f"Basic {secret}"})

    def token(self, resource: str, scope: str = "mcp.read") -> str:
        """An access token by client credentials."""
        answer = self.machine("/token", grant_type="client_credentials", resource=resource, scope=scope)
        if answer.status != 200:
            raise RuntimeError(f"no token: {answer}")
        return answer.json()["access_token"]

    def forged(self, resource: str, alg: str = "current", header=None, **claims) -> str:
        """What /control/sign makes of the claims that a good token for the resource has, and these changes: None takes
        a claim away."""
        now = int(time.time())
        good = {
            "iss": self.issuer,
            "sub": "robot",
            "client_id": "robot",
            "aud": resource,
            "iat": now,
            "exp": now + 600,
            "jti": f"forged-{now}",
            "scope": "mcp.read",
        }
        changed = {name: value for name, value in {**good, **claims}.items() if value is not None}
        return self.control("sign", alg=alg, header=header or {}, claims=changed)["token"]

    def register(self, name: str, redirect: str) -> str:
        """Registers a public client; its id."""
        metadata = {
            "client_name": name,
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
        }
        body, headers = json.dumps(metadata).encode(), {"Content-Type": "application/json"}
        answer = ask(f"{self.issuer}/reg", body, headers)
        if answer.status != 201:
            raise RuntimeError(f"not registered: {answer}")
        return answer.json()["client_id"]
