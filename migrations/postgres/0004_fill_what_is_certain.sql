-- The canonical form of text outside ASCII takes normalisation and full case folding, which SQL does not have in every
-- supported version: `lower` would store STRAẞE as straẞe, and strasse would look free although the row holds it. So the
-- trigger fills in what is certain, and refuses what is not: a writer of such names gives both columns.

CREATE OR REPLACE FUNCTION namegate.fill_canonical() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    -- Trimmed of Unicode's White_Space, as the gate trims before it asks.
    trimmed text := btrim(NEW.username,
        U&'\0009\000A\000B\000C\000D\0020\0085\00A0\1680\2000\2001\2002\2003\2004\2005\2006\2007\2008\2009\200A\2028\2029\202F\205F\3000');
BEGIN
    IF octet_length(trimmed) <> char_length(trimmed) THEN
        RAISE EXCEPTION 'a username outside ASCII needs its canonical form beside it'
            USING ERRCODE = 'not_null_violation',
                  HINT = 'INSERT INTO users (username, canonical) ...: GET /username/available answers with the canonical form, and so does `namegate check --json`';
    END IF;
    -- COLLATE "C": ASCII only, in every database. Under an ICU Turkish locale a plain lower('I') is a dotless i.
    NEW.canonical := lower(trimmed COLLATE "C");
    RETURN NEW;
END $$;
