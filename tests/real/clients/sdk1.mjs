// The TypeScript SDK 1.x as a client (legacy only).
import { doers, load, readPlan, runSteps, tell } from './plan.mjs';

const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = load('@modelcontextprotocol/sdk/client/streamableHttp.js');

const plan = await readPlan();
const client = new Client({ name: 'real-sdk1', version: '1' }, { capabilities: {} });
const transport = new StreamableHTTPClientTransport(new URL(plan.target));
await client.connect(transport);
tell({ connected: transport.protocolVersion, server: client.getServerVersion()?.name });
await runSteps(plan.steps, doers(client, (params, options) => client.callTool(params, undefined, options)));
await transport.terminateSession();
await client.close();
