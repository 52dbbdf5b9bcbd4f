-- What was asked under the key of a caller, as a digest: the same key for something else is a mistake. Fingerprints are
-- what was asked, and have none.

ALTER TABLE trigger_keys ADD COLUMN request TEXT;
