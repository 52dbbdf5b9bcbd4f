-- Rows for the tables and columns that schema 6 brings, in a database that has those of schemas 1 to 5.

INSERT INTO tree_packs (pack_id, repo_id, trust) VALUES (90, 1, 'trusted'), (90, 1, 'ü');
INSERT INTO tree_chunks (hash, pack_id, start, stored, size) VALUES
    ({bytes:06}, 90, 0, 10, 20), ({bytes:06ff}, 90, 9223372036854775807, 0, 0);
INSERT INTO artifacts (id, org_id, repo_id, run_id, attempt, job_id, claim, name, size, content_type, trust, created_at, takes)
VALUES (6000, 1, 1, 5000, 1, 7, 2, 'of a claim 2', 0, 'application/zip', 'trusted', 1, 'of a claim');
