-- Rows with the columns that schema 8 brings, in a database that has those of schemas 1 to 7.

UPDATE jobs SET environment = 'prüfung', environment_url = 'https://app.example.com/?v=1';
