// The TypeScript SDK 2.x as a client, in either era.
import { doers, load, readPlan, runSteps, tell } from './plan.mjs';

const { Client, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');

const modes = { legacy: 'legacy', auto: 'auto', modern: { pin: '2026-07-28' } };

const plan = await readPlan();
const client = new Client(
  { name: 'real-sdk2', version: '1' },
  { capabilities: {}, versionNegotiation: { mode: modes[plan.mode] } },
);
const transport = new StreamableHTTPClientTransport(new URL(plan.target));
await client.connect(transport);
tell({ connected: client.getNegotiatedProtocolVersion(), server: client.getServerVersion()?.name });
await runSteps(plan.steps, doers(client, (params, options) => client.callTool(params, options)));
if (plan.mode === 'legacy') await transport.terminateSession();
await client.close();
