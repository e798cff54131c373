-- What `namegate attach` needs beyond the feed of the sample table: tables of any shape, and a record of what was granted.

-- Which steps of the feed a database has: attached ones have no table of migrations.
ALTER TABLE namegate.meta ADD COLUMN version int NOT NULL DEFAULT 3;

-- The rights outside this schema that a service's role did not have before: detaching takes back these and no others.
CREATE TABLE namegate.granted (
    grantee   name PRIMARY KEY,
    on_schema bool NOT NULL,    -- USAGE on the schema of the watched table
    on_column bool NOT NULL     -- SELECT on the watched column
);

-- As before, and in addition:
-- every table under the watched one is armed. PostgreSQL itself copies a row trigger to partitions, those to come
-- included; not to children by inheritance, and no trigger for TRUNCATE.
-- The body is quoted as a literal: a column's name may hold any text.
-- An update is told by the bytes, not by the column's equality: a collation may call two names equal that the unique
-- index keeps apart.
CREATE OR REPLACE FUNCTION namegate.watch(source regclass, source_column name) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    qualified text;
    member    record;
BEGIN
    SELECT format('%I.%I', n.nspname, c.relname) INTO STRICT qualified
      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = source;
    IF current_setting('lock_timeout') = '0' THEN
        PERFORM set_config('lock_timeout', '5s', true);
    END IF;

    EXECUTE format('CREATE OR REPLACE FUNCTION namegate.capture() RETURNS trigger
                    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS %L', format($body$
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
END $body$, source_column));
    REVOKE ALL ON FUNCTION namegate.capture() FROM PUBLIC;

    -- Parents first: arming them makes the triggers of their partitions.
    FOR member IN
        WITH RECURSIVE tree (relid, depth) AS (
            SELECT source::oid, 0
            UNION
            SELECT i.inhrelid, tree.depth + 1 FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.relid
        )
        SELECT format('%I.%I', n.nspname, c.relname) AS name,
               c.relispartition AND c.oid <> source AS is_partition
          FROM (SELECT relid, max(depth) AS depth FROM tree GROUP BY relid) AS found
          JOIN pg_catalog.pg_class c ON c.oid = found.relid
          JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         ORDER BY found.depth, c.oid
    LOOP
        IF NOT member.is_partition THEN
            EXECUTE format('CREATE OR REPLACE TRIGGER namegate_insert AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION namegate.capture()', member.name);
            EXECUTE format('CREATE OR REPLACE TRIGGER namegate_update AFTER UPDATE ON %s FOR EACH ROW WHEN (OLD.%2$I::text COLLATE "C" IS DISTINCT FROM NEW.%2$I::text COLLATE "C") EXECUTE FUNCTION namegate.capture()', member.name, source_column);
            EXECUTE format('CREATE OR REPLACE TRIGGER namegate_delete AFTER DELETE ON %s FOR EACH ROW EXECUTE FUNCTION namegate.capture()', member.name);
        END IF;
        EXECUTE format('CREATE OR REPLACE TRIGGER namegate_truncate AFTER TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION namegate.capture()', member.name);
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER namegate_insert, ENABLE ALWAYS TRIGGER namegate_update, ENABLE ALWAYS TRIGGER namegate_delete, ENABLE ALWAYS TRIGGER namegate_truncate', member.name);
    END LOOP;

    UPDATE namegate.meta SET source_table = qualified, source_column = watch.source_column;
END $$;

-- As before, and in addition all that makes two texts equal to the table: the column's type and collation, and of each
-- unique index its operator, collation, expression and condition.
CREATE OR REPLACE FUNCTION namegate.fingerprint() RETURNS text
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
        (SELECT concat_ws(':', a.attnum, a.atttypid, a.atttypmod, a.attcollation)
           FROM pg_attribute a JOIN namegate.meta m ON a.attname = m.source_column WHERE a.attrelid = source),
        (SELECT string_agg(concat_ws(':', i.indexrelid, i.indisvalid, i.indisready, i.indnkeyatts, i.indkey, i.indclass,
                                     i.indcollation, i.indexprs, i.indpred), ',' ORDER BY i.indexrelid)
           FROM pg_index i WHERE i.indrelid = source AND i.indisunique),
        pg_relation_filenode('namegate.outbox')));
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA namegate FROM PUBLIC;
