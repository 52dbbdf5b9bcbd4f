-- On PostgreSQL each change of rows of an attempt, under its lock, leaves another version: a server that remembers them at
-- the one that is there need not read them again.

ALTER TABLE run_attempts ADD COLUMN version {int} NOT NULL DEFAULT 0;
-- Servers from before this step would change rows and leave the version. They do not find what they look for any more, and
-- change nothing.
ALTER TABLE run_attempts RENAME COLUMN jobs_made TO job_count;
