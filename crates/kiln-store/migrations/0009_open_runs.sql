-- Runs that are not over are few among many: lists of them are read in their order, without a look at all the others.

CREATE INDEX runs_open_by_id ON runs (id) WHERE conclusion IS NULL;
