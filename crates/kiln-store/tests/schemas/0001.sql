-- Rows for every table of schema 1, with values that are easy to lose: other scripts, empty texts,
-- nothing at all, the largest numbers, ids beyond what a double can hold. `{bytes:…}` is hexadecimal.

INSERT INTO organizations (id, name, display_name, plan, shares, created_at, updated_at) VALUES
    (1, 'acme', 'Acme', 'free', 100, 0, 0),
    (2, 'ünïcode-组织-🔥', '', 'enterprise', 9223372036854775807, 9223372036854775807, -1),
    (9007199254740993, 'quote''s and \backslash', NULL, '', 1, 1700000000000, 1700000000001);
INSERT INTO users (id, name, email, display_name, created_at, disabled_at) VALUES
    (1, 'mona', 'mona@example.test', 'Mona', 1, NULL),
    (2, 'ß', NULL, NULL, 2, 3);
INSERT INTO members (org_id, user_id, role, created_at) VALUES
    (1, 1, 'owner', 4), (9007199254740993, 2, '', 5);
INSERT INTO teams (id, org_id, name, created_at) VALUES (7, 1, 'the "core" team', 6);
INSERT INTO team_members (team_id, user_id, role) VALUES (7, 1, 'maintainer'), (7, 2, 'member');
INSERT INTO repositories (id, org_id, name, default_branch, enabled, visibility, shares, priorities, forge, forge_id, clone_url, paused, created_at, updated_at) VALUES
    (1, 1, 'web', 'main', 1, 'private', 100, NULL, NULL, NULL, NULL, NULL, 7, 8),
    (2, 2, '名前', 'trunk', 0, 'public', 1, '{"urgent": 60}', 'github', '12345678901234567890', 'https://git.example.test/x.git', 'by mona: "maintenance"', 9, 10);
INSERT INTO team_repositories (team_id, repo_id, permission) VALUES (7, 1, 'write');
INSERT INTO workflows (id, org_id, repo_id, path, name, enabled, triggers, runs, created_at, updated_at) VALUES
    (1, 1, 1, '.github/workflows/ci.yml', 'CI', 1, '{}', 41, 11, 12),
    (2, 2, 2, 'é', '', 0, '{"push": null}', 9223372036854775807, 13, 14);
INSERT INTO environments (id, org_id, repo_id, name, rules, created_at, updated_at) VALUES
    (1, 1, 1, 'production', '{"reviewers": ["mona"]}', 15, 16);
INSERT INTO secrets (id, org_id, scope_kind, scope_id, name, key_id, sealed, created_at, updated_at) VALUES
    (1, 1, 'repo', 1, 'TOKEN', 'k1', {bytes:00ff0a27}, 17, 18),
    (2, 1, 'org', 1, 'EMPTY', 'k1', {bytes:}, 19, 20);
INSERT INTO variables (id, org_id, scope_kind, scope_id, name, value, created_at, updated_at) VALUES
    (1, 1, 'repo', 1, 'MODE', '', 21, 22), (2, 1, 'org', 1, 'TEXT', 'a
b	c', 23, 24);
INSERT INTO pools (id, org_id, name, settings, created_at) VALUES
    (1, NULL, 'default', '{}', 25), (2, 1, 'default', '{"max": 5}', 26);
INSERT INTO registration_keys (id, org_id, pool_id, hash, created_by, created_at, expires_at, uses_left, revoked_at) VALUES
    (1, NULL, 1, {bytes:01}, 'mona', 27, 28, NULL, NULL), (2, 1, 2, {bytes:02}, 'mona', 29, 30, 0, 31);
INSERT INTO runners (id, org_id, pool_id, name, capabilities, max_parallel, single_use, os, architecture, version, protocol, credential, public_key, epoch, draining, health, speed, completed, failed, registered_at, last_seen_at, unregistered_at) VALUES
    (1, NULL, 1, 'r1', '{"labels": ["linux"]}', 4, 0, 'linux', 'x86_64', '1.0', 1, {bytes:aa}, NULL, 0, 0, NULL, 1.0, 3, 1, 32, 33, NULL),
    (2, 1, 2, 'r1', '{}', 1, 1, 'macos', 'aarch64', '', 2, {bytes:bb}, {bytes:cc}, 7, 1, 'sick', 0.1, 0, 0, 34, 35, 36);
INSERT INTO documents (hash, body, created_at) VALUES ({bytes:00}, '', 37), ({bytes:ffee}, '{"plan": "🔥"}', 38);
INSERT INTO trigger_keys (repo_id, key, run_id, at) VALUES (1, 'push:1', 1, 39), (2, 'push:1', 1999999, 39), (2, '', 1999999, 40);
INSERT INTO runs (id, org_id, repo_id, workflow_id, run_number, attempt, root_run_id, event, actor, trust, ref, head_sha, head_branch, title, status, conclusion, created_at, started_at, ended_at) VALUES
    (1, 1, 1, 1, 1, 1, NULL, 'push', 'mona', 'trusted', 'refs/heads/main', 'abc', 'main', 'first', 'completed', 'success', 41, 42, 43),
    (1999999, 2, 2, 2, 2, 3, 1, 'schedule', '', 'untrusted', '', '', NULL, '', 'queued', NULL, 44, NULL, NULL);
INSERT INTO run_attempts (run_id, attempt, org_id, repo_id, plan, context, actor, trust, class, priority, state, conclusion, group_name, cancelled_by, cancel_reason, cancel_forced, cancelled_at, scopes, nodes, legs, jobs_made, created_at, started_at, ended_at) VALUES
    (1, 1, 1, 1, {bytes:00}, {bytes:ffee}, 'mona', 'trusted', 'normal', 0, 'ended', 'success', NULL, NULL, NULL, 0, NULL, 1, 1, 1, 1, 45, 46, 47),
    (1999999, 3, 2, 2, {bytes:ffee}, {bytes:00}, 'mona', 'untrusted', 'low', -5, 'open', NULL, 'deploy', 'mona', 'why not', 1, 48, 2, 2, 2, 2, 49, NULL, NULL);
INSERT INTO run_scopes (run_id, attempt, number, workflow, caller, inputs, first_node, open, succeeded, failed, cancelled, timed_out, skipped, stopped) VALUES
    (1, 1, 0, 0, NULL, '{}', 0, 0, 1, 0, 0, 0, 0, 0), (1999999, 3, 1, 1, 0, '{"a": 1.5}', 1, 1, 0, 0, 0, 0, 0, 1);
INSERT INTO run_nodes (run_id, attempt, number, scope, job, origin_attempt, state, conclusion, needs_remaining, above_failed, above_cancelled, above_skipped, first_leg, leg_count, open_legs, succeeded, failed, cancelled, timed_out, skipped, fail_fast, max_parallel, tripped, outputs, note) VALUES
    (1, 1, 0, 0, 0, 1, 'ended', 'success', 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, NULL, 0, '{"k": "v"}', NULL),
    (1999999, 3, 1, 1, 0, 2, 'waiting', NULL, 2, 1, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, NULL, 'a note');
INSERT INTO jobs (run_id, attempt, number, id, node, leg_index, origin_attempt, name, matrix, state, conclusion, runner_id, claim, retries, losses, cancelling, tolerated, group_name, scope, lane_id, queue_key, wake_at, queued_at, claimed_at, prepared_at, started_at, ended_at, outputs, note, limits, used) VALUES
    (1, 1, 0, 1048576, 0, 0, 1, 'test', NULL, 'ended', 'success', 1, 1, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 50, 51, 52, 53, 54, '{}', NULL, '{"cores": 2}', '{"cpu": 1.25}'),
    (1999999, 3, 1, 2097150951425, 1, 0, 3, 'build (größe)', '{"os": "linux"}', 'queued', NULL, NULL, 0, 1, 2, 1, 1, 'g', 1, 1, -9223372036854775808, 55, 56, NULL, NULL, NULL, NULL, NULL, '', NULL, NULL);
INSERT INTO job_claims (run_id, attempt, number, claim, runner_id, outcome, reason, queued_at, claimed_at, prepared_at, started_at, ended_at) VALUES
    (1, 1, 0, 0, 2, 'lost', NULL, NULL, 57, NULL, NULL, 58), (1999999, 3, 1, 1, 1, 'returned', 'busy', 59, 60, 61, 62, 63);
INSERT INTO steps (run_id, attempt, job, claim, number, name, status, conclusion, exit_code, started_at, ended_at) VALUES
    (1, 1, 0, 1, 0, 'Run make', 'completed', 'failure', -1, 64, 65), (1999999, 3, 1, 1, 0, '', 'queued', NULL, NULL, NULL, NULL);
INSERT INTO groups (repo_id, name, members) VALUES (1, '', '[]'), (1, 'Ä', '[1]'), (1, 'z', '[2]');
INSERT INTO timers (run_id, attempt, number, at) VALUES (1999999, 3, 1, 9223372036854775807);
INSERT INTO queues (id, hash, requirements, paused, created_at, used_at) VALUES (1, {bytes:10}, '{"labels": []}', NULL, 66, 67);
INSERT INTO lanes (id, queue_id, priority, org_id, repo_id, class, floor, active) VALUES (1, 1, 100, 2, 2, 'low', -9223372036854775808, 1);
INSERT INTO queue (lane_id, key, job_id, attempt, number) VALUES
    (1, -9223372036854775808, 2097150951425, 3, 1), (1, 9223372036854775807, 9223372036854775807, 1, 0);
INSERT INTO leases (job_id, run_id, attempt, number, claim, runner_id, nonce, claimed_at, expires_at, acknowledged, counted, command, org_id, repo_id, estimate) VALUES
    (1048576, 1, 1, 0, 1, 1, 'nonce', 68, 69, 1, 0, NULL, 1, 1, 0.30000000000000004);
INSERT INTO org_loads (org_id, running, job_limit) VALUES (1, 1, NULL), (2, 0, 20);
INSERT INTO usage (org_id, repo_id, consumed, hour, typical) VALUES
    (1, 0, 1e300, 70, NULL), (1, 1, 4.9e-324, 71, 12.5), (2, 0, 0.0, 72, 3.0);
INSERT INTO usage_deltas (id, org_id, repo_id, seconds, ended, took, at) VALUES (1, 1, 1, -1.5, 1, 2.0, 73);
INSERT INTO events (run_id, id, txid, org_id, repo_id, attempt, job_id, kind, payload, at) VALUES
    (1, 1, 0, 1, 1, 1, NULL, 'run_created', NULL, 74),
    (1999999, 2, 0, 2, 2, 3, 2097150951425, 'job_queued', '{"why": "🔥"}', 75),
    (1, 9, 0, 1, 1, 1, 1048576, 'job_ended', '', 76);
INSERT INTO outbox (id, kind, run_id, payload, due_at, tries, error, created_at) VALUES
    (1, 'notify', NULL, '{}', 77, 0, NULL, 78), (2, 'continue', 1, '[]', 79, 8, 'no answer', 80);
INSERT INTO audit (id, org_id, at, actor_kind, actor, action, subject_kind, subject_id, detail, address) VALUES
    (1, NULL, 81, 'system', 'kiln', 'start', 'server', NULL, NULL, NULL),
    (2, 1, 82, 'user', 'mona', 'secret.set', 'secret', 1, '{"name": "TOKEN"}', '127.0.0.1');
INSERT INTO webhook_deliveries (id, org_id, repo_id, forge, delivery, event, payload, status, error, received_at, handled_at, taken_at) VALUES
    (1, NULL, NULL, 'github', 'd-1', 'ping', {bytes:7b7d}, 'handled', NULL, 83, 84, NULL), (2, 1, 1, 'github', 'd-2', 'push', {bytes:}, 'received', 'no such ref', 85, NULL, 86);
INSERT INTO schedules (id, org_id, repo_id, workflow_id, cron, timezone, enabled, next_at, last_at) VALUES
    (1, 1, 1, 1, '*/5 * * * *', 'UTC', 1, 86, NULL), (2, 2, 2, 2, '0 0 * * *', 'Europe/Berlin', 0, 87, 88);
