-- The sample users table, for those who have none yet. Any program may INSERT INTO users (username): the trigger
-- fills in the canonical form when the writer gives none.

CREATE TABLE users (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    username   text NOT NULL,
    canonical  text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT users_canonical_key UNIQUE (canonical)
);

-- COLLATE "C": lower() then touches ASCII only, in every database. Under an ICU Turkish locale a plain lower('I') is
-- a dotless i, and the row would be stored where no question looks for it.
-- btrim: the gate trims outer white space (Unicode's White_Space) before it asks, so the stored form must be trimmed too.
CREATE FUNCTION namegate.fill_canonical() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    NEW.canonical := lower(btrim(NEW.username,
        U&'\0009\000A\000B\000C\000D\0020\0085\00A0\1680\2000\2001\2002\2003\2004\2005\2006\2007\2008\2009\200A\2028\2029\202F\205F\3000'
    ) COLLATE "C");
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION namegate.fill_canonical() FROM PUBLIC;

-- WHEN: a writer that gives the canonical form pays nothing for the trigger.
CREATE TRIGGER fill_canonical_on_insert BEFORE INSERT ON users
    FOR EACH ROW WHEN (NEW.canonical IS NULL) EXECUTE FUNCTION namegate.fill_canonical();
CREATE TRIGGER fill_canonical_on_update BEFORE UPDATE ON users
    FOR EACH ROW WHEN (NEW.canonical IS NULL
                       OR (NEW.username IS DISTINCT FROM OLD.username AND NEW.canonical = OLD.canonical))
    EXECUTE FUNCTION namegate.fill_canonical();
ALTER TABLE users ENABLE ALWAYS TRIGGER fill_canonical_on_insert;
ALTER TABLE users ENABLE ALWAYS TRIGGER fill_canonical_on_update;

SELECT namegate.watch('users', 'canonical');
