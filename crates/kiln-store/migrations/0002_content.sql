-- Bytes and what refers to them.

CREATE TABLE blobs (
    id {id},
    hash {bytes} NOT NULL UNIQUE,
    size {int} NOT NULL,
    -- Up to 64 KiB stay here; NULL when they lie on disk or in S3, at `place`.
    payload {bytes},
    place TEXT,
    created_at {int} NOT NULL,
    -- Since when nothing refers to it; it is collected after a time of grace.
    unused_since {int}
) {strict};
CREATE INDEX blobs_unused ON blobs (unused_since) WHERE unused_since IS NOT NULL;

-- Who may know that the bytes exist.
CREATE TABLE blob_links (
    org_id {int} NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    blob_id {int} NOT NULL REFERENCES blobs (id) ON DELETE CASCADE,
    created_at {int} NOT NULL,
    PRIMARY KEY (org_id, blob_id)
) {strict};
CREATE INDEX blob_links_by_blob ON blob_links (blob_id);

CREATE TABLE objects (
    id {id},
    org_id {int} NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    type TEXT NOT NULL,
    blob_id {int} REFERENCES blobs (id),
    -- What an instance provider calls it.
    provider_object_id TEXT,
    created_at {int} NOT NULL,
    expires_at {int}
) {strict};
CREATE INDEX objects_by_type ON objects (org_id, type, id);
CREATE INDEX objects_by_blob ON objects (blob_id);
CREATE INDEX objects_expiring ON objects (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE object_tags (
    object_id {int} NOT NULL REFERENCES objects (id) ON DELETE CASCADE,
    -- A tag that everybody uses must not make one organization search through all the others.
    org_id {int} NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (object_id, tag)
) {strict};
CREATE INDEX object_tags_by_tag ON object_tags (org_id, tag, object_id);

CREATE TABLE manifests (
    id {id},
    org_id {int} NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    run_id {int},
    status TEXT NOT NULL DEFAULT 'DRAFT' CHECK (status IN ('DRAFT', 'SEALED')),
    default_cleanup_priority {int} NOT NULL DEFAULT 50,
    retention_ms {int},
    created_at {int} NOT NULL,
    updated_at {int} NOT NULL,
    released_at {int},
    expires_at {int}
) {strict};
CREATE INDEX manifests_by_run ON manifests (run_id);
CREATE INDEX manifests_expiring ON manifests (expires_at) WHERE status = 'SEALED';

CREATE TABLE manifest_resources (
    manifest_id {int} NOT NULL REFERENCES manifests (id) ON DELETE CASCADE,
    org_id {int} NOT NULL,
    resource_type TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    cleanup_priority {int},
    added_at {int} NOT NULL,
    owner_type TEXT NOT NULL DEFAULT 'manifest',
    owner_id {int},
    PRIMARY KEY (manifest_id, resource_type, resource_id)
) {strict};
-- Every resource has one owner.
CREATE UNIQUE INDEX manifest_resources_by_resource
    ON manifest_resources (org_id, resource_type, resource_id) WHERE owner_type = 'manifest';

CREATE TABLE artifacts (
    id {id},
    org_id {int} NOT NULL,
    repo_id {int} NOT NULL,
    run_id {int} NOT NULL,
    attempt {int} NOT NULL,
    job_id {int},
    name TEXT NOT NULL,
    object_id {int} REFERENCES objects (id),
    hash {bytes},
    size {int} NOT NULL,
    content_type TEXT NOT NULL,
    trust TEXT NOT NULL,
    keep {int} NOT NULL DEFAULT 0,
    created_at {int} NOT NULL,
    finalized_at {int},
    expires_at {int},
    UNIQUE (run_id, name)
) {strict};
CREATE INDEX artifacts_by_repo ON artifacts (repo_id, id);
CREATE INDEX artifacts_expiring ON artifacts (expires_at) WHERE keep = 0;

-- The trust of the writer is part of what makes an entry unique: an untrusted run cannot stand in the
-- place of a trusted one.
CREATE TABLE caches (
    id {id},
    org_id {int} NOT NULL,
    repo_id {int} NOT NULL REFERENCES repositories (id) ON DELETE CASCADE,
    ref TEXT NOT NULL,
    trust TEXT NOT NULL,
    key TEXT NOT NULL,
    version TEXT NOT NULL,
    object_id {int} REFERENCES objects (id),
    size {int} NOT NULL,
    created_at {int} NOT NULL,
    finalized_at {int},
    used_at {int} NOT NULL,
    UNIQUE (repo_id, trust, ref, key, version)
) {strict};
CREATE INDEX caches_by_use ON caches (repo_id, used_at);
