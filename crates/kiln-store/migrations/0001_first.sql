-- The first schema.
CREATE TABLE organizations (id {id}, name TEXT NOT NULL UNIQUE) {strict};
