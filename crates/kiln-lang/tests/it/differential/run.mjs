// What GitHub's own parsers say: `node run.mjs NODE_MODULES files|expressions`.
// One JSON value per line comes in, one per line goes out.
import {register} from "node:module";
import path from "node:path";
import readline from "node:readline";
import {pathToFileURL} from "node:url";

// GitHub's parser imports its schema without saying that it is JSON, which Node refuses.
const jsonAsModule = `
import {readFile} from "node:fs/promises";
export async function load(url, context, next) {
  if (!url.endsWith(".json")) return next(url, context);
  const source = "export default " + (await readFile(new URL(url), "utf8"));
  return {format: "module", shortCircuit: true, source};
}`;
register("data:text/javascript," + encodeURIComponent(jsonAsModule));

const [modules, task] = process.argv.slice(2);
const load = file => import(pathToFileURL(path.join(modules, "@actions", file)));
const answer = await {files, expressions}[task]();
for await (const line of readline.createInterface({input: process.stdin})) {
  process.stdout.write(JSON.stringify(await answer(JSON.parse(line))) + "\n");
}

// `{name, kind, text}` becomes `{errors: [{line, message}], jobs: […], steps: […]}`.
async function files() {
  const github = await load("workflow-parser/dist/index.js");
  const actions = await load("workflow-parser/dist/actions/index.js");
  const templates = await load("workflow-parser/dist/templates/template-context.js");
  const {getWorkflowSchema} = await load("workflow-parser/dist/workflows/workflow-schema.js");
  const {FeatureFlags} = await load("expressions/dist/features.js");
  const options = {errorPolicy: 1, featureFlags: new FeatureFlags({all: true})};
  return async ({name, kind, text}) => {
    const [parse, schema] = kind === "action"
      ? [actions.parseAction, actions.getActionSchema()]
      : [github.parseWorkflow, getWorkflowSchema()];
    const said = {errors: [], jobs: [], steps: []};
    try {
      const errors = new templates.TemplateValidationErrors();
      const context = new templates.TemplateContext(errors, schema, new github.NoOperationTraceWriter());
      context.state.featureFlags = options.featureFlags;
      const parsed = parse({name, content: text}, context);
      if (parsed.value && kind === "action") {
        const action = actions.convertActionTemplate(parsed.context, parsed.value, options);
        said.steps = (action.runs?.steps ?? []).map(step);
      } else if (parsed.value) {
        const workflow = await github.convertWorkflowTemplate(parsed.context, parsed.value, undefined, options);
        said.jobs = (workflow.jobs ?? []).map(job);
      }
      said.errors = parsed.context.errors.getErrors().map(error => ({
        line: error.range?.start.line ?? null,
        message: error.rawMessage
      }));
    } catch (error) {
      said.errors.push({line: null, message: `exception: ${error.message}`});
    }
    return said;
  };
}

function job(job) {
  return {
    id: job.id.value,
    needs: (job.needs ?? []).map(need => need.value),
    if: job.if?.expression ?? null,
    steps: (job.steps ?? []).map(step)
  };
}

function step(step) {
  return {
    id: step.id,
    if: step.if?.expression ?? null,
    parallel: step.parallel?.map(inner => ({id: inner.id, if: inner.if?.expression ?? null}))
  };
}

// `{expr, contexts}` becomes `{kind, value}` or `{error: {kind, message}}`. Numbers that JSON does not
// have are spelt as strings.
async function expressions() {
  const {data, Evaluator, ExpressionEvaluationError, Lexer, Parser} = await load("expressions/dist/index.js");
  const {kindStr} = await load("expressions/dist/data/expressiondata.js");
  const finite = (key, value) => {
    const plain = data.replacer(key, value);
    return typeof plain === "number" && !Number.isFinite(plain) ? String(plain) : plain;
  };
  return async ({expr, contexts}) => {
    let stage = "lexing";
    try {
      const {tokens} = new Lexer(expr).lex();
      stage = "parsing";
      const tree = new Parser(tokens, Object.keys(contexts), []).parse();
      stage = "evaluation";
      if (tree === undefined) return {kind: "Null", value: null};
      const values = JSON.parse(JSON.stringify(contexts), data.reviver);
      const result = new Evaluator(tree, values).evaluate();
      return {kind: kindStr(result.kind), value: JSON.parse(JSON.stringify(result, finite))};
    } catch (error) {
      return {error: {kind: error instanceof ExpressionEvaluationError ? "evaluation" : stage, message: error.message}};
    }
  };
}
