// The client of the suite's client leg: does what each scenario needs a client to do, and no more.
import { load, tell } from './plan.mjs';

const { Client, ClientCredentialsProvider, StreamableHTTPClientTransport } = load('@modelcontextprotocol/client');

const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const modern = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION >= '2026';
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');

const capabilities = { elicitation: { form: { applyDefaults: true } } };
const mode = modern ? { pin: '2026-07-28' } : 'legacy';
const client = new Client({ name: 'leg', version: '1' }, { capabilities, versionNegotiation: { mode } });
client.setRequestHandler('elicitation/create', ({ params }) => ({
  action: 'accept',
  content: 'confirmed' in params.requestedSchema.properties ? { confirmed: true } : {},
}));

const call = (name, given = {}) => client.callTool({ name, arguments: given });

/** Values for the fields that a tool requires. */
function filled({ properties = {}, required = [] }) {
  const values = { string: 'text', number: 2, integer: 2, boolean: true, array: [], object: {} };
  return Object.fromEntries(required.map((name) => [name, values[properties[name]?.type] ?? 'text']));
}

async function callEach(tools) {
  for (const { name, inputSchema } of tools) await call(name, filled(inputSchema));
}

/** Uses everything that the server offers, as for each there is a header to get right. */
async function useAll(tools) {
  await callEach(tools);
  for (const { uri } of (await client.listResources()).resources) await client.readResource({ uri });
  for (const { name } of (await client.listPrompts()).prompts) await client.getPrompt({ name });
}

const only = async () => {};
const behaviours = {
  initialize: only,
  'auth/client-credentials-basic': only,
  'request-metadata': only,
  'json-schema-ref-no-deref': only,
  tools_call: ([tool]) => call(tool.name, { a: 2, b: 3 }),
  'elicitation-sep1034-client-defaults': callEach,
  'http-invalid-tool-headers': callEach,
  'http-standard-headers': useAll,
  'sep-2322-client-request-state': async (tools) => {
    const [bare, rest] = [[], []];
    for (const tool of tools) (tool.name === 'test_mrtr_no_result_type' ? bare : rest).push(tool);
    await callEach(rest);
    // This SDK refuses a result that doesn't say its type; what counts is that it isn't asked again.
    await callEach(bare).catch((error) => tell({ refused: error.message }));
  },
  'sse-retry': callEach,
  'json-schema-2020-12-preservation': (tools) => {
    const { inputSchema } = tools.find((tool) => tool.name === 'json_schema_2020_12_tool');
    return call('json_schema_echo', { schema: inputSchema });
  },
  'http-custom-headers': async () => {
    for (const { name, arguments: given } of context.toolCalls) await call(name, given);
  },
};

// Behind a gateway the credential is the gateway's.
const authProvider =
  process.env.LEG_DIRECT && context.client_secret
    ? new ClientCredentialsProvider({ clientId: context.client_id, clientSecret: context.client_secret })
    : undefined;
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv.at(-1)), { authProvider }));
const { tools } = await client.listTools();
tell({ scenario, tools: tools.map((tool) => tool.name) });
await behaviours[scenario](tools);
await client.close();
