-- The sample users table and its change feed, embedded. SQLite has one writer at a time, so the order of commits is
-- the order of outbox ids, and a position is an id.

CREATE TABLE users (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    username   TEXT NOT NULL,
    canonical  TEXT COLLATE BINARY UNIQUE,   -- filled by trigger when the writer gives none, hence nullable
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);

-- Identity: a copied or restored file is another store. pruned_to: outbox ids up to this one are gone.
CREATE TABLE namegate_meta (
    one       INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    identity  TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    pruned_to INTEGER NOT NULL DEFAULT 0
);
INSERT INTO namegate_meta DEFAULT VALUES;

CREATE TABLE namegate_outbox (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    name     TEXT,
    released INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE namegate_consumer (
    id        TEXT PRIMARY KEY,
    watermark INTEGER NOT NULL,
    seen      INTEGER NOT NULL DEFAULT (unixepoch())
);

CREATE TRIGGER namegate_fill_on_insert AFTER INSERT ON users WHEN NEW.canonical IS NULL
BEGIN
    UPDATE users SET canonical = lower(trim(NEW.username, char(9,10,11,12,13,32,133,160,5760,8192,8193,8194,8195,8196,8197,8198,8199,8200,8201,8202,8232,8233,8239,8287,12288)))
     WHERE id = NEW.id;
END;
CREATE TRIGGER namegate_fill_on_update AFTER UPDATE OF username ON users
    WHEN NEW.username IS NOT OLD.username AND NEW.canonical IS OLD.canonical
BEGIN
    UPDATE users SET canonical = lower(trim(NEW.username, char(9,10,11,12,13,32,133,160,5760,8192,8193,8194,8195,8196,8197,8198,8199,8200,8201,8202,8232,8233,8239,8287,12288)))
     WHERE id = NEW.id;
END;

CREATE TRIGGER namegate_insert AFTER INSERT ON users WHEN NEW.canonical IS NOT NULL
BEGIN
    INSERT INTO namegate_outbox (name) VALUES (NEW.canonical);
END;
CREATE TRIGGER namegate_update AFTER UPDATE ON users WHEN OLD.canonical IS NOT NEW.canonical
BEGIN
    INSERT INTO namegate_outbox (name) SELECT NEW.canonical WHERE NEW.canonical IS NOT NULL;
    INSERT INTO namegate_outbox (name, released) SELECT OLD.canonical, 1 WHERE OLD.canonical IS NOT NULL;
END;
CREATE TRIGGER namegate_delete AFTER DELETE ON users WHEN OLD.canonical IS NOT NULL
BEGIN
    INSERT INTO namegate_outbox (name, released) VALUES (OLD.canonical, 1);
END;
