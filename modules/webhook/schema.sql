-- step 1: webhooks, deliveries, bodies, events for many webhooks, hosts

-- What the owner may see lies beside each webhook, so that the statement that enqueues needs no
-- other table. scope.c keeps it: sees_all for an Admin, organisations for those who act for some,
-- the e-mail for everybody; admitted is false while the account is not active.
-- Ids come from the host, since the secret is sealed under the id before the row is written.
CREATE SEQUENCE webhook_hook_id AS bigint;

CREATE TABLE webhook_hook (
    id             bigint PRIMARY KEY,
    account        bigint NOT NULL,
    url            text NOT NULL,
    events         text[] NOT NULL CHECK (cardinality(events) > 0),
    secret         bytea NOT NULL, -- sealed, purpose "webhook:<id>"
    previous       bytea,          -- the secret before it, sealed likewise
    previous_until timestamptz,    -- until when that one signs too
    active         boolean NOT NULL DEFAULT true,
    created_at     timestamptz NOT NULL DEFAULT now(),
    admitted       boolean NOT NULL,
    sees_all       boolean NOT NULL,
    organisations  bigint[] NOT NULL,
    email          text NOT NULL
);
CREATE INDEX webhook_hook_account ON webhook_hook (account, id);

-- The three ways to see an event; a message scans in each, and reads only webhooks that match.
CREATE INDEX webhook_hook_all ON webhook_hook (id) WHERE sees_all;
CREATE INDEX webhook_hook_organisations ON webhook_hook USING gin (organisations)
    WITH (fastupdate = off);
CREATE INDEX webhook_hook_email ON webhook_hook (email);

-- A process that sends. An id is never used again, so it is lease and epoch in one: whoever takes
-- deliveries over writes its own id into them, and a late completion finds no row.
CREATE TABLE webhook_host (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    machine      text NOT NULL, -- boot and process namespace: who can see whether `process` lives
    process      text NOT NULL, -- number and start time
    heartbeat_at timestamptz NOT NULL DEFAULT now(),
    counters     jsonb NOT NULL DEFAULT '{}' -- struct sender_counters, for `busbar webhook status`
);

-- Webhooks deleted of late, until what waited for them is gone as well.
CREATE TABLE webhook_gone (
    webhook bigint PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT now()
);

-- An id carries its day: days since 1970 (UTC, of the database) times 2^32, and a number. Ranges of
-- ids are thus ranges of days, one key column serves both, and an id is exact in JavaScript.
CREATE SEQUENCE webhook_delivery_number AS bigint MINVALUE 0 MAXVALUE 4294967295 CYCLE CACHE 1;

CREATE FUNCTION webhook_day_floor(day date) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (day - DATE '1970-01-01')::bigint << 32;

-- owner: the host (webhook_host) that has the delivery in memory or is about to; NULL: nobody has,
-- any host may take it. queued_at is later than created_at for one that was sent again.
-- state: 'queued', 'delivered' or 'abandoned'. There is no CHECK: PostgreSQL parses the expression
-- anew for each statement that inserts or updates, a tenth of what a delivery costs.
-- log: an array of attempts {"at","number","status","durationMs","error","answer"}; a row of its own
-- for each attempt would double what a delivery costs.
CREATE TABLE webhook_delivery (
    id         bigint NOT NULL
        DEFAULT webhook_day_floor((now() AT TIME ZONE 'UTC')::date)
                + nextval('webhook_delivery_number'),
    webhook    bigint NOT NULL,
    owner      bigint,
    created_at timestamptz NOT NULL DEFAULT now(),
    queued_at  timestamptz NOT NULL DEFAULT now(),
    next_at    timestamptz NOT NULL DEFAULT now(),
    tries      smallint NOT NULL DEFAULT 0, -- attempts since queued_at
    state      text NOT NULL DEFAULT 'queued',
    event_id   uuid NOT NULL,               -- webhook-id
    event      text NOT NULL,
    body       text,                        -- the exact bytes; null: see body_id
    log        jsonb NOT NULL DEFAULT '[]',
    body_id    bigint,                      -- in webhook_body: a large body
    traceparent text,                       -- the header with which it is sent (W3C Trace Context)
    PRIMARY KEY (webhook, id)
) PARTITION BY RANGE (id);

-- What waits: by owner for a take-over, by webhook for whoever has room (owner IS NULL).
CREATE INDEX webhook_delivery_queue ON webhook_delivery (owner, webhook, id)
    WHERE state = 'queued';

CREATE TABLE webhook_delivery_rest PARTITION OF webhook_delivery DEFAULT;

-- Of a body of some size a delivery has the id, and `body` is null. The id carries the day, as that of a
-- delivery does, so that the two are kept, and dropped, together.
CREATE TABLE webhook_body (
    id   bigint PRIMARY KEY
        DEFAULT webhook_day_floor((now() AT TIME ZONE 'UTC')::date)
                + nextval('webhook_delivery_number'),
    body text NOT NULL -- the exact bytes
) PARTITION BY RANGE (id);

CREATE TABLE webhook_body_rest PARTITION OF webhook_body DEFAULT;

-- An event that more webhooks get than the publisher's transaction inserts deliveries for. `webhooks` are
-- those that were to get it when it was committed; the first `done` of them have their delivery. The body
-- is in webhook_body. account: who raised it (0: nobody), for accounts take turns.
CREATE TABLE webhook_expansion (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account   bigint NOT NULL,
    event     text NOT NULL,
    event_id  uuid NOT NULL,
    body_id   bigint NOT NULL,
    webhooks  bigint[] NOT NULL,
    done      integer NOT NULL DEFAULT 0,
    queued_at timestamptz NOT NULL DEFAULT now(),
    traceparent text
);
CREATE INDEX webhook_expansion_turn ON webhook_expansion (account, id);

-- The days of a table's partitions.
CREATE FUNCTION webhook_partition_days(parent text) RETURNS SETOF date
    LANGUAGE sql STABLE AS $$
    SELECT to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = parent::regclass AND c.relname ~ '_[0-9]{8}$'
$$;

-- Drops the partition of a day, unless something in it still waits (was queued again), or an event of it,
-- or of a day before, is still to be expanded; and the bodies that no delivery refers to any more. A
-- delivery may be a day younger than its body. The first look costs no lock. A transaction that queues a delivery
-- of the day again may commit after it, so the function locks both tables, the parent first as every
-- statement does, and looks again; from then on nothing of the day can be queued.
CREATE FUNCTION webhook_partition_drop(day date) RETURNS boolean
    LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
    name text := 'webhook_delivery' || to_char(day, '_YYYYMMDD');
    busy boolean;
    old  date;
BEGIN
    FOR look IN 1..2 LOOP
        IF EXISTS (SELECT FROM webhook_expansion WHERE body_id < webhook_day_floor(day + 1)) THEN
            RETURN false;
        END IF;
        EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE state = ''queued'')', name) INTO busy;
        IF busy THEN
            RETURN false;
        END IF;
        IF look = 1 THEN
            LOCK TABLE ONLY webhook_delivery IN ACCESS EXCLUSIVE MODE;
            EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', name);
        END IF;
    END LOOP;
    EXECUTE format('DROP TABLE %I', name);
    FOR old IN SELECT body FROM webhook_partition_days('webhook_body') AS body
        WHERE body + 1 < (SELECT min(delivery) FROM webhook_partition_days('webhook_delivery') AS delivery)
    LOOP
        EXECUTE format('DROP TABLE %I', 'webhook_body' || to_char(old, '_YYYYMMDD'));
    END LOOP;
    RETURN true;
END
$$;

-- Makes a table's partition of a day, and moves there what the default one took in for want of it. The
-- CHECK spares ATTACH a scan, and goes. The table is locked before rows are moved out of the default
-- partition: a statement that waited for such a row would find it gone, and change nothing.
CREATE FUNCTION webhook_partition_make_of(parent text, day date) RETURNS boolean
    LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
    name text := parent || '_' || to_char(day, 'YYYYMMDD');
    low  bigint := webhook_day_floor(day);
    high bigint := webhook_day_floor(day + 1);
    moves boolean;
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE id >= %s AND id < %s)', parent || '_rest',
                   low, high) INTO moves;
    IF moves THEN
        EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', parent);
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL,'
                   ' CONSTRAINT bounds CHECK (id >= %s AND id < %s))', name, parent, low, high);
    EXECUTE format('WITH moved AS (DELETE FROM %I WHERE id >= %s AND id < %s'
                   ' RETURNING *) INSERT INTO %I SELECT * FROM moved', parent || '_rest', low, high,
                   name);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
                   parent, name, low, high);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT bounds', name);
    RETURN true;
END
$$;

CREATE FUNCTION webhook_partition_make(day date) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM webhook_partition_make_of('webhook_body', day);
    RETURN webhook_partition_make_of('webhook_delivery', day);
END
$$;

DO $$
BEGIN
    PERFORM webhook_partition_make((now() AT TIME ZONE 'UTC')::date + n)
    FROM generate_series(0, 7) AS n;
END
$$;

-- Large bodies are compressed by lz4 if PostgreSQL has it, in a tenth of the time.
DO $$
DECLARE
    part regclass;
BEGIN
    IF (SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression') THEN
        FOR part IN SELECT relid FROM pg_partition_tree('webhook_body') LOOP
            EXECUTE format('ALTER TABLE %s ALTER COLUMN body SET COMPRESSION lz4', part);
        END LOOP;
        ALTER TABLE webhook_expansion ALTER COLUMN webhooks SET COMPRESSION lz4;
    END IF;
END
$$;
