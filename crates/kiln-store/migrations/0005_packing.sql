-- Large archives that lie as they were sent, until they are cut into chunks.
CREATE INDEX blobs_to_pack ON blobs (id) WHERE substr(place, 1, 6) = 'large/';
