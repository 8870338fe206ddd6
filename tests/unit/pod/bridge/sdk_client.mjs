// Asks bridges with the official TypeScript package: `node sdk_client.mjs PACKAGE_FOLDER JOBS.json`. As sdk_client.py does.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, jobs] = process.argv.slice(2);
const { default: Anthropic } = await import(createRequire(`${folder}/`).resolve("@anthropic-ai/sdk"));

async function told({ url, key, call, body, query, headers }) {
  const client = new (Anthropic.Anthropic ?? Anthropic)({ apiKey: key, baseURL: url, maxRetries: 0, timeout: 30000 });
  const kinds = [];
  try {
    if (call === "count_tokens") return { input_tokens: (await client.messages.countTokens(body, { query, headers })).input_tokens };
    if (call === "create") return { message: await client.messages.create(body, { query, headers }) };
    const events = client.messages.stream(body, { query, headers });
    events.on("streamEvent", (event) => kinds.push(event.type));
    return { message: await events.finalMessage(), kinds };
  } catch (error) {
    if (!error.error) return { crash: String(error) };
    return { error: error.constructor.name, status: error.status, body: error.error, request_id: error.requestID };
  }
}

for (const job of JSON.parse(readFileSync(jobs))) console.log(JSON.stringify(await told(job)));
