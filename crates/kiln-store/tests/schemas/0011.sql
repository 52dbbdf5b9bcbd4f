-- Rows with the columns that schema 11 brings, in a database that has those of schemas 1 to 10.

UPDATE run_attempts SET from_node = 0, from_step = 2;
