-- Who there is, what runs, and what waits. Words in braces differ between the databases (see `migrate`).
-- Times are UTC milliseconds. Rows that change with every job (from `run_attempts` to `events`) have no
-- foreign keys: they are written together under the lock of their run, and the auditor checks them.

{sequences};

CREATE TABLE organizations (
    id {id},
    name TEXT NOT NULL UNIQUE,
    display_name TEXT,
    plan TEXT NOT NULL DEFAULT 'free',
    shares {int} NOT NULL DEFAULT 100 CHECK (shares > 0),
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL
) {strict};

CREATE TABLE users (
    id {id},
    name TEXT NOT NULL UNIQUE,
    email TEXT,
    display_name TEXT,
    created_at {int} NOT NULL,
    disabled_at {int}
) {strict};

CREATE TABLE members (
    org_id {int} NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    user_id {int} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    created_at {int} NOT NULL,
    PRIMARY KEY (org_id, user_id)
) {strict};
CREATE INDEX members_by_user ON members (user_id);

CREATE TABLE teams (
    id {id},
    org_id {int} NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    created_at {int} NOT NULL,
    UNIQUE (org_id, name)
) {strict};

CREATE TABLE team_members (
    team_id {int} NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    user_id {int} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    PRIMARY KEY (team_id, user_id)
) {strict};
CREATE INDEX team_members_by_user ON team_members (user_id);

CREATE TABLE repositories (
    id {id},
    org_id {int} NOT NULL REFERENCES organizations (id),
    name TEXT NOT NULL,
    default_branch TEXT NOT NULL DEFAULT 'main',
    enabled {int} NOT NULL DEFAULT 1,
    visibility TEXT NOT NULL DEFAULT 'private',
    shares {int} NOT NULL DEFAULT 100 CHECK (shares > 0),
    -- The head starts of priority classes: NULL for the defaults, else JSON.
    priorities TEXT,
    forge TEXT,
    forge_id TEXT,
    clone_url TEXT,
    -- Who paused it and why; NULL when it is not paused.
    paused TEXT,
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL,
    UNIQUE (org_id, name)
) {strict};

CREATE TABLE team_repositories (
    team_id {int} NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    repo_id {int} NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    permission TEXT NOT NULL,
    PRIMARY KEY (team_id, repo_id)
) {strict};
CREATE INDEX team_repositories_by_repo ON team_repositories (repo_id);

CREATE TABLE workflows (
    id {id},
    org_id {int} NOT NULL REFERENCES organizations (id),
    repo_id {int} NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    path TEXT NOT NULL,
    name TEXT NOT NULL,
    enabled {int} NOT NULL DEFAULT 1,
    triggers TEXT NOT NULL DEFAULT '{}',
    -- The number of its latest run.
    runs {int} NOT NULL DEFAULT 0,
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL,
    UNIQUE (repo_id, path)
) {strict};

CREATE TABLE environments (
    id {id},
    org_id {int} NOT NULL REFERENCES organizations (id),
    repo_id {int} NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    -- Reviewers, wait timer and branches that may deploy, as JSON.
    rules TEXT NOT NULL DEFAULT '{}',
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL,
    UNIQUE (repo_id, name)
) {strict};

-- `scope_kind` is org, repo or environment; `sealed` is never plain text, and `key_id` says with which
-- key it was sealed.
CREATE TABLE secrets (
    id {id},
    org_id {int} NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    scope_kind TEXT NOT NULL,
    scope_id {int} NOT NULL,
    name TEXT NOT NULL,
    key_id TEXT NOT NULL,
    sealed {bytes} NOT NULL,
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL,
    UNIQUE (scope_kind, scope_id, name)
) {strict};

CREATE TABLE variables (
    id {id},
    org_id {int} NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    scope_kind TEXT NOT NULL,
    scope_id {int} NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL,
    UNIQUE (scope_kind, scope_id, name)
) {strict};

-- A pool or runner without an organization is shared.
CREATE TABLE pools (
    id {id},
    org_id {int} REFERENCES organizations (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    settings TEXT NOT NULL DEFAULT '{}',
    created_at {int} NOT NULL
) {strict};
CREATE UNIQUE INDEX pools_by_name ON pools (coalesce(org_id, 0), name);

CREATE TABLE registration_keys (
    id {id},
    org_id {int} REFERENCES organizations (id) ON DELETE CASCADE,
    pool_id {int} NOT NULL REFERENCES pools (id) ON DELETE CASCADE,
    hash {bytes} NOT NULL UNIQUE,
    created_by TEXT NOT NULL,
    created_at {int} NOT NULL,
    expires_at {int} NOT NULL,
    uses_left {int},
    revoked_at {int}
) {strict};

CREATE TABLE runners (
    id {id},
    org_id {int} REFERENCES organizations (id) ON DELETE CASCADE,
    pool_id {int} NOT NULL REFERENCES pools (id),
    name TEXT NOT NULL,
    -- Labels, systems, features, tools, cores, memory, disk, as JSON.
    capabilities TEXT NOT NULL,
    max_parallel {int} NOT NULL DEFAULT 1,
    single_use {int} NOT NULL DEFAULT 0,
    os TEXT NOT NULL,
    architecture TEXT NOT NULL,
    version TEXT NOT NULL,
    protocol {int} NOT NULL,
    credential {bytes} NOT NULL,
    public_key {bytes},
    -- Access tokens of an earlier epoch are revoked.
    epoch {int} NOT NULL DEFAULT 0,
    draining {int} NOT NULL DEFAULT 0,
    health TEXT,
    speed {real} NOT NULL DEFAULT 1.0,
    completed {int} NOT NULL DEFAULT 0,
    failed {int} NOT NULL DEFAULT 0,
    registered_at {int} NOT NULL,
    last_seen_at {int} NOT NULL,
    unregistered_at {int}
) {strict};
CREATE UNIQUE INDEX runners_by_name ON runners (pool_id, name) WHERE unregistered_at IS NULL;

-- Plans, payloads and contexts: big, never changed, found by the SHA-256 of their text.
CREATE TABLE documents (
    hash {bytes} PRIMARY KEY,
    -- Before the body: SQLite would have to walk through all of it to get here.
    created_at {int} NOT NULL,
    body TEXT NOT NULL
) {strict};

-- What makes a trigger the same as an earlier one of its repository: a fingerprint or the caller's own
-- key. The key comes first because retention looks for keys alone.
CREATE TABLE trigger_keys (
    repo_id {int} NOT NULL,
    key TEXT NOT NULL,
    run_id {int} NOT NULL,
    at {int} NOT NULL,
    PRIMARY KEY (key, repo_id)
) {strict};
CREATE INDEX trigger_keys_by_age ON trigger_keys (at);

CREATE TABLE runs (
    id {run_key},
    org_id {int} NOT NULL,
    repo_id {int} NOT NULL,
    workflow_id {int} NOT NULL,
    run_number {int} NOT NULL,
    attempt {int} NOT NULL DEFAULT 1,
    -- The run that this one was made from, if it is not the first of its kind.
    root_run_id {int},
    event TEXT NOT NULL,
    actor TEXT NOT NULL,
    trust TEXT NOT NULL,
    ref TEXT NOT NULL,
    head_sha TEXT NOT NULL,
    head_branch TEXT,
    title TEXT NOT NULL,
    status TEXT NOT NULL,
    conclusion TEXT,
    created_at {int} NOT NULL,
    started_at {int},
    ended_at {int}
    {run_key_at_end}
) {strict_by_id};
CREATE INDEX runs_by_repo ON runs (repo_id, id);
CREATE INDEX runs_by_org ON runs (org_id, id);
CREATE INDEX runs_by_workflow ON runs (workflow_id, run_number);
CREATE INDEX runs_by_head ON runs (repo_id, head_sha);
CREATE INDEX runs_by_end ON runs (ended_at) WHERE conclusion IS NOT NULL;
CREATE INDEX runs_open ON runs (repo_id, id) WHERE conclusion IS NULL;

-- The row whose lock protects all rows of a run.
CREATE TABLE run_attempts (
    run_id {int} NOT NULL,
    attempt {int} NOT NULL,
    org_id {int} NOT NULL,
    repo_id {int} NOT NULL,
    plan {bytes} NOT NULL,
    -- What its expressions see: the event, inputs, variables.
    context {bytes} NOT NULL,
    actor TEXT NOT NULL,
    trust TEXT NOT NULL,
    -- urgent, high, normal or low, unless the job says otherwise.
    class TEXT NOT NULL,
    priority {int} NOT NULL DEFAULT 0,
    state TEXT NOT NULL,
    conclusion TEXT,
    group_name TEXT,
    cancelled_by TEXT,
    cancel_reason TEXT,
    cancel_forced {int} NOT NULL DEFAULT 0,
    cancelled_at {int},
    scopes {int} NOT NULL DEFAULT 0,
    nodes {int} NOT NULL DEFAULT 0,
    legs {int} NOT NULL DEFAULT 0,
    -- How many jobs this and all earlier attempts have made: the next one's id comes from it.
    jobs_made {int} NOT NULL DEFAULT 0,
    created_at {int} NOT NULL,
    started_at {int},
    ended_at {int},
    PRIMARY KEY (run_id, attempt)
) {strict_by_run};
-- Whether anybody still needs a document.
CREATE INDEX run_attempts_by_plan ON run_attempts (plan);
CREATE INDEX run_attempts_by_context ON run_attempts (context);

-- An instance of a workflow: the triggered one, or one that a job calls.
CREATE TABLE run_scopes (
    run_id {int} NOT NULL,
    attempt {int} NOT NULL,
    number {int} NOT NULL,
    workflow {int} NOT NULL,
    caller {int},
    inputs TEXT NOT NULL,
    first_node {int} NOT NULL,
    open {int} NOT NULL,
    succeeded {int} NOT NULL,
    failed {int} NOT NULL,
    cancelled {int} NOT NULL,
    timed_out {int} NOT NULL,
    skipped {int} NOT NULL,
    stopped {int} NOT NULL,
    PRIMARY KEY (run_id, attempt, number)
) {strict_by_run};

-- A job of the plan, before its matrix makes jobs of it. What it needs stands in the plan; here is how
-- much of that is left, and what is known from further up.
CREATE TABLE run_nodes (
    run_id {int} NOT NULL,
    attempt {int} NOT NULL,
    number {int} NOT NULL,
    scope {int} NOT NULL,
    job {int} NOT NULL,
    origin_attempt {int} NOT NULL,
    state TEXT NOT NULL,
    conclusion TEXT,
    needs_remaining {int} NOT NULL,
    above_failed {int} NOT NULL,
    above_cancelled {int} NOT NULL,
    above_skipped {int} NOT NULL,
    first_leg {int},
    leg_count {int} NOT NULL,
    open_legs {int} NOT NULL,
    succeeded {int} NOT NULL,
    failed {int} NOT NULL,
    cancelled {int} NOT NULL,
    timed_out {int} NOT NULL,
    skipped {int} NOT NULL,
    fail_fast {int} NOT NULL,
    max_parallel {int},
    tripped {int} NOT NULL,
    outputs TEXT,
    note TEXT,
    PRIMARY KEY (run_id, attempt, number)
) {strict_by_run};

-- What is queued, claimed, run and finished: one leg of a job of the plan. The id is
-- run_id * 2^20 + a count within the run, so that it leads to the run without a search.
CREATE TABLE jobs (
    run_id {int} NOT NULL,
    attempt {int} NOT NULL,
    number {int} NOT NULL,
    id {job_id},
    node {int} NOT NULL,
    leg_index {int} NOT NULL,
    origin_attempt {int} NOT NULL,
    name TEXT NOT NULL,
    matrix TEXT,
    state TEXT NOT NULL,
    conclusion TEXT,
    runner_id {int},
    -- Counts claims: the fencing token.
    claim {int} NOT NULL,
    retries {int} NOT NULL,
    losses {int} NOT NULL,
    cancelling {int} NOT NULL,
    tolerated {int} NOT NULL,
    group_name TEXT,
    scope {int},
    lane_id {int},
    queue_key {int},
    wake_at {int},
    queued_at {int},
    claimed_at {int},
    prepared_at {int},
    started_at {int},
    ended_at {int},
    outputs TEXT,
    note TEXT,
    -- Limits that were set and use that was measured, as JSON.
    limits TEXT,
    used TEXT,
    {primary_unless_id} (run_id, attempt, number)
) {strict_by_run};
{jobs_by_id}

-- Claims that did not end their job: lost, given back, or tried again. The last one is in the job.
CREATE TABLE job_claims (
    run_id {int} NOT NULL,
    attempt {int} NOT NULL,
    number {int} NOT NULL,
    claim {int} NOT NULL,
    runner_id {int} NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT,
    queued_at {int},
    claimed_at {int},
    prepared_at {int},
    started_at {int},
    ended_at {int} NOT NULL,
    PRIMARY KEY (run_id, attempt, number, claim)
) {strict_by_run};

CREATE TABLE steps (
    run_id {int} NOT NULL,
    attempt {int} NOT NULL,
    job {int} NOT NULL,
    claim {int} NOT NULL,
    number {int} NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    conclusion TEXT,
    exit_code {int},
    started_at {int},
    ended_at {int},
    PRIMARY KEY (run_id, attempt, job, claim, number)
) {strict_by_run};

-- Concurrency groups of a repository: who holds it, then who waits, as JSON.
CREATE TABLE groups (
    repo_id {int} NOT NULL,
    name TEXT NOT NULL,
    members TEXT NOT NULL,
    PRIMARY KEY (repo_id, name)
) {strict};

-- A job that waits before it tries again.
CREATE TABLE timers (
    run_id {int} NOT NULL,
    attempt {int} NOT NULL,
    number {int} NOT NULL,
    at {int} NOT NULL,
    PRIMARY KEY (run_id, attempt, number)
) {strict};
CREATE INDEX timers_by_time ON timers (at);

-- A queue is a set of requirements.
CREATE TABLE queues (
    id {id},
    hash {bytes} NOT NULL UNIQUE,
    requirements TEXT NOT NULL,
    paused TEXT,
    created_at {int} NOT NULL,
    -- When the last job came in; queues that nobody uses are forgotten.
    used_at {int} NOT NULL
) {strict};

-- First in, first out: the jobs of one repository, class and priority in one queue. No waiting job has a
-- key below `floor`, so that a search need not pass what was there before; a lane that is not active is
-- empty.
CREATE TABLE lanes (
    id {id},
    queue_id {int} NOT NULL REFERENCES queues (id) ON DELETE CASCADE,
    priority {int} NOT NULL,
    org_id {int} NOT NULL,
    repo_id {int} NOT NULL,
    class TEXT NOT NULL,
    floor {int} NOT NULL,
    active {int} NOT NULL,
    -- Since when no live runner could take its jobs.
    unserved_since {int},
    UNIQUE (queue_id, priority, org_id, repo_id, class)
) {strict};
CREATE INDEX lanes_active ON lanes (queue_id) WHERE active = 1;

CREATE TABLE queue (
    lane_id {int} NOT NULL,
    key {int} NOT NULL,
    job_id {int} NOT NULL,
    attempt {int} NOT NULL,
    number {int} NOT NULL,
    PRIMARY KEY (lane_id, key, job_id)
) {strict_narrow};

CREATE TABLE leases (
    job_id {int} PRIMARY KEY,
    run_id {int} NOT NULL,
    attempt {int} NOT NULL,
    number {int} NOT NULL,
    claim {int} NOT NULL,
    runner_id {int} NOT NULL,
    nonce TEXT NOT NULL,
    claimed_at {int} NOT NULL,
    expires_at {int} NOT NULL,
    -- The runner has said that it has the job.
    acknowledged {int} NOT NULL,
    -- It counts against the limit of its organization.
    counted {int} NOT NULL,
    -- What the runner is told with its next heartbeat: cancel or kill.
    command TEXT,
    org_id {int} NOT NULL,
    repo_id {int} NOT NULL,
    -- Seconds charged in advance.
    estimate {real} NOT NULL
) {strict_small};
-- With the nonce: leases that are gone may stay in an index for long, and a runner has had many.
CREATE INDEX leases_by_runner ON leases (runner_id, nonce);

-- How many jobs of an organization run, where that is limited.
CREATE TABLE org_loads (
    org_id {int} PRIMARY KEY,
    running {int} NOT NULL,
    job_limit {int}
) {strict_small};

-- Seconds of runners used, decayed by the hour; `repo_id` 0 is the organization itself.
CREATE TABLE usage (
    org_id {int} NOT NULL,
    repo_id {int} NOT NULL,
    consumed {real} NOT NULL,
    hour {int} NOT NULL,
    -- How long a job usually takes.
    typical {real},
    PRIMARY KEY (org_id, repo_id)
) {strict_small};

-- What was charged lately and is not in `usage` yet.
CREATE TABLE usage_deltas (
    id {id},
    org_id {int} NOT NULL,
    repo_id {int} NOT NULL,
    seconds {real} NOT NULL,
    -- How many jobs ended, and how long they took.
    ended {int} NOT NULL,
    took {real} NOT NULL,
    at {int} NOT NULL
) {strict};
CREATE INDEX usage_deltas_by_time ON usage_deltas (at);
{usage_deltas_by_repo}

-- What happened. Within a run `id` grows as things happen. On PostgreSQL readers go by (txid, id), and
-- only as far as no open transaction can precede, so that they miss nothing; on SQLite `txid` is 0.
CREATE TABLE events (
    run_id {int} NOT NULL,
    id {event_id},
    txid {int} NOT NULL DEFAULT {txid},
    org_id {int} NOT NULL,
    repo_id {int} NOT NULL,
    attempt {int} NOT NULL,
    job_id {int},
    kind TEXT NOT NULL,
    payload TEXT,
    at {int} NOT NULL
) {strict_by_run};
{events_in_order}
CREATE INDEX events_of_run ON events (run_id, {txid_first}id);

-- Work to be done after a commit, at least once.
CREATE TABLE outbox (
    id {id},
    kind TEXT NOT NULL,
    run_id {int},
    payload TEXT NOT NULL,
    due_at {int} NOT NULL,
    tries {int} NOT NULL DEFAULT 0,
    error TEXT,
    created_at {int} NOT NULL,
    -- Since when it was given up; it waits for somebody to mend the reason.
    parked_at {int}
) {strict_small};
CREATE INDEX outbox_by_time ON outbox (due_at, id) WHERE parked_at IS NULL;
CREATE INDEX outbox_parked ON outbox (parked_at, id) WHERE parked_at IS NOT NULL;

CREATE TABLE audit (
    id {id},
    org_id {int},
    at {int} NOT NULL,
    actor_kind TEXT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject_kind TEXT NOT NULL,
    subject_id {int},
    detail TEXT,
    address TEXT
) {strict};
CREATE INDEX audit_by_org ON audit (org_id, id);

CREATE TABLE webhook_deliveries (
    id {id},
    org_id {int},
    repo_id {int},
    forge TEXT NOT NULL,
    delivery TEXT NOT NULL,
    event TEXT NOT NULL,
    payload {bytes} NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    received_at {int} NOT NULL,
    handled_at {int},
    -- When somebody last took it to handle it; NULL when it needs nobody any more.
    taken_at {int},
    UNIQUE (forge, delivery)
) {strict};
CREATE INDEX webhook_deliveries_waiting ON webhook_deliveries (taken_at) WHERE taken_at IS NOT NULL;
CREATE INDEX webhook_deliveries_by_repo ON webhook_deliveries (repo_id, id);
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (received_at);

CREATE TABLE schedules (
    id {id},
    org_id {int} NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    repo_id {int} NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    workflow_id {int} NOT NULL REFERENCES workflows (id) ON DELETE CASCADE,
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL DEFAULT 'UTC',
    enabled {int} NOT NULL DEFAULT 1,
    next_at {int} NOT NULL,
    last_at {int},
    UNIQUE (workflow_id, cron, timezone)
) {strict};
CREATE INDEX schedules_due ON schedules (next_at) WHERE enabled = 1;
