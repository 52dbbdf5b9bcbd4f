-- Rows for the tables that schema 3 brings, in a database that has those of schemas 1 and 2.

INSERT INTO api_tokens (id, user_id, org_id, name, hash, scopes, created_at, expires_at, last_used_at, revoked_at) VALUES
    (1, 1, NULL, 'laptop', {bytes:01}, '["admin"]', 1, NULL, NULL, NULL),
    (9007199254740993, 2, 1, 'größe', {bytes:02ff}, '[]', 2, 9223372036854775807, 3, 4);
INSERT INTO one_time_keys (hash, user_id, purpose, created_at, expires_at, used_at) VALUES
    ({bytes:00}, 1, 'login', 5, 6, NULL), ({bytes:ff}, 2, '', 7, 8, 9);
INSERT INTO settings (name, value, updated_at) VALUES ('paused', '{"by": "mona"}', 10), ('ü', '', 11);
INSERT INTO runner_ends (id, runner_id, org_id, repo_id, failed, took, at) VALUES
    (1, 1, 1, 1, 0, 0.30000000000000004, 12), (2, 2, 2, 2, 1, NULL, 13);
