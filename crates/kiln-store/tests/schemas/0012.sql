-- Rows with the columns that schema 12 brings, in a database that has those of schemas 1 to 11.

UPDATE run_attempts SET from_node = 0, from_step = 2;
