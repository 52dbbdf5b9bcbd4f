-- What a run leaves belongs to a manifest of its own, which is made with the first of it. Only one of a run is open.
ALTER TABLE manifests ADD COLUMN own {int} NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX manifests_own ON manifests (run_id) WHERE own = 1 AND status = 'DRAFT';

-- What the store calls an upload in parts that was given up: the row goes when the store has let go of it.
ALTER TABLE removals ADD COLUMN parts TEXT;

-- How often jobs looked for a cache, and found one or none.
CREATE TABLE cache_looks (
    repo_id {int} PRIMARY KEY REFERENCES repositories (id) ON DELETE CASCADE,
    hits {int} NOT NULL,
    misses {int} NOT NULL
) {strict_small};
