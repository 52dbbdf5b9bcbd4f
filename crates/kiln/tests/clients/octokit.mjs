// What people do with GitHub's own client for JavaScript, with a server of Kiln. Each step asserts what it sees.
import assert from 'node:assert/strict';
import path from 'node:path';

const {Octokit} = await import(path.join(process.env.MODULES, '@octokit', 'rest', 'dist-src', 'index.js'));
const octokit = new Octokit({auth: process.env.TOKEN, baseUrl: process.env.BASE, log: {debug() {}, info() {}, warn() {}, error() {}}});
const {actions, repos, users, orgs} = octokit.rest;
const at = {owner: 'acme', repo: 'app'};

const ended = async run_id => {
  for (;;) {
    const {data} = await actions.getWorkflowRun({...at, run_id});
    if (data.status === 'completed') return data;
    await new Promise(resolve => setTimeout(resolve, 100));
  }
};
const running = async run_id => {
  for (;;) {
    const {data} = await actions.listJobsForWorkflowRun({...at, run_id});
    if (data.jobs.some(job => job.status === 'in_progress')) return;
    await new Promise(resolve => setTimeout(resolve, 100));
  }
};
const newest = async () => (await actions.listWorkflowRunsForRepo({...at, per_page: 1})).data.workflow_runs[0];

// Who, and what there is.
assert.equal((await users.getAuthenticated()).data.login, 'admin');
const {data: repo} = await repos.get(at);
assert.equal(repo.full_name, 'acme/app');
assert.equal(repo.default_branch, 'main');
assert.deepEqual(repo.permissions, {admin: true, push: true, pull: true});
const mine = await octokit.paginate(repos.listForAuthenticatedUser, {per_page: 1});
assert.deepEqual(mine.map(it => it.name).sort(), ['app', 'first']);
assert.equal((await repos.listForOrg({org: 'acme'})).data.length, 2);
assert.equal((await orgs.get({org: 'acme'})).data.login, 'acme');
assert.equal((await octokit.rest.meta.get()).data.verifiable_password_authentication, false);
const runners = (await actions.listSelfHostedRunnersForRepo(at)).data;
assert.equal(runners.total_count, 1);
assert.equal(runners.runners[0].status, 'online');
assert.equal((await actions.getSelfHostedRunnerForRepo({...at, runner_id: runners.runners[0].id})).data.name, 'one');
assert.equal((await actions.listRepoSecrets(at)).data.total_count, 0);
assert.equal((await actions.listRepoVariables(at)).data.total_count, 0);

// A dispatch, watched to its end.
await actions.createWorkflowDispatch({...at, workflow_id: 'ci.yml', ref: 'main', inputs: {mode: 'good'}});
const workflows = (await actions.listRepoWorkflows(at)).data.workflows;
assert.deepEqual(workflows.map(it => it.name).sort(), ['CI']);
const first = await newest();
assert.equal((await ended(first.id)).conclusion, 'success');

// Its jobs, steps, remarks, logs and artifacts.
const {data: {jobs}} = await actions.listJobsForWorkflowRun({...at, run_id: first.id});
assert.deepEqual(jobs.map(it => [it.name, it.conclusion]), [['build', 'success']]);
assert.ok(jobs[0].steps.some(step => step.name === 'Say' && step.conclusion === 'success'));
const {data: remarks} = await octokit.rest.checks.listAnnotations({...at, check_run_id: jobs[0].id});
assert.deepEqual(remarks.map(it => [it.path, it.start_line, it.annotation_level, it.message]), [['a.txt', 3, 'warning', 'careful']]);
const {data: log} = await actions.downloadJobLogsForWorkflowRun({...at, job_id: jobs[0].id});
assert.match(log, /^\d{4}-\d\d-\d\dT[\d:.]+Z .*hello from kiln$/m);
const {data: zip} = await actions.downloadWorkflowRunLogs({...at, run_id: first.id});
assert.equal(Buffer.from(zip).subarray(0, 4).toString('latin1'), 'PK\u0003\u0004');
const {data: {artifacts}} = await actions.listWorkflowRunArtifacts({...at, run_id: first.id});
assert.deepEqual(artifacts.map(it => it.name), ['dist']);
const {data: dist} = await actions.downloadArtifact({...at, artifact_id: artifacts[0].id, archive_format: 'zip'});
assert.equal(Buffer.from(dist).subarray(0, 2).toString(), 'PK');

// A failure, and what is run again of it.
await actions.createWorkflowDispatch({...at, workflow_id: 'ci.yml', ref: 'main', inputs: {mode: 'bad'}});
const bad = await newest();
assert.equal((await ended(bad.id)).conclusion, 'failure');
await actions.reRunWorkflowFailedJobs({...at, run_id: bad.id});
const again = await ended(bad.id);
assert.deepEqual([again.run_attempt, again.conclusion], [2, 'failure']);
const {data: before} = await actions.getWorkflowRunAttempt({...at, run_id: bad.id, attempt_number: 1});
assert.deepEqual([before.run_attempt, before.conclusion], [1, 'failure']);
const {data: all} = await actions.listJobsForWorkflowRun({...at, run_id: bad.id, filter: 'all'});
assert.equal(all.total_count, 2);
const {data: older} = await actions.downloadWorkflowRunAttemptLogs({...at, run_id: bad.id, attempt_number: 1});
assert.equal(Buffer.from(older).subarray(0, 2).toString(), 'PK');

// A run that is cancelled.
await actions.createWorkflowDispatch({...at, workflow_id: workflows[0].id, ref: 'main', inputs: {mode: 'slow'}});
const slow = await newest();
await running(slow.id);
await actions.cancelWorkflowRun({...at, run_id: slow.id});
assert.equal((await ended(slow.id)).conclusion, 'cancelled');
await assert.rejects(actions.cancelWorkflowRun({...at, run_id: slow.id}), error => error.status === 409 && /ended/.test(error.message));

// Filters, pages and tags.
const count = async filter => (await actions.listWorkflowRunsForRepo({...at, ...filter})).data.total_count;
assert.equal(await count({}), 3);
assert.equal(await count({status: 'failure'}), 1);
assert.equal(await count({event: 'workflow_dispatch', branch: 'main', actor: 'admin'}), 3);
assert.equal(await count({head_sha: first.head_sha}), 3);
assert.equal(await count({event: 'push'}), 0);
assert.equal(await count({created: '>=2020-01-01'}), 3);
assert.equal(await count({created: '<2020-01-01'}), 0);
const ids = await octokit.paginate(actions.listWorkflowRunsForRepo, {...at, event: 'workflow_dispatch', per_page: 1}, page => page.data.map(it => it.id));
assert.deepEqual(ids, [slow.id, bad.id, first.id]);
const page = await actions.listWorkflowRunsForRepo({...at, actor: 'admin', per_page: 1, page: 2});
for (const rel of ['prev', 'next', 'last', 'first']) assert.match(page.headers.link, new RegExp(`rel="${rel}"`));
assert.match(page.headers.link, /actor=admin/);
const {headers: {etag}} = await actions.getWorkflowRun({...at, run_id: first.id});
await assert.rejects(actions.getWorkflowRun({...at, run_id: first.id, headers: {'if-none-match': etag}}), {status: 304});

// What is not there, and what is deleted.
await assert.rejects(repos.get({owner: 'acme', repo: 'none'}), error => error.status === 404 && /no such repository/.test(error.message));
await actions.deleteArtifact({...at, artifact_id: artifacts[0].id});
assert.equal((await actions.listWorkflowRunArtifacts({...at, run_id: first.id})).data.total_count, 0);
await actions.disableWorkflow({...at, workflow_id: 'ci.yml'});
assert.equal((await actions.getWorkflow({...at, workflow_id: 'ci.yml'})).data.state, 'disabled_manually');
await assert.rejects(actions.createWorkflowDispatch({...at, workflow_id: 'ci.yml', ref: 'main'}), error => error.status === 409);
await actions.enableWorkflow({...at, workflow_id: 'ci.yml'});
assert.equal((await actions.getActionsCacheUsage(at)).data.active_caches_count, 0);
assert.equal((await actions.getActionsCacheList(at)).data.total_count, 0);
await actions.deleteSelfHostedRunnerFromRepo({...at, runner_id: runners.runners[0].id});
console.log('all is well');
