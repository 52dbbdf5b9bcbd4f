-- Rows for the tables that schema 2 brings, in a database that has those of schema 1.

INSERT INTO blobs (id, hash, size, payload, place, created_at, unused_since) VALUES
    (1, {bytes:01}, 3, {bytes:000102}, NULL, 1, NULL),
    (2, {bytes:02}, 9223372036854775807, NULL, 's3:ab/cd', 2, 3),
    (3, {bytes:03}, 0, {bytes:}, NULL, 4, NULL);
INSERT INTO blob_links (org_id, blob_id, created_at) VALUES (1, 1, 5), (2, 1, 6), (1, 3, 7);
INSERT INTO objects (id, org_id, type, blob_id, provider_object_id, created_at, expires_at) VALUES
    (1, 1, 'artifact', 1, NULL, 8, NULL), (9007199254740993, 2, 'instance', NULL, 'i-ü', 9, 10);
INSERT INTO object_tags (object_id, org_id, tag) VALUES (1, 1, ''), (1, 1, 'größe=1'), (9007199254740993, 2, '🔥');
INSERT INTO manifests (id, org_id, run_id, status, default_cleanup_priority, retention_ms, created_at, updated_at, released_at, expires_at) VALUES
    (1, 1, 1, 'DRAFT', 50, NULL, 11, 12, NULL, NULL), (2, 2, NULL, 'SEALED', -1, 86400000, 13, 14, 15, 16);
INSERT INTO manifest_resources (manifest_id, org_id, resource_type, resource_id, cleanup_priority, added_at, owner_type, owner_id) VALUES
    (1, 1, 'object', '1', NULL, 17, 'manifest', NULL), (1, 1, 'object', '', 5, 18, 'run', 1);
INSERT INTO artifacts (id, org_id, repo_id, run_id, attempt, job_id, name, object_id, hash, size, content_type, trust, keep, created_at, finalized_at, expires_at) VALUES
    (1, 1, 1, 1, 1, 1048576, 'dist', 1, {bytes:01}, 3, 'application/zip', 'trusted', 1, 19, 20, NULL),
    (2, 2, 2, 1999999, 3, NULL, 'größe', NULL, NULL, 0, '', 'untrusted', 0, 21, NULL, 22);
INSERT INTO caches (id, org_id, repo_id, ref, trust, key, version, object_id, size, created_at, finalized_at, used_at) VALUES
    (1, 1, 1, 'refs/heads/main', 'trusted', 'cargo-abc', 'v1', 1, 3, 23, 24, 25),
    (2, 1, 1, '', 'untrusted', '', '', NULL, 0, 26, NULL, 27);
