-- Where bytes lie that are too many for a row, how they get there, and how they go.

-- How many bytes are kept at `place`; NULL when it is as many as there are.
ALTER TABLE blobs ADD COLUMN stored {int};
CREATE INDEX blobs_by_place ON blobs (place);

-- A large archive is a list of chunks, which lie in packs; each of these is a row of its own.
CREATE TABLE blob_parts (
    blob_id {int} NOT NULL REFERENCES blobs (id) ON DELETE CASCADE,
    part_id {int} NOT NULL REFERENCES blobs (id),
    PRIMARY KEY (blob_id, part_id)
) {strict};
CREATE INDEX blob_parts_by_part ON blob_parts (part_id);

-- The chunks that an organization has, by their SHA-256.
CREATE TABLE chunks (
    org_id {int} NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    hash {bytes} NOT NULL,
    pack_id {int} NOT NULL REFERENCES blobs (id) ON DELETE CASCADE,
    start {int} NOT NULL,
    stored {int} NOT NULL,
    size {int} NOT NULL,
    PRIMARY KEY (org_id, hash)
) {strict};
CREATE INDEX chunks_by_pack ON chunks (pack_id);

-- Bytes that somebody may send. They are nobody's before they were looked at.
CREATE TABLE uploads (
    id {id},
    org_id {int} NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    job_id {int},
    hash {bytes} NOT NULL,
    size {int} NOT NULL,
    place TEXT NOT NULL,
    -- What the store calls an upload in parts.
    parts TEXT,
    created_at {int} NOT NULL,
    expires_at {int} NOT NULL
) {strict};
CREATE INDEX uploads_expiring ON uploads (expires_at);
CREATE INDEX uploads_by_place ON uploads (place);

-- Bytes whose rows are gone, and which go next.
CREATE TABLE removals (
    place TEXT PRIMARY KEY,
    stored {int} NOT NULL,
    created_at {int} NOT NULL
) {strict};
