-- Trees of files, of which a second save keeps only what changed.

-- Packs that jobs sent and the server has looked through: which repository, and runs of which trust, may build
-- on them.
CREATE TABLE tree_packs (
    pack_id {int} NOT NULL REFERENCES blobs (id) ON DELETE CASCADE,
    repo_id {int} NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    trust TEXT NOT NULL,
    PRIMARY KEY (pack_id, repo_id, trust)
) {strict};
CREATE INDEX tree_packs_by_repo ON tree_packs (repo_id);

-- What is in them. Who may know of a chunk follows from the caches that need its pack.
CREATE TABLE tree_chunks (
    hash {bytes} NOT NULL,
    pack_id {int} NOT NULL REFERENCES blobs (id) ON DELETE CASCADE,
    start {int} NOT NULL,
    stored {int} NOT NULL,
    size {int} NOT NULL,
    PRIMARY KEY (hash, pack_id)
) {strict};
CREATE INDEX tree_chunks_by_pack ON tree_chunks (pack_id);

-- The name that an artifact gets when it is complete: until then, the one that it replaces has it.
ALTER TABLE artifacts ADD COLUMN takes TEXT;
CREATE INDEX artifacts_by_name ON artifacts (repo_id, name, id);
-- Keys are looked up by how they begin, byte by byte.
CREATE INDEX caches_by_key ON caches (repo_id, ref, version, key{bytewise});
-- A job has only so many bytes on their way, and none when it is over.
CREATE INDEX uploads_by_job ON uploads (job_id) WHERE job_id IS NOT NULL;
