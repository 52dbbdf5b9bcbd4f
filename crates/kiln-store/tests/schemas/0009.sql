-- A row for the index that schema 9 brings, in a database that has those of schemas 1 to 8.

UPDATE runs SET conclusion = NULL WHERE id = 1999999;
