// Reads streams with the official TypeScript package: `node sdk_reader.mjs PACKAGE_FOLDER FILE ...`.
// Prints one JSON object a file, as sdk_reader.py does.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const [folder, ...files] = process.argv.slice(2);
const { default: Anthropic } = await import(createRequire(`${folder}/`).resolve("@anthropic-ai/sdk"));
let stream = Buffer.alloc(0);

const server = createServer((request, response) => {
  request.resume();
  request.on("end", () => {
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
    for (let i = 0; i < stream.length; i += 37) response.write(stream.subarray(i, i + 37));
    response.end();
  });
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const baseURL = `http://127.0.0.1:${server.address().port}`;
const client = new (Anthropic.Anthropic ?? Anthropic)({ apiKey: "k", baseURL, maxRetries: 0 });

for (const file of files) {
  stream = readFileSync(file);
  const kinds = [];
  let told;
  try {
    const events = client.messages.stream({ model: "m", max_tokens: 1, messages: [{ role: "user", content: "hi" }] });
    events.on("streamEvent", (event) => kinds.push(event.type));
    told = { message: await events.finalMessage(), kinds };
  } catch (error) {
    told = error.error ? { error: error.constructor.name, body: error.error, kinds } : { crash: String(error), kinds };
  }
  console.log(JSON.stringify(told));
}
server.close();
server.closeAllConnections();
