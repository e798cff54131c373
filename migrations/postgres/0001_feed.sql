-- The change feed: a row trigger writes every name change into an outbox, a STABLE function reads it back by
-- snapshot difference. One watched table per database; `namegate.watch` says which.

CREATE SCHEMA IF NOT EXISTS namegate;

-- What is watched, and below which transaction id the outbox has been emptied.
CREATE TABLE namegate.meta (
    one           bool PRIMARY KEY DEFAULT true CHECK (one),
    pruned_below  xid8 NOT NULL DEFAULT '0',
    source_table  text,     -- quoted and schema-qualified; a name and not an oid, so that a swapped table is noticed
    source_column name
);
INSERT INTO namegate.meta DEFAULT VALUES;

-- One row per name that began (released = false) or ceased (released = true) to be held.
-- name NULL with released = true: the whole table was truncated.
-- A logged table: an UNLOGGED one is emptied by a crash, and the names in it would be lost.
CREATE TABLE namegate.outbox (
    xid      xid8 NOT NULL DEFAULT pg_current_xact_id(),
    name     text COLLATE "C",
    released bool NOT NULL DEFAULT false,
    at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX outbox_xid ON namegate.outbox (xid);

-- One row per filter that follows the feed. `nonce` and `watermark` are its last certificate: written in the
-- transaction that read the feed up to `watermark`, so that they survive a crash together with what they certify.
CREATE TABLE namegate.consumer (
    id        uuid PRIMARY KEY,
    nonce     uuid NOT NULL,
    watermark pg_snapshot NOT NULL,
    seen      timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION namegate.refuse_truncate() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'namegate.outbox must not be truncated: running filters would miss names'
        USING HINT = 'namegate prunes it by itself';
END $$;
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON namegate.outbox
    FOR EACH STATEMENT EXECUTE FUNCTION namegate.refuse_truncate();
ALTER TABLE namegate.outbox ENABLE ALWAYS TRIGGER refuse_truncate;

-- Starts watching `source.source_column`: makes the trigger function for that column and hangs it on the table.
-- SECURITY DEFINER: the roles of other programs have no rights on this schema.
-- AFTER ... WHEN, not UPDATE OF: the latter is silent when a BEFORE trigger rewrites the name.
-- ENABLE ALWAYS: a plain trigger is silent under session_replication_role = replica.
CREATE FUNCTION namegate.watch(source regclass, source_column name) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    qualified text;
BEGIN
    SELECT format('%I.%I', n.nspname, c.relname) INTO STRICT qualified
      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = source;
    PERFORM set_config('lock_timeout', '5s', true);

    EXECUTE format($body$
        CREATE OR REPLACE FUNCTION namegate.capture() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $fn$
        BEGIN
            IF TG_OP = 'TRUNCATE' THEN
                INSERT INTO namegate.outbox (released) VALUES (true);
                RETURN NULL;
            END IF;
            IF TG_OP IN ('INSERT', 'UPDATE') AND NEW.%1$I IS NOT NULL THEN
                INSERT INTO namegate.outbox (name) VALUES (NEW.%1$I);
            END IF;
            IF TG_OP IN ('UPDATE', 'DELETE') AND OLD.%1$I IS NOT NULL THEN
                INSERT INTO namegate.outbox (name, released) VALUES (OLD.%1$I, true);
            END IF;
            RETURN NULL;
        END $fn$
    $body$, source_column);
    REVOKE ALL ON FUNCTION namegate.capture() FROM PUBLIC;

    EXECUTE format('CREATE TRIGGER namegate_insert AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION namegate.capture()', qualified);
    EXECUTE format('CREATE TRIGGER namegate_update AFTER UPDATE ON %s FOR EACH ROW WHEN (OLD.%2$I IS DISTINCT FROM NEW.%2$I) EXECUTE FUNCTION namegate.capture()', qualified, source_column);
    EXECUTE format('CREATE TRIGGER namegate_delete AFTER DELETE ON %s FOR EACH ROW EXECUTE FUNCTION namegate.capture()', qualified);
    EXECUTE format('CREATE TRIGGER namegate_truncate AFTER TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION namegate.capture()', qualified);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER namegate_insert, ENABLE ALWAYS TRIGGER namegate_update, ENABLE ALWAYS TRIGGER namegate_delete, ENABLE ALWAYS TRIGGER namegate_truncate', qualified);

    UPDATE namegate.meta SET source_table = qualified, source_column = watch.source_column;
END $$;

-- What is watched, for roles that cannot read namegate.meta.
CREATE FUNCTION namegate.watched(OUT source_table text, OUT source_column name)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT m.source_table, m.source_column FROM namegate.meta m
$$;

-- The watched table and everything under it, partitions and children by inheritance: SELECT shows their rows as its own.
-- From the catalog, and so without a lock: pg_partition_tree would wait for whoever has locked a partition.
CREATE FUNCTION namegate.watched_tree() RETURNS SETOF oid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    WITH RECURSIVE tree (relid) AS (
        SELECT to_regclass(source_table)::oid FROM namegate.meta
        UNION
        SELECT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = tree.relid
    )
    SELECT relid FROM tree WHERE relid IS NOT NULL
$$;

-- How many of the four triggers are in place and always enabled on the watched table; 0 when a table under it lacks
-- one of those that fire for rows.
CREATE FUNCTION namegate.armed_triggers() RETURNS int
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    WITH armed AS (
        SELECT tree.relid, count(t.oid)::int AS triggers, count(t.oid) FILTER (WHERE t.tgtype & 1 = 1) AS for_rows
          FROM namegate.watched_tree() AS tree (relid)
          LEFT JOIN pg_trigger t ON t.tgrelid = tree.relid AND t.tgenabled = 'A'
               AND t.tgfoid = to_regprocedure('namegate.capture()')
         GROUP BY tree.relid
    )
    SELECT CASE WHEN bool_and(for_rows = 3) THEN max(triggers) ELSE 0 END FROM armed
$$;

-- Everything whose change could let a name pass by the feed, as one value: the table and its partitions, our
-- triggers (their xmin betrays disable + enable inside one transaction), the trigger function, the table's unique
-- indexes, the outbox's file.
CREATE FUNCTION namegate.fingerprint() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    source oid := (SELECT to_regclass(source_table) FROM namegate.meta);
    tree   oid[] := ARRAY(SELECT namegate.watched_tree());
BEGIN
    RETURN md5(concat_ws('|',
        array_to_string(ARRAY(SELECT unnest(tree) ORDER BY 1), ','),
        (SELECT string_agg(concat_ws(':', t.oid, t.xmin, t.tgenabled, t.tgtype), ',' ORDER BY t.oid)
           FROM pg_trigger t
          WHERE t.tgrelid = ANY (tree) AND t.tgfoid = to_regprocedure('namegate.capture()')),
        (SELECT concat_ws(':', p.oid, p.xmin) FROM pg_proc p WHERE p.oid = to_regprocedure('namegate.capture()')),
        (SELECT string_agg(concat_ws(':', i.indexrelid, i.indisvalid, i.indkey), ',' ORDER BY i.indexrelid)
           FROM pg_index i WHERE i.indrelid = source AND i.indisunique),
        pg_relation_filenode('namegate.outbox')));
END $$;

-- The poll: one statement, one snapshot. The first row is the header, the others are what the outbox holds that the
-- snapshot with `from_xmax` and `from_xip` could not see.
-- STABLE: a volatile function would see a newer snapshot than its caller.
-- enable_seqscan off: after a bulk load every outbox row has one xid and the planner would read the whole table.
-- jit off: compiling such a plan costs half a second.
CREATE FUNCTION namegate.poll(consumer_id uuid, from_xmax xid8, from_xip xid8[])
RETURNS TABLE (is_header bool, name text, released bool,
               snapshot text, pruned_below text, nonce uuid, watermark text,
               in_recovery bool, system_identifier text, fingerprint text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT true, NULL::text, false,
               pg_current_snapshot()::text, m.pruned_below::text, c.nonce, c.watermark::text,
               pg_is_in_recovery(), (SELECT s.system_identifier::text FROM pg_control_system() s),
               namegate.fingerprint()
          FROM namegate.meta m LEFT JOIN namegate.consumer c ON c.id = consumer_id;
    RETURN QUERY
        SELECT false, o.name, o.released, NULL::text, NULL::text, NULL::uuid, NULL::text, NULL::bool, NULL::text, NULL::text
          FROM namegate.outbox o
         WHERE o.xid >= from_xmax OR o.xid = ANY (from_xip);
END $$;

-- Makes a consumer known, before its scan: from its commit on, pruning respects it.
CREATE FUNCTION namegate.register(consumer_id uuid, first_nonce uuid) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    INSERT INTO namegate.consumer (id, nonce, watermark) VALUES (consumer_id, first_nonce, pg_current_snapshot())
$$;

-- Writes a certificate; false when the consumer is not known (any more).
CREATE FUNCTION namegate.certify(consumer_id uuid, new_nonce uuid, new_watermark pg_snapshot) RETURNS bool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    UPDATE namegate.consumer SET nonce = new_nonce, watermark = new_watermark, seen = clock_timestamp()
     WHERE id = consumer_id;
    RETURN FOUND;
END $$;

CREATE FUNCTION namegate.unregister(consumer_id uuid) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    DELETE FROM namegate.consumer WHERE id = consumer_id
$$;

-- Deletes outbox rows that every live consumer has certified, oldest first and at most `at_most` of them; forgets
-- consumers unseen for `expiry`. Returns the number of rows deleted. Any instance may call it, one at a time works.
CREATE FUNCTION namegate.prune(keep interval, expiry interval, at_most int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    horizon xid8;
    deleted bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('namegate.prune')) THEN
        RETURN 0;
    END IF;
    DELETE FROM namegate.consumer WHERE seen < clock_timestamp() - expiry;
    SELECT min(pg_snapshot_xmin(watermark)) INTO horizon FROM namegate.consumer;
    IF horizon IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM namegate.outbox WHERE ctid = ANY (ARRAY(
        SELECT o.ctid FROM namegate.outbox o
         WHERE o.xid < horizon AND o.at < clock_timestamp() - keep ORDER BY o.xid LIMIT at_most));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    IF deleted > 0 THEN
        UPDATE namegate.meta SET pruned_below = greatest(pruned_below, horizon);
    END IF;
    RETURN deleted;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA namegate FROM PUBLIC;
