-- Rows for the tables that schema 4 brings, in a database that has those of schemas 1 to 3.

INSERT INTO blob_parts (blob_id, part_id) VALUES (1, 2);
INSERT INTO chunks (org_id, hash, pack_id, start, stored, size) VALUES
    (1, {bytes:00}, 1, 0, 10, 20), (2, {bytes:ff}, 2, 9223372036854775807, 0, 0);
INSERT INTO uploads (id, org_id, job_id, hash, size, place, parts, created_at, expires_at) VALUES
    (1, 1, NULL, {bytes:01}, 70000, 'uploads/aa/1', NULL, 1, 2),
    (9007199254740993, 2, 7, {bytes:02ff}, 0, 'uploads/ü', 'x', 3, 9223372036854775807);
INSERT INTO removals (place, stored, created_at) VALUES ('blobs/aa/1', 5, 6), ('ü', 0, 7);
