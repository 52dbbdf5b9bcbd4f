-- Where jobs deployed to, as their runners said at their end.

ALTER TABLE jobs ADD COLUMN environment TEXT;
ALTER TABLE jobs ADD COLUMN environment_url TEXT;
-- Few jobs deploy: the last ones of a repository are found without a look at all the others.
CREATE INDEX jobs_deployed ON jobs (run_id, id) WHERE environment IS NOT NULL;
