// An authorization server for tests: the certified npm `oidc-provider`, whose users log in and consent by themselves.
// Access tokens are RFC 9068 JWTs whose audience is the RFC 8707 resource, or opaque; scopes are mcp.read and mcp.write.
//
// Tests steer it under /control (POST, JSON):
//   rotate    the next key signs from now on; the last ones stay published, and so is the one after it
//   rotated   answers after the next rotation
//   client    {name, deny, lifetime, format}: for the client of that name (or id) the scopes whose consent is refused,
//             seconds that a token lives, `jwt` or `opaque`
//   sign      {alg, header, claims}: signs whatever it is given, with the `current` key, a `stranger` (a key that is not
//             published, under the current one's id), `HS256` (keyed with the public key) or `none`
//   events    what happened so far
// With NO_REGISTRATION clients can't register: there is one, `by-hand`. And, as many that refuse it, the server doesn't
// say who it is when it redirects (RFC 9207).
import { createHmac, createPublicKey, generateKeyPairSync, randomUUID, sign as signed } from 'node:crypto';
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';

import { load } from './clients/plan.mjs';

const { Provider } = load('oidc-provider');

const registers = !process.env.NO_REGISTRATION;
const KEPT_KEYS = 4;
const SCOPES = ['mcp.read', 'mcp.write'];
const LIFETIME = 3600;

const kinds = {
  RS256: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
};

function makeKey(alg) {
  const { privateKey } = kinds[alg]();
  return { privateKey, jwk: { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg } };
}

/** The first signs, the second does so next; all are published. */
let keys = [makeKey('RS256'), makeKey('ES256')];
const knobs = new Map();
const events = [];
const waiting = [];

/** What providers keep: the one of a new key set goes on with the grants, clients and tokens of the one before. */
const kept = new Map();

class Adapter {
  constructor(model) {
    this.model = model;
  }

  key(id) {
    return `${this.model}:${id}`;
  }

  async upsert(id, payload) {
    kept.set(this.key(id), payload);
  }

  async find(id) {
    return kept.get(this.key(id));
  }

  async findByUid(uid) {
    return [...kept].find(([key, payload]) => key.startsWith(this.key('')) && payload.uid === uid)?.[1];
  }

  async consume(id) {
    kept.get(this.key(id)).consumed = Math.floor(Date.now() / 1000);
  }

  async destroy(id) {
    kept.delete(this.key(id));
  }

  async revokeByGrantId(grantId) {
    for (const [key, payload] of kept) {
      if (key.startsWith(this.key('')) && payload.grantId === grantId) kept.delete(key);
    }
  }
}

const nameOf = (client) => client.clientName ?? client.clientId;
const knobsOf = (client) => ({ deny: [], lifetime: LIFETIME, format: 'jwt', ...knobs.get(nameOf(client)) });

const configuration = () => ({
  adapter: Adapter,
  jwks: { keys: keys.map(({ jwk }) => jwk) },
  cookies: { keys: ['not a secret'] },
  clients: [
    machine('robot', { grant_types: ['client_credentials'] }),
    machine('gateway', { grant_types: [] }),
    {
      client_id: 'by-hand',
      application_type: 'native',
      redirect_uris: ['http://127.0.0.1/callback'],
      grant_types: ['authorization_code', 'refresh_token'],
      token_endpoint_auth_method: 'none',
    },
  ],
  scopes: ['openid', 'offline_access', ...SCOPES],
  clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post'],
  features: {
    devInteractions: { enabled: false },
    userinfo: { enabled: false },
    clientCredentials: { enabled: true },
    clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
    introspection: { enabled: true, allowedPolicy: () => true },
    registration: { enabled: registers },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, resource, client) => {
        const { format, lifetime } = knobsOf(client);
        return {
          scope: SCOPES.join(' '),
          audience: resource,
          accessTokenFormat: format,
          accessTokenTTL: lifetime,
          jwt: { sign: { alg: keys[0].jwk.alg } },
        };
      },
    },
  },
  interactions: { url: (_, { uid }) => `/login/${uid}` },
  findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
  extraTokenClaims: (_, token) => (token.accountId ? { groups: ['support'] } : undefined),
  issueRefreshToken: (_, client) => client.grantTypeAllowed('refresh_token'),
  expiresWithSession: () => false,
  pkce: { required: () => true },
  ttl: { Interaction: 600, Session: 600, Grant: 86_400, RefreshToken: 86_400, IdToken: 600, AuthorizationCode: 60 },
});

function machine(client_id, more) {
  return { client_id, client_secret: `secret of ${client_id}`, redirect_uris: [], response_types: [], ...more };
}

function makeProvider() {
  const provider = new Provider(issuer, configuration());
  if (!registers) provider.use(nameless);
  provider.on('registration_create.success', (_, client) =>
    events.push({ kind: 'registered', client: nameOf(client) }),
  );
  provider.on('authorization.accepted', ({ oidc: { client, params } }) =>
    events.push({
      kind: 'asked',
      client: nameOf(client),
      scope: params.scope,
      resource: params.resource,
      pkce: params.code_challenge_method,
    }),
  );
  provider.on('grant.success', ({ body, oidc: { client, params } }) =>
    events.push({
      kind: 'granted',
      client: nameOf(client),
      grant: params.grant_type,
      scope: body.scope,
      resource: params.resource,
      verifier: params.code_verifier !== undefined,
      type: body.access_token.split('.').length === 3 ? 'jwt' : 'opaque',
    }),
  );
  for (const name of ['server_error', 'grant.error', 'authorization.error', 'registration_create.error']) {
    provider.on(name, (_, error) => {
      events.push({ kind: name, error: error.error_description ?? error.message });
      console.error(name, error);
    });
  }
  return provider;
}

/** Takes `iss` out of redirects. */
async function nameless(context, next) {
  await next();
  const to = context.response.get('location');
  if (URL.canParse(to) && new URL(to).searchParams.has('code')) {
    const bare = new URL(to);
    bare.searchParams.delete('iss');
    context.set('location', bare.href);
  }
}

/** Where a person would log in and consent. */
async function interact(request, response) {
  const { prompt, params, session } = await provider.interactionDetails(request, response);
  if (prompt.name === 'login') {
    return provider.interactionFinished(request, response, { login: { accountId: 'ada' } });
  }
  const client = await provider.Client.find(params.client_id);
  const { deny } = knobsOf(client);
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  for (const scope of prompt.details.missingOIDCScope ?? []) {
    grant[deny.includes(scope) ? 'rejectOIDCScope' : 'addOIDCScope'](scope);
  }
  for (const [resource, scopes] of Object.entries(prompt.details.missingResourceScopes ?? {})) {
    for (const scope of scopes) {
      grant[deny.includes(scope) ? 'rejectResourceScope' : 'addResourceScope'](resource, scope);
    }
  }
  const consent = { grantId: await grant.save() };
  return provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true });
}

const base64 = (value) => Buffer.from(value).toString('base64url');

function forge({ alg = 'current', header = {}, claims }) {
  const key = alg === 'stranger' ? makeKey(keys[0].jwk.alg) : keys[0];
  const { kid } = keys[0].jwk;
  const named = ['current', 'stranger'].includes(alg) ? key.jwk.alg : alg;
  const head = { alg: named, typ: 'at+jwt', kid, ...header };
  const input = `${base64(JSON.stringify(head))}.${base64(JSON.stringify(claims))}`;
  const signature = {
    none: () => Buffer.alloc(0),
    HS256: () => createHmac('sha256', createPublicKey(keys[0].privateKey).export({ type: 'spki', format: 'pem' }))
      .update(input)
      .digest(),
    RS256: () => signed('sha256', Buffer.from(input), key.privateKey),
    ES256: () => signed('sha256', Buffer.from(input), { key: key.privateKey, dsaEncoding: 'ieee-p1363' }),
  };
  return { token: `${input}.${signature[named]().toString('base64url')}` };
}

const controls = {
  '/control/rotate': () => {
    const [current, next, ...old] = keys;
    keys = [next, makeKey(current.jwk.alg), current, ...old].slice(0, KEPT_KEYS);
    provider = makeProvider();
    handle = provider.callback();
    events.push({ kind: 'rotated' });
    for (const tell of waiting.splice(0)) tell({});
    return { signing: keys[0].jwk.kid };
  },
  '/control/rotated': () => new Promise((resolve) => waiting.push(resolve)),
  '/control/client': ({ name, ...set }) => {
    knobs.set(name, { ...knobs.get(name), ...set });
    return {};
  },
  '/control/sign': forge,
  '/control/events': () => ({ events }),
};

async function serve(request, response) {
  const { pathname, searchParams } = new URL(request.url, issuer);
  // RFC 6749 section 3.3 wants a default scope or an error.
  if (pathname === '/auth' && !searchParams.has('scope')) request.url += `&scope=${SCOPES[0]}`;
  if (controls[pathname]) {
    const answer = await controls[pathname](await json(request));
    response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
  } else if (pathname.startsWith('/login/')) {
    await interact(request, response);
  } else {
    handle(request, response);
  }
}

let issuer;
let provider;
let handle;
const server = createServer((request, response) =>
  serve(request, response).catch((error) => {
    console.error(error);
    response.writeHead(500).end(`${error}`);
  }),
);
server.listen(0, '127.0.0.1', () => {
  issuer = `http://127.0.0.1:${server.address().port}`;
  provider = makeProvider();
  handle = provider.callback();
  console.log(`listening on ${issuer}`);
});
