-- On PostgreSQL each change of rows of an attempt, under its lock, leaves another version: a server that remembers them at
-- the one that is there need not read them again.

ALTER TABLE run_attempts ADD COLUMN version {int} NOT NULL DEFAULT 0;
{versions_for_others}
