-- An attempt in which one job begins at one of its steps: which node of the run, and the number of the step, from 1.

ALTER TABLE run_attempts ADD COLUMN from_node {int};
ALTER TABLE run_attempts ADD COLUMN from_step {int};
