-- A row for the column that schema 10 brings, in a database that has those of schemas 1 to 9.

UPDATE trigger_keys SET request = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08';
