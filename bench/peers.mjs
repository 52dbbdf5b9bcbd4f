// The same work by others, in one process: `node peers.mjs NODE_MODULES yaml|workflow-parser FOLDER`.
import fs from "node:fs";
import {createRequire, register} from "node:module";
import path from "node:path";
import {pathToFileURL} from "node:url";

// GitHub's parser imports its schema without saying that it is JSON, which Node refuses.
const jsonAsModule = `
import {readFile} from "node:fs/promises";
export async function load(url, context, next) {
  if (!url.endsWith(".json")) return next(url, context);
  const source = "export default " + (await readFile(new URL(url), "utf8"));
  return {format: "module", shortCircuit: true, source};
}`;

const [modules, peer, folder] = process.argv.slice(2);
const parse = await {yaml, "workflow-parser": workflowParser}[peer]();
for (const name of fs.readdirSync(folder)) {
  await parse(name, fs.readFileSync(path.join(folder, name), "utf8"));
}

// Only the text to a tree.
async function yaml() {
  const {parseDocument} = createRequire(path.join(modules, "x"))(path.join(modules, "yaml"));
  return (_, content) => parseDocument(content);
}

// The text to a validated model, as `kiln lint --no-checks` does.
async function workflowParser() {
  register("data:text/javascript," + encodeURIComponent(jsonAsModule));
  const entry = path.join(modules, "@actions/workflow-parser/dist/index.js");
  const github = await import(pathToFileURL(entry));
  return async (name, content) => {
    const parsed = github.parseWorkflow({name, content}, new github.NoOperationTraceWriter());
    if (parsed.value) await github.convertWorkflowTemplate(parsed.context, parsed.value);
  };
}
