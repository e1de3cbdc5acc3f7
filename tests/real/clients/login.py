"""What the Python clients need to log in: a place for what the SDK keeps, and a browser without a face."""

import asyncio
from urllib.parse import parse_qs, urljoin, urlsplit

try:
    import httpx2 as httpx  # the SDK 2.x
except ImportError:
    import httpx

from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata

MOST_REDIRECTS = 12


class Keep:
    """The SDK's `TokenStorage`, in memory."""

    def __init__(self, information):
        self.tokens, self.information = None, information

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.information

    async def set_client_info(self, client_info):
        self.information = client_info


class Browser:
    """Follows redirects with an empty cookie jar, up to the client's own redirect URI."""

    def __init__(self, redirect: str):
        self.redirect, self.answer = redirect, {}

    async def visit(self, url: str) -> None:
        async with httpx.AsyncClient() as client:
            for _ in range(MOST_REDIRECTS):
                answer = await client.get(url)
                if "location" not in answer.headers:
                    raise RuntimeError(f"{url} answered {answer.status_code}: {answer.text[:500]}")
                url = urljoin(url, answer.headers["location"])
                if url.startswith(self.redirect):
                    self.answer = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
                    return
        raise RuntimeError(f"more than {MOST_REDIRECTS} redirects")

    def code(self) -> str:
        if "code" not in self.answer:
            raise RuntimeError(f"no code but {self.answer}")
        return self.answer["code"]


def provider(target: str, plan: dict, result):
    """The SDK's own OAuth client. `plan` is `{name, redirect, client_id?}`: without an id it registers. `result` makes
    what this SDK wants to hear from the redirect URI out of (code, all parameters)."""
    metadata = {
        "client_name": plan["name"],
        "redirect_uris": [plan["redirect"]],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    }
    known = {key: value for key, value in metadata.items() if key in OAuthClientMetadata.model_fields}
    information = None
    if "client_id" in plan:
        information = OAuthClientInformationFull(client_id=plan["client_id"], **known)
    browser = Browser(plan["redirect"])

    async def callback():
        return result(browser.code(), browser.answer)

    return OAuthClientProvider(
        server_url=target,
        client_metadata=OAuthClientMetadata(**known),
        storage=Keep(information),
        redirect_handler=browser.visit,
        callback_handler=callback,
    )


def client(auth):
    """The HTTP client that an SDK uses, with time for a login."""
    return httpx.AsyncClient(auth=auth, timeout=httpx.Timeout(60.0, read=300.0))


def with_login(doers: dict) -> dict:
    """The steps that only a client with a login has."""

    async def post(url, body):
        async with httpx.AsyncClient(timeout=60) as web:
            return (await web.post(url, json=body)).raise_for_status().json()

    async def sleep(seconds):
        await asyncio.sleep(seconds)

    return doers | {"post": post, "sleep": sleep}
