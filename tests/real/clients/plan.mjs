// What the two TypeScript clients share; see plan.py for what a plan is.
import { createRequire } from 'node:module';
import { text } from 'node:stream/consumers';

const STEP_LIMIT = 45_000;

/** Loads a package from the folder that the test command installed them in. */
export const load = createRequire(`${process.env.REAL_NPM}/package.json`);

export const readPlan = async () => JSON.parse(await text(process.stdin));

export const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const texts = (content) => content.filter((part) => part.text !== undefined).map((part) => part.text);

/** All entries of a list, over all of its pages. */
async function every(page, field) {
  const entries = [];
  let cursor;
  do {
    const answer = await page(cursor === undefined ? undefined : { cursor });
    entries.push(...answer[field]);
    cursor = answer.nextCursor;
  } while (cursor !== undefined);
  return entries;
}

/** One function for each kind of step. `call(params, options)` is where the SDK's versions differ. */
export const doers = (client, call) => ({
  tools: async () => (await every((page) => client.listTools(page), 'tools')).map((tool) => tool.name),
  resources: async () => (await every((page) => client.listResources(page), 'resources')).map((entry) => entry.uri),
  templates: async () =>
    (await every((page) => client.listResourceTemplates(page), 'resourceTemplates')).map((entry) => entry.uriTemplate),
  prompts: async () => (await every((page) => client.listPrompts(page), 'prompts')).map((prompt) => prompt.name),
  call: async ({ name, arguments: given = {}, progress = false }) => {
    let seen = 0;
    const options = progress ? { onprogress: () => (seen += 1) } : {};
    const result = await call({ name, arguments: given }, options);
    return { texts: texts(result.content), error: result.isError === true, progress: seen };
  },
  read: async ({ uri }) => ({ texts: texts((await client.readResource({ uri })).contents) }),
  prompt: async ({ name, arguments: given = {} }) => {
    const { messages } = await client.getPrompt({ name, arguments: given });
    return { texts: texts(messages.map((message) => message.content)) };
  },
  complete: async ({ argument, value, prompt, template }) => {
    const ref = prompt ? { type: 'ref/prompt', name: prompt } : { type: 'ref/resource', uri: template };
    const { completion } = await client.complete({ ref, argument: { name: argument, value } });
    return { values: completion.values };
  },
});

function within(limit, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${limit} ms`)), limit);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** Runs the steps in order. A step that fails is told and does not stop the ones after it. */
export async function runSteps(steps, all) {
  for (const [step, { do: kind, ...given }] of steps.entries()) {
    try {
      tell({ step, ok: true, value: await within(STEP_LIMIT, all[kind](given)) });
    } catch (error) {
      tell({ step, ok: false, error: `${error.name}: ${error.message}`.slice(0, 500) });
    }
  }
}
