-- Rows with the columns that schema 7 brings, in a database that has those of schemas 1 to 6.

UPDATE jobs SET fingerprint = {bytes:06ff}, fingerprint_claim = 1, reused = '{"job":1,"attempt":1,"claim":1}';
