-- Who wrote what is kept for others, and how often it was found.

-- A job that begins anew under another claim replaces what it left before.
ALTER TABLE artifacts ADD COLUMN claim {int};
-- Objects go with what they belong to.
CREATE INDEX artifacts_by_object ON artifacts (object_id);
CREATE INDEX artifacts_unfinished ON artifacts (created_at) WHERE finalized_at IS NULL;

ALTER TABLE caches ADD COLUMN hash {bytes};
ALTER TABLE caches ADD COLUMN hits {int} NOT NULL DEFAULT 0;
ALTER TABLE caches ADD COLUMN job_id {int};
ALTER TABLE caches ADD COLUMN claim {int};
CREATE INDEX caches_by_object ON caches (object_id);
CREATE INDEX caches_unused ON caches (used_at);
CREATE INDEX caches_unfinished ON caches (created_at) WHERE finalized_at IS NULL;

-- Large archives that lie as they were sent, until they are cut into chunks.
CREATE INDEX blobs_to_pack ON blobs (id) WHERE substr(place, 1, 6) = 'large/';
