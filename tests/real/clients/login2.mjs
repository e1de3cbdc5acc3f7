// The TypeScript SDK 2.x as a client that logs in, in either era.
import { Login, loggedIn, withLogin } from './login.mjs';
import { doers, load, readPlan, runSteps, tell } from './plan.mjs';

const { Client, StreamableHTTPClientTransport, UnauthorizedError } = load('@modelcontextprotocol/client');

const modes = { legacy: 'legacy', auto: 'auto', modern: { pin: '2026-07-28' } };

const plan = await readPlan();
const login = new Login(plan.login);
let client;
let transport;

async function connect() {
  client = new Client(
    { name: 'real-login2', version: '1' },
    { capabilities: {}, versionNegotiation: { mode: modes[plan.mode] } },
  );
  transport = new StreamableHTTPClientTransport(new URL(plan.target), { authProvider: login });
  await client.connect(transport);
}

const retry = (work) => loggedIn(login, UnauthorizedError, work, (answer) => transport.finishAuth(answer));

await retry(connect);
tell({ connected: client.getNegotiatedProtocolVersion(), server: client.getServerVersion()?.name });
const all = doers(client, (params, options) => client.callTool(params, options));
await runSteps(plan.steps, withLogin(login, all, retry));
if (plan.mode === 'legacy') await transport.terminateSession();
await client.close();
