// How many jobs a second graphile-worker completes with its defaults and eight workers:
// `node graphile.mjs FOLDER_OF_PACKAGES DATABASE_URL JOBS`.
import {createRequire} from "node:module";
import path from "node:path";

const [folder, connectionString, count] = process.argv.slice(2);
const require = createRequire(path.join(folder, "x"));
const {Logger, makeWorkerUtils, run} = require("graphile-worker");
const {Pool} = require("pg");

const jobs = Number(count);
const logger = new Logger(() => () => {});
const pgPool = new Pool({connectionString, max: 24});
for (const event of ["error", "connect"]) pgPool.on(event, () => {});
const utils = await makeWorkerUtils({pgPool, logger});
await utils.migrate();
await pgPool.query("SELECT graphile_worker.add_job('nothing') FROM generate_series(1, $1::int)", [jobs]);

const start = process.hrtime.bigint();
const workers = await run({pgPool, logger, concurrency: 8, noHandleSignals: true, taskList: {nothing: () => {}}});
// Completed jobs are deleted: the clock stops when the last deletion is durable.
const left = async () => Number((await pgPool.query("SELECT count(*) FROM graphile_worker._private_jobs")).rows[0].count);
while ((await left()) > 0) await new Promise((wake) => setTimeout(wake, 5));
console.log((jobs * 1e9) / Number(process.hrtime.bigint() - start));
await workers.stop();
await utils.release();
await pgPool.end();
