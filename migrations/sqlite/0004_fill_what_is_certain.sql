-- The canonical form of text outside ASCII takes normalisation and full case folding, which SQL does not have: `lower`
-- would store STRAẞE as straẞe, and strasse would look free although the row holds it. So the triggers fill in what is
-- certain, and refuse what is not: a writer of such names gives both columns.
-- The length in bytes differs from the one in characters as soon as one of them is outside ASCII, or NUL.

DROP TRIGGER namegate_fill_on_insert;
DROP TRIGGER namegate_fill_on_update;

CREATE TRIGGER namegate_fill_on_insert AFTER INSERT ON users WHEN NEW.canonical IS NULL
BEGIN
    SELECT RAISE(ABORT, 'a username outside ASCII needs its canonical form beside it: INSERT INTO users (username, canonical) ...; GET /username/available answers with the canonical form')
      FROM (SELECT trim(NEW.username, char(9,10,11,12,13,32,133,160,5760,8192,8193,8194,8195,8196,8197,8198,8199,8200,8201,8202,8232,8233,8239,8287,12288)) AS trimmed)
     WHERE length(CAST(trimmed AS BLOB)) <> length(trimmed);
    UPDATE users SET canonical = lower(trim(NEW.username, char(9,10,11,12,13,32,133,160,5760,8192,8193,8194,8195,8196,8197,8198,8199,8200,8201,8202,8232,8233,8239,8287,12288)))
     WHERE id = NEW.id;
END;
CREATE TRIGGER namegate_fill_on_update AFTER UPDATE OF username ON users
    WHEN NEW.username IS NOT OLD.username AND NEW.canonical IS OLD.canonical
BEGIN
    SELECT RAISE(ABORT, 'a username outside ASCII needs its canonical form beside it: UPDATE users SET username = ..., canonical = ...; GET /username/available answers with the canonical form')
      FROM (SELECT trim(NEW.username, char(9,10,11,12,13,32,133,160,5760,8192,8193,8194,8195,8196,8197,8198,8199,8200,8201,8202,8232,8233,8239,8287,12288)) AS trimmed)
     WHERE length(CAST(trimmed AS BLOB)) <> length(trimmed);
    UPDATE users SET canonical = lower(trim(NEW.username, char(9,10,11,12,13,32,133,160,5760,8192,8193,8194,8195,8196,8197,8198,8199,8200,8201,8202,8232,8233,8239,8287,12288)))
     WHERE id = NEW.id;
END;
