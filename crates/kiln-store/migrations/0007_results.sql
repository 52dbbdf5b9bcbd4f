-- What the results of jobs depended on, so that they can be used again.

-- The fingerprint that a claim found, and which claim; -1 when what the job left is not all there any more.
ALTER TABLE jobs ADD COLUMN fingerprint {bytes};
ALTER TABLE jobs ADD COLUMN fingerprint_claim {int};
-- Whose result stands for this one, as JSON.
ALTER TABLE jobs ADD COLUMN reused TEXT;
CREATE INDEX jobs_by_fingerprint ON jobs (fingerprint) WHERE fingerprint IS NOT NULL;
CREATE INDEX artifacts_by_job ON artifacts (job_id);

-- Drafts end with their runs.
CREATE INDEX manifests_of_runs ON manifests (id) WHERE status = 'DRAFT' AND run_id IS NOT NULL;

-- What went wrong lately is found without looking at all that went well.
CREATE INDEX runs_broken ON runs (conclusion, ended_at, org_id) WHERE conclusion <> 'success';
