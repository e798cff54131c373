-- Bookmarks: where a filter on disk was. Each has a row in namegate.consumer like a filter in memory, so pruning
-- respects it; its nonce tells whether the history that certified its position is still this one.

-- Puts a bookmark at `at_watermark`, a position that the caller's own filter holds certified.
CREATE FUNCTION namegate.place(bookmark_id uuid, bookmark_nonce uuid, at_watermark pg_snapshot) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    INSERT INTO namegate.consumer (id, nonce, watermark) VALUES (bookmark_id, bookmark_nonce, at_watermark)
$$;

-- Makes `new_id` known as a consumer at the bookmark's position, and returns that position; NULL when the bookmark is not
-- there any more, or not the one that was written. The bookmark stays: it is good for as long as its file is.
CREATE FUNCTION namegate.resume(bookmark_id uuid, bookmark_nonce uuid, new_id uuid, new_nonce uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    position_found pg_snapshot;
BEGIN
    UPDATE namegate.consumer SET seen = clock_timestamp()
     WHERE id = bookmark_id AND nonce = bookmark_nonce
    RETURNING watermark INTO position_found;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO namegate.consumer (id, nonce, watermark) VALUES (new_id, new_nonce, position_found);
    RETURN position_found::text;
END $$;

REVOKE ALL ON FUNCTION namegate.place(uuid, uuid, pg_snapshot), namegate.resume(uuid, uuid, uuid, uuid) FROM PUBLIC;

ALTER TABLE namegate.meta ALTER COLUMN version SET DEFAULT 5;
UPDATE namegate.meta SET version = 5;
