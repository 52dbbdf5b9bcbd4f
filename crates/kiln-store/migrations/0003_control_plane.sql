-- What a server needs beside the runs: who may speak to it, what is set for all of it, and what runners
-- say while they work.

ALTER TABLE users ADD COLUMN admin {int} NOT NULL DEFAULT 0;

-- A token acts for its user. Only the SHA-256 of it is kept; `scopes` is a JSON list of words.
CREATE TABLE api_tokens (
    id {id},
    user_id {int} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    -- The only organization it is good for; NULL for all of its user's.
    org_id {int} REFERENCES organizations (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    hash {bytes} NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    created_at {int} NOT NULL,
    expires_at {int},
    last_used_at {int},
    revoked_at {int}
) {strict};
CREATE INDEX api_tokens_by_user ON api_tokens (user_id, id);

-- Good for one thing, once.
CREATE TABLE one_time_keys (
    hash {bytes} PRIMARY KEY,
    user_id {int} NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    purpose TEXT NOT NULL,
    created_at {int} NOT NULL,
    expires_at {int} NOT NULL,
    used_at {int}
) {strict};

-- What is set for the whole installation.
CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at {int} NOT NULL
) {strict};

-- The number of the last report that was heard under this claim.
ALTER TABLE leases ADD COLUMN heard {int} NOT NULL DEFAULT 0;

-- How the step itself ended; `conclusion` is what counts.
ALTER TABLE steps ADD COLUMN outcome TEXT;
ALTER TABLE steps ADD COLUMN tries {int} NOT NULL DEFAULT 1;

-- Why it could not start.
ALTER TABLE runs ADD COLUMN note TEXT;
CREATE INDEX runs_of_workflow ON runs (workflow_id, id);
CREATE INDEX runs_by_branch ON runs (repo_id, head_branch, id);
CREATE INDEX runs_by_event ON runs (repo_id, event, id);
CREATE INDEX runs_by_actor ON runs (repo_id, actor, id);

ALTER TABLE runners ADD COLUMN health_at {int};
-- The runner itself says that it takes no more; `draining` is what others want of it.
ALTER TABLE runners ADD COLUMN leaving {int} NOT NULL DEFAULT 0;

-- Jobs that ended and are not yet counted with their runner.
CREATE TABLE runner_ends (
    id {id},
    runner_id {int} NOT NULL,
    org_id {int} NOT NULL,
    repo_id {int} NOT NULL,
    failed {int} NOT NULL,
    -- How many seconds it took; NULL when that says nothing about the runner.
    took {real},
    at {int} NOT NULL
) {strict};
