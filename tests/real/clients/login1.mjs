// The TypeScript SDK 1.x as a client that logs in (legacy only).
import { Login, loggedIn, withLogin } from './login.mjs';
import { doers, load, readPlan, runSteps, tell } from './plan.mjs';

const { UnauthorizedError } = load('@modelcontextprotocol/sdk/client/auth.js');
const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = load('@modelcontextprotocol/sdk/client/streamableHttp.js');

const plan = await readPlan();
const login = new Login(plan.login);
let client;
let transport;

async function connect() {
  client = new Client({ name: 'real-login1', version: '1' }, { capabilities: {} });
  transport = new StreamableHTTPClientTransport(new URL(plan.target), { authProvider: login });
  await client.connect(transport);
}

const retry = (work) =>
  loggedIn(login, UnauthorizedError, work, (answer) => transport.finishAuth(answer.get('code')));

await retry(connect);
tell({ connected: transport.protocolVersion, server: client.getServerVersion()?.name });
const all = doers(client, (params, options) => client.callTool(params, undefined, options));
await runSteps(plan.steps, withLogin(login, all, retry));
await transport.terminateSession();
await client.close();
