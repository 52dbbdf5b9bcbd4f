-- Schema 5 brings an index and no table: an archive that it knows.
INSERT INTO blobs (id, hash, size, place, stored, created_at) VALUES
    (90, {bytes:90}, 9000000, 'large/ab/cd', 9000000, 8);
