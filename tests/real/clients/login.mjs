// What the TypeScript clients need to log in: a place for what the SDK keeps, and a browser without a face.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const MOST_REDIRECTS = 12;

/** Follows redirects as a browser with an empty cookie jar would, up to a URL that begins with `until`. */
async function browse(start, until) {
  const jar = new Map();
  let url = `${start}`;
  for (let hop = 0; hop < MOST_REDIRECTS; hop += 1) {
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await fetch(url, { redirect: 'manual', headers: cookie ? { cookie } : {} });
    for (const line of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      jar.set(name, value);
    }
    const next = answer.headers.get('location');
    if (!next) throw new Error(`${url} answered ${answer.status}: ${(await answer.text()).slice(0, 500)}`);
    url = new URL(next, url).href;
    if (url.startsWith(until)) return new URL(url);
  }
  throw new Error(`more than ${MOST_REDIRECTS} redirects from ${start}`);
}

/** An `OAuthClientProvider` of both SDKs. `plan` is `{name, redirect, client_id?}`: without an id it registers. */
export class Login {
  constructor({ name, redirect, client_id: id }) {
    this.redirectUrl = redirect;
    this.clientMetadata = {
      client_name: name,
      redirect_uris: [redirect],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
      application_type: 'native',
    };
    this.information = id && { client_id: id };
  }

  state() {
    this.expected = randomUUID();
    return this.expected;
  }

  clientInformation() {
    return this.information;
  }

  saveClientInformation(information) {
    this.information = information;
  }

  tokens() {
    return this.kept;
  }

  saveTokens(tokens) {
    this.kept = tokens;
  }

  redirectToAuthorization(url) {
    this.asked = url;
  }

  saveCodeVerifier(verifier) {
    this.verifier = verifier;
  }

  codeVerifier() {
    return this.verifier;
  }

  saveDiscoveryState(state) {
    this.discovery = state;
  }

  discoveryState() {
    return this.discovery;
  }

  /** The parameters that the authorization server gives the redirect URI. */
  async answer() {
    const { searchParams } = await browse(this.asked, this.redirectUrl);
    if (searchParams.get('state') !== this.expected) throw new Error('the answer is for another state');
    if (!searchParams.has('code')) throw new Error(`no code but ${searchParams}`);
    return searchParams;
  }
}

/** Does the work; if the SDK wants its user to log in, lets them, calls `again` with the answer, and repeats once. */
export async function loggedIn(login, Unauthorized, work, again) {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Unauthorized)) throw error;
    await again(await login.answer());
    return work();
  }
}

/** The steps that only a client with a login has; the others may find that they have to log in again. */
export const withLogin = (login, all, retry) => ({
  ...Object.fromEntries(Object.entries(all).map(([kind, work]) => [kind, (given) => retry(() => work(given))])),
  forget: async () => {
    login.kept = undefined;
  },
  post: async ({ url, body }) => {
    const answer = await fetch(url, { method: 'POST', body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
    return answer.json();
  },
  sleep: ({ seconds }) => sleep(seconds * 1000),
});
