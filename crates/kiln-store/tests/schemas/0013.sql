-- Rows with the columns that schema 13 brings, in a database that has those of schemas 1 to 12.

UPDATE run_attempts SET version = 3;
