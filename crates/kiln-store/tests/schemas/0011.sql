-- Rows for what schema 11 brings, in a database that has those of schemas 1 to 10.

UPDATE manifests SET own = 1 WHERE run_id IS NOT NULL AND status = 'SEALED';
UPDATE removals SET parts = 's3-upload-1' WHERE place = 'ü';
INSERT INTO cache_looks (repo_id, hits, misses) VALUES (1, 7, 3);
