-- Rows with the columns that schema 5 brings, in a database that has those of schemas 1 to 4.

INSERT INTO artifacts (id, org_id, repo_id, run_id, attempt, job_id, claim, name, size, content_type, trust, created_at)
VALUES (5000, 1, 1, 5000, 1, 7, 2, 'of a claim', 0, 'application/zip', 'trusted', 1);
INSERT INTO caches (id, org_id, repo_id, ref, trust, key, version, size, created_at, used_at, hash, hits, job_id, claim)
VALUES (5000, 1, 1, 'refs/heads/ü', 'untrusted', 'of a claim', 'v', 0, 1, 2, {bytes:05ff}, 9007199254740993, 7, 2);
INSERT INTO blobs (id, hash, size, place, stored, created_at) VALUES
    (90, {bytes:90}, 9000000, 'large/ab/cd', 9000000, 8);
