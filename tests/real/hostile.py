"""Credentials that must not be taken: each is one flaw away from a good one, and the good one is shown to be taken."""

import time


def settled(ask):
    """The answer once the issuer was asked: a key id that no fetch may be started for yet is a 503 till then."""
    until = time.monotonic() + 20
    answer = ask()
    while answer.status == 503 and time.monotonic() < until:
        time.sleep(float(answer.headers.get("retry-after", "1")) / 4)
        answer = ask()
    return answer


def flawed(where, stranger) -> dict:
    """The `Authorization` of each case, by what is wrong with it. `stranger` is an authorization server that the
    gateway doesn't know."""
    idp, url = where.idp, where.robot
    now = int(time.time())
    forged = lambda **given: f"Bearer {idp.forged(url, **given)}"  # noqa: E731
    good = idp.forged(url)
    head, claims, signature = good.split(".")
    other = idp.forged(url, sub="another").split(".")[1]
    return {
        "another audience": f"Bearer {idp.token('http://127.0.0.1:1/mcp')}",
        "the audience with a slash": forged(aud=f"{url}/"),
        "another audience beside ours": forged(aud=[url, "https://elsewhere.example.com"]),
        "no audience": forged(aud=None),
        "expired": forged(exp=now - 60, iat=now - 660),
        "no expiry": forged(exp=None),
        "not yet valid": forged(nbf=now + 600),
        "another issuer": f"Bearer {stranger.token(url)}",
        "another issuer's, in our issuer's name": f"Bearer {stranger.forged(url, iss=idp.issuer)}",
        "the issuer with a slash": forged(iss=f"{idp.issuer}/"),
        "a list of issuers": forged(iss=[idp.issuer]),
        "no issuer": forged(iss=None),
        "another key under our key's id": forged(alg="stranger"),
        "HS256 keyed with the public key": forged(alg="HS256"),
        "alg none": forged(alg="none"),
        "alg None": forged(alg="none", header={"alg": "None"}),
        "an unknown key": forged(header={"kid": "nobody"}),
        "not an access token": forged(header={"typ": "JWT"}),
        "critical headers": forged(header={"crit": ["b64"], "b64": False}),
        "other claims under the signature": f"Bearer {head}.{other}.{signature}",
        "a cut signature": f"Bearer {good[:-8]}",
        "no signature": f"Bearer {head}.{claims}.",
        "two parts": f"Bearer {head}.{claims}",
        "no token": "Bearer ",
        "another scheme": f"Basic {good}",
        "two tokens": f"Bearer {good}, Bearer {good}",
        "a token and more": f"Bearer {good} {good}",
        "text that is no token": "Bearer \"'`$(id)",
    }


def judge(rows, where, stranger, rpc) -> None:
    url = where.robot

    def call(authorization, target=url):
        return rpc(target, "tools/call", authorization, "fast__add", arguments={"a": 2, "b": 3})

    def row(what: str, answer, good: bool) -> None:
        rows.add(good, "credential", what, answer)

    answer = call(f"Bearer {where.idp.forged(url)}")
    row("good: taken", answer, answer.status == 200 and b'"5"' in answer.body)
    answer = call(f"bearer {where.idp.forged(url)}")
    row("good, scheme in small letters: taken", answer, answer.status == 200)
    wanted = where.metadata_url(url)
    answer = call(None)
    asked = answer.challenge()
    good = answer.status == 401 and asked.get("resource_metadata") == wanted and "error" not in asked
    row("none: 401 without an error", answer, good and "mcp.read" in asked.get("scope", "").split())
    for what, authorization in flawed(where, stranger).items():
        answer = settled(lambda credential=authorization: call(credential))
        asked = answer.challenge()
        token = authorization.partition(" ")[2]
        quiet = len(token) < 8 or token.encode() not in answer.body
        good = answer.status == 401 and asked.get("resource_metadata") == wanted and quiet
        row(f"{what}: 401", answer, good)
    answer = call(None, f"{url}?access_token={where.idp.forged(url)}")
    row("in the query: 401", answer, answer.status == 401)
    answer = call(f"Bearer {where.idp.forged(url)}")
    row("good, after all of these: taken", answer, answer.status == 200)
