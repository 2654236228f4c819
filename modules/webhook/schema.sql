-- step 1: webhooks, deliveries, bodies, events for many webhooks, hosts

-- Each webhook has the rights of its owner, so that the statement that stores deliveries needs no other table.
-- scope.c updates them: sees_all for an Admin, the organizations for which the account acts, and its e-mail;
-- admitted is false while the account is not active.
-- Hosts generate the ids, because a secret is sealed under the id before the row is written.
CREATE SEQUENCE webhook_hook_id AS bigint;

CREATE TABLE webhook_hook (
    id             bigint PRIMARY KEY,
    account        bigint NOT NULL,
    url            text NOT NULL,
    events         text[] NOT NULL CHECK (cardinality(events) > 0),
    secret         bytea NOT NULL, -- sealed, purpose "webhook:<id>"
    previous       bytea,          -- the previous secret, sealed in the same way
    previous_until timestamptz,    -- until when the previous secret signs, too
    active         boolean NOT NULL DEFAULT true,
    created_at     timestamptz NOT NULL DEFAULT now(),
    admitted       boolean NOT NULL,
    sees_all       boolean NOT NULL,
    organisations  bigint[] NOT NULL,
    email          text NOT NULL
);
CREATE INDEX webhook_hook_account ON webhook_hook (account, id);

-- One index for each reason why an owner may see an event. An event scans all three, and reads only matching webhooks.
CREATE INDEX webhook_hook_all ON webhook_hook (id) WHERE sees_all;
CREATE INDEX webhook_hook_organisations ON webhook_hook USING gin (organisations)
    WITH (fastupdate = off);
CREATE INDEX webhook_hook_email ON webhook_hook (email);

-- Processes that send. An id is never used again, so it is both lease and epoch: a process that takes over deliveries
-- writes its own id into their rows. A late completion of the previous process then finds no row. Step 2 changes this.
CREATE TABLE webhook_host (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    machine      text NOT NULL, -- boot and process namespace, in which `process` can be looked up
    process      text NOT NULL, -- number and start time
    heartbeat_at timestamptz NOT NULL DEFAULT now(),
    counters     jsonb NOT NULL DEFAULT '{}' -- struct sender_counters, for `busbar webhook status`
);

-- Recently deleted webhooks, until their waiting deliveries are deleted, too.
CREATE TABLE webhook_gone (
    webhook bigint PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT now()
);

-- An id contains its day: days since 1970 (UTC, by the database's clock) times 2^32, plus a number. So ranges of ids
-- are ranges of days, partitions need no second key column, and JavaScript represents an id exactly.
CREATE SEQUENCE webhook_delivery_number AS bigint MINVALUE 0 MAXVALUE 4294967295 CYCLE CACHE 1;

CREATE FUNCTION webhook_day_floor(day date) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (day - DATE '1970-01-01')::bigint << 32;

-- owner: the host (webhook_host) that has the delivery in memory or will have it; NULL: any host may take it.
-- queued_at is later than created_at if the delivery was sent again.
-- state: 'queued', 'delivered' or 'abandoned'. It has no CHECK, because PostgreSQL parses the expression for each
-- statement that inserts or updates, which is a tenth of the cost of a delivery.
-- log: an array of attempts {"at","number","status","durationMs","error","answer"}. A separate row for each attempt
-- would double the cost of a delivery.
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

-- Waiting deliveries: by owner for a take-over, by webhook for a host with free memory (owner IS NULL).
CREATE INDEX webhook_delivery_queue ON webhook_delivery (owner, webhook, id)
    WHERE state = 'queued';

CREATE TABLE webhook_delivery_rest PARTITION OF webhook_delivery DEFAULT;

-- Large bodies. A delivery has the id of its large body, and its own `body` is null. The id contains the day, like the
-- id of a delivery, so that both are dropped at about the same time.
CREATE TABLE webhook_body (
    id   bigint PRIMARY KEY
        DEFAULT webhook_day_floor((now() AT TIME ZONE 'UTC')::date)
                + nextval('webhook_delivery_number'),
    body text NOT NULL -- the exact bytes
) PARTITION BY RANGE (id);

CREATE TABLE webhook_body_rest PARTITION OF webhook_body DEFAULT;

-- Events that match more webhooks than a transaction should insert deliveries for. `webhooks` are the webhooks that get
-- the event; the first `done` of them have their delivery. The body is in webhook_body. account: the account that
-- raised the event (0: none), because accounts take turns.
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

-- Returns the days for which a table has partitions.
CREATE FUNCTION webhook_partition_days(parent text) RETURNS SETOF date
    LANGUAGE sql STABLE AS $$
    SELECT to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = parent::regclass AND c.relname ~ '_[0-9]{8}$'
$$;

-- Drops the partition of a day, and the bodies to which no delivery refers any more. It does nothing if a delivery of
-- the day waits again, or if an event of the day or of an earlier one is not completely expanded. A delivery may be a
-- day younger than its body. The first check needs no lock. A transaction that queues a delivery of the day again may
-- commit after this check. So the function locks both tables, the parent first, as every statement does, and checks
-- again; from then on no delivery of the day can be queued.
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

-- Makes a table's partition of a day, and moves the rows of the day to it from the default partition. With the CHECK,
-- which is then dropped, ATTACH needs no scan. The table is locked before rows are moved out of the default partition,
-- because a statement that waits for such a row would not find it afterwards, and change nothing.
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

-- step 2: shards with owners, a log of deliveries that is only appended to, a table of outcomes

-- A webhook belongs to the shard of its id modulo 64. The owner of a shard, a live host, is the only one that
-- sends to its webhooks. The id of a host is never used again, so it is the epoch of all its leases: another host
-- takes the shards over by deleting the row, and a host whose row is gone can record nothing.
DELETE FROM webhook_host;
ALTER TABLE webhook_host DROP COLUMN machine, DROP COLUMN process,
    ADD COLUMN leaving boolean NOT NULL DEFAULT false; -- it gives its shards away

CREATE FUNCTION webhook_shard_of(webhook bigint) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (webhook & 63)::integer;

-- cursor: all deliveries of the shard up to this id have an outcome or are in webhook_waiting, and no transaction
-- can commit another one. A webhook in webhook_backlog has its own cursor.
CREATE TABLE webhook_shard (
    shard  integer PRIMARY KEY,
    owner  bigint REFERENCES webhook_host ON DELETE SET NULL,
    cursor bigint NOT NULL
) WITH (fillfactor = 20);
CREATE TABLE webhook_backlog (
    webhook bigint PRIMARY KEY,
    cursor  bigint NOT NULL
);

-- The last outcome of a delivery. log: the attempts, as in webhook_waiting; null: the only one was successful.
CREATE TABLE webhook_outcome (
    id          bigint PRIMARY KEY, -- the delivery
    webhook     bigint NOT NULL,
    at          timestamptz NOT NULL, -- the start of the last attempt
    duration_ms integer NOT NULL,
    status      smallint,             -- of the response; null: none
    delivered   boolean NOT NULL,     -- false: abandoned
    log         jsonb
) PARTITION BY RANGE (id);
CREATE INDEX webhook_outcome_abandoned ON webhook_outcome (webhook, id) WHERE NOT delivered;
CREATE TABLE webhook_outcome_rest PARTITION OF webhook_outcome DEFAULT;

-- Deliveries that wait for a retry, or to be sent again. Only these have a state that changes.
-- log: an array of attempts {"at","number","status","durationMs","error","answer"}
CREATE TABLE webhook_waiting (
    id        bigint PRIMARY KEY, -- the delivery
    webhook   bigint NOT NULL,
    next_at   timestamptz NOT NULL DEFAULT now(),
    queued_at timestamptz NOT NULL DEFAULT now(), -- when it was created, or sent again
    tries     smallint NOT NULL DEFAULT 0,        -- attempts since then
    log       jsonb NOT NULL DEFAULT '[]'
);
CREATE INDEX webhook_waiting_due ON webhook_waiting (webhook, next_at);

-- Ids increase in the order in which they are given, whatever the transactions do later. The xid of the
-- transaction is assigned before its first id (see `frontier` in webhook_tend). The first host that notices a new
-- day lets the ids continue at the start of the day's range.
CREATE SEQUENCE webhook_delivery_id AS bigint;
ALTER TABLE webhook_delivery ALTER COLUMN id
    SET DEFAULT CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('webhook_delivery_id') END;
ALTER TABLE webhook_body ALTER COLUMN id SET DEFAULT nextval('webhook_delivery_id');

CREATE OR REPLACE FUNCTION webhook_partition_make(day date) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM webhook_partition_make_of('webhook_body', day);
    PERFORM webhook_partition_make_of('webhook_outcome', day);
    RETURN webhook_partition_make_of('webhook_delivery', day);
END
$$;

DO $$
DECLARE
    old date;
BEGIN
    FOR old IN SELECT webhook_partition_days('webhook_delivery') LOOP
        PERFORM webhook_partition_make_of('webhook_outcome', old);
    END LOOP;
    PERFORM setval('webhook_delivery_id',
        (SELECT greatest(webhook_day_floor((now() AT TIME ZONE 'UTC')::date), max(id))
         FROM (SELECT max(id) AS id FROM webhook_delivery WHERE id < webhook_day_floor((now() AT TIME ZONE 'UTC')::date + 1)
               UNION ALL SELECT max(id) FROM webhook_body WHERE id < webhook_day_floor((now() AT TIME ZONE 'UTC')::date + 1)) m));
END
$$;
INSERT INTO webhook_shard (shard, cursor)
    SELECT n, (SELECT last_value FROM webhook_delivery_id) FROM generate_series(0, 63) AS n;
INSERT INTO webhook_waiting (id, webhook, next_at, queued_at, tries, log)
    SELECT id, webhook, next_at, queued_at, tries, log FROM webhook_delivery WHERE state = 'queued';
INSERT INTO webhook_outcome (id, webhook, at, duration_ms, status, delivered, log)
    SELECT id, webhook, coalesce((log -> -1 ->> 'at')::timestamptz, created_at),
        coalesce((log -> -1 ->> 'durationMs')::integer, 0), (log -> -1 ->> 'status')::smallint,
        state = 'delivered', log
    FROM webhook_delivery WHERE state <> 'queued';

DROP INDEX webhook_delivery_queue;
ALTER TABLE webhook_delivery DROP COLUMN owner, DROP COLUMN queued_at, DROP COLUMN next_at, DROP COLUMN tries,
    DROP COLUMN state, DROP COLUMN log;
CREATE INDEX webhook_delivery_log ON webhook_delivery (id); -- finds the deliveries after a cursor
DROP SEQUENCE webhook_delivery_number;

-- Deliveries with their state. LATERAL and OFFSET 0 make PostgreSQL look up each outcome by its key, whatever the
-- statistics are.
CREATE VIEW webhook_deliveries AS
    SELECT d.*, CASE WHEN o.id IS NULL THEN 'queued' WHEN o.delivered THEN 'delivered' ELSE 'abandoned' END AS state,
        coalesce(w.next_at, d.created_at) AS next_at, o.duration_ms,
        CASE WHEN o.id IS NOT NULL AND o.log IS NULL THEN jsonb_build_array(jsonb_build_object('number', 1, 'at',
            to_char(o.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'status', o.status,
            'durationMs', o.duration_ms, 'error', NULL, 'answer', NULL))
            ELSE coalesce(o.log, w.log, '[]') END AS log
    FROM webhook_delivery d
    LEFT JOIN LATERAL (SELECT * FROM webhook_outcome o WHERE o.id = d.id OFFSET 0) o ON true
    LEFT JOIN LATERAL (SELECT * FROM webhook_waiting w WHERE w.id = d.id OFFSET 0) w ON true;

-- Deliveries without an outcome: those in webhook_waiting, and those above the cursors.
CREATE VIEW webhook_queued AS
    SELECT w.id, w.webhook, w.next_at FROM webhook_waiting w
    UNION ALL
    SELECT d.id, d.webhook, d.created_at FROM webhook_delivery d
        JOIN webhook_shard s ON s.shard = webhook_shard_of(d.webhook) AND d.id > s.cursor
        WHERE d.id > (SELECT min(cursor) FROM webhook_shard)
        AND (SELECT o.id FROM webhook_outcome o WHERE o.id = d.id) IS NULL
        AND (SELECT w.id FROM webhook_waiting w WHERE w.id = d.id) IS NULL
    UNION ALL
    SELECT d.id, d.webhook, d.created_at FROM webhook_backlog b
        JOIN webhook_shard s ON s.shard = webhook_shard_of(b.webhook) CROSS JOIN LATERAL (
        SELECT * FROM webhook_delivery d WHERE d.webhook = b.webhook AND d.id > b.cursor AND d.id <= s.cursor
        OFFSET 0) d
        WHERE (SELECT o.id FROM webhook_outcome o WHERE o.id = d.id) IS NULL
        AND (SELECT w.id FROM webhook_waiting w WHERE w.id = d.id) IS NULL;

-- The heartbeat of a host (0: a new one), every two seconds. It renews the lease of all its shards, deletes hosts that
-- were silent for eight seconds, and claims shards without an owner up to its fair part. me is null if another host
-- deleted this one. Every id up to `frontier` was given to a transaction below `next_xact`, because next_xact is read
-- later. So once a later `low_xact` has reached this next_xact, no such id can appear any more.
CREATE FUNCTION webhook_tend(host bigint, host_counters jsonb, leaves boolean, OUT me bigint, OUT paused boolean,
    OUT fair integer, OUT buried integer, OUT frontier bigint, OUT low_xact bigint, OUT next_xact bigint,
    OUT owned text)
    LANGUAGE plpgsql AS $$
DECLARE
    today bigint := webhook_day_floor((now() AT TIME ZONE 'UTC')::date);
    hosts integer;
    place integer;
BEGIN
    IF host = 0 THEN
        INSERT INTO webhook_host (counters) VALUES (host_counters) RETURNING id INTO me;
    ELSE
        UPDATE webhook_host SET heartbeat_at = now(), counters = host_counters, leaving = leaves
            WHERE id = host RETURNING id INTO me;
        IF me IS NULL THEN
            RETURN;
        END IF;
    END IF;
    WITH dead AS (DELETE FROM webhook_host WHERE id IN (SELECT id FROM webhook_host
        WHERE heartbeat_at < now() - interval '8 s' FOR UPDATE SKIP LOCKED) RETURNING id)
        SELECT count(*) INTO buried FROM dead;
    SELECT count(*), count(*) FILTER (WHERE id < me) INTO hosts, place FROM webhook_host WHERE NOT leaving;
    fair := CASE WHEN leaves THEN 0 ELSE 64 / hosts + (place < 64 % hosts)::integer END;
    UPDATE webhook_shard SET owner = me WHERE shard IN (SELECT shard FROM webhook_shard WHERE owner IS NULL
        ORDER BY shard LIMIT greatest(0, fair - (SELECT count(*) FROM webhook_shard WHERE owner = me))
        FOR UPDATE SKIP LOCKED);
    SELECT last_value INTO frontier FROM webhook_delivery_id;
    IF frontier < today THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('busbar.webhook.day', 0));
        SELECT last_value INTO frontier FROM webhook_delivery_id;
        IF frontier < today THEN
            frontier := setval('webhook_delivery_id', today);
        END IF;
    END IF;
    SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint INTO low_xact, next_xact
        FROM pg_current_snapshot() AS s;
    SELECT string_agg(shard || ':' || cursor, ' ') INTO owned FROM webhook_shard WHERE owner = me;
    paused := busbar_pause_reason() IS NOT NULL;
    IF buried > 0 THEN
        PERFORM pg_notify('webhook', 'shards');
    END IF;
END
$$;

-- Drops the partitions of a day, unless something in it still waits. The first check needs no lock. A transaction that
-- sends a delivery of the day again may commit after it, so the function locks the tables, which every such transaction
-- uses, and checks again. A delivery may be a day younger than its body.
CREATE OR REPLACE FUNCTION webhook_partition_drop(day date) RETURNS boolean
    LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
    upto bigint := webhook_day_floor(day + 1);
    old  date;
BEGIN
    FOR look IN 1..2 LOOP
        IF EXISTS (SELECT FROM webhook_expansion WHERE body_id < upto)
            OR EXISTS (SELECT FROM webhook_waiting WHERE id >= webhook_day_floor(day) AND id < upto)
            OR EXISTS (SELECT FROM webhook_shard WHERE cursor < upto - 1)
            OR EXISTS (SELECT FROM webhook_backlog b CROSS JOIN LATERAL (SELECT FROM webhook_delivery d
                WHERE d.webhook = b.webhook AND d.id > b.cursor AND d.id < upto
                AND (SELECT o.id FROM webhook_outcome o WHERE o.id = d.id) IS NULL LIMIT 1) d) THEN
            RETURN false;
        END IF;
        IF look = 1 THEN
            LOCK TABLE ONLY webhook_delivery, ONLY webhook_outcome IN ACCESS EXCLUSIVE MODE;
            EXECUTE format('LOCK TABLE %I, %I IN ACCESS EXCLUSIVE MODE', 'webhook_delivery' || to_char(day, '_YYYYMMDD'),
                           'webhook_outcome' || to_char(day, '_YYYYMMDD'));
        END IF;
    END LOOP;
    EXECUTE format('DROP TABLE %I, %I', 'webhook_delivery' || to_char(day, '_YYYYMMDD'),
                   'webhook_outcome' || to_char(day, '_YYYYMMDD'));
    FOR old IN SELECT body FROM webhook_partition_days('webhook_body') AS body
        WHERE body + 1 < (SELECT min(delivery) FROM webhook_partition_days('webhook_delivery') AS delivery)
    LOOP
        EXECUTE format('DROP TABLE %I', 'webhook_body' || to_char(old, '_YYYYMMDD'));
    END LOOP;
    RETURN true;
END
$$;

-- step 3: further headers of a webhook's requests

ALTER TABLE webhook_hook ADD COLUMN headers bytea; -- {"name": "value"}, sealed, purpose "webhook:<id>:headers"

-- step 4: an own retry policy of a webhook

-- "standard", {"delays":[seconds, ...]}, or "default"; null: not set, which means the same as "default"
ALTER TABLE webhook_hook ADD COLUMN retry_policy jsonb;

-- step 5: filters

-- filter: the condition as JSON; filter_path: the same condition as a jsonpath predicate on webhook_payload().
ALTER TABLE webhook_hook ADD COLUMN filter text, ADD COLUMN filter_path jsonpath;

-- Returns the payload of an event; null if jsonb cannot hold it, because a text in it has a NUL.
CREATE FUNCTION webhook_payload(body text) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN position('\u0000' IN body) = 0 THEN body::jsonb END;

-- step 6: Ed25519 signatures

ALTER TABLE webhook_hook ADD COLUMN signature text, -- 'hmac', 'ed25519' or 'both'; null: 'hmac'
    -- The keys are null unless `signature` requires them. The previous key signs until previous_until.
    ADD COLUMN signing_key bytea, -- "whsk_" and base64, sealed, purpose "webhook:<id>:signing_key"
    ADD COLUMN public_key text,   -- "whpk_" and base64
    ADD COLUMN previous_signing_key bytea, ADD COLUMN previous_public_key text;

-- step 7: the response and the headers of each attempt

-- answer, headers: of the only attempt, if log is null; otherwise they are in the log. headers: lines
ALTER TABLE webhook_outcome ADD COLUMN answer text, ADD COLUMN headers text;

CREATE OR REPLACE VIEW webhook_deliveries AS
    SELECT d.*, CASE WHEN o.id IS NULL THEN 'queued' WHEN o.delivered THEN 'delivered' ELSE 'abandoned' END AS state,
        coalesce(w.next_at, d.created_at) AS next_at, o.duration_ms,
        CASE WHEN o.id IS NOT NULL AND o.log IS NULL THEN jsonb_build_array(jsonb_build_object('number', 1, 'at',
            to_char(o.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'status', o.status,
            'durationMs', o.duration_ms, 'error', NULL, 'answer', o.answer, 'headers', o.headers))
            ELSE coalesce(o.log, w.log, '[]') END AS log
    FROM webhook_delivery d
    LEFT JOIN LATERAL (SELECT * FROM webhook_outcome o WHERE o.id = d.id OFFSET 0) o ON true
    LEFT JOIN LATERAL (SELECT * FROM webhook_waiting w WHERE w.id = d.id OFFSET 0) w ON true;

-- step 8: replays

ALTER TABLE webhook_waiting ADD COLUMN replay boolean NOT NULL DEFAULT false; -- queued by a replay
CREATE INDEX webhook_waiting_replay ON webhook_waiting (webhook) WHERE replay;

-- The latest replay of a webhook. Deliveries up to `cursor` were checked, and queued if they match.
CREATE TABLE webhook_replay (
    webhook    bigint PRIMARY KEY,
    since      timestamptz NOT NULL,
    until      timestamptz NOT NULL,
    delivered  boolean, -- the outcome; null: any
    events     jsonb,   -- an array of names; null: all
    cursor     bigint NOT NULL,
    upto       bigint NOT NULL, -- the last delivery to check
    matched    bigint NOT NULL, -- when it was started
    queued     bigint NOT NULL DEFAULT 0,
    state      text NOT NULL DEFAULT 'running', -- or 'done', 'canceled'
    checked_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz
);
CREATE INDEX webhook_replay_running ON webhook_replay (webhook) WHERE state = 'running';

-- step 9: rate limits

ALTER TABLE webhook_hook ADD COLUMN rate_limit jsonb; -- {"limit": n, "per": "second" or "minute"}

-- step 10: the health of webhooks, and policies that disable them

-- disable_policy: {"after": duration}. disabled_reason: 'failing', 'gone' (status 410) or 'requested' (by a header);
-- only a webhook that was disabled by its policy has it. exhausted: deliveries abandoned since exhausted_at, the time
-- of the last event webhook.exhausted. The owner of the shard updates these columns; the free room in each page allows
-- updates that do not touch the indexes.
ALTER TABLE webhook_hook ADD COLUMN disable_policy jsonb, ADD COLUMN failing_since timestamptz,
    ADD COLUMN last_success_at timestamptz, ADD COLUMN disabled_at timestamptz, ADD COLUMN disabled_reason text,
    ADD COLUMN exhausted integer NOT NULL DEFAULT 0, ADD COLUMN exhausted_at timestamptz;
ALTER TABLE webhook_hook SET (fillfactor = 70);

-- step 11: authentication to receivers

-- authentication: a JSON object, sealed, purpose "webhook:<id>:authentication". certificate_until: when its client
-- certificate expires; certificate_warned: the event about it was raised.
ALTER TABLE webhook_hook ADD COLUMN authentication bytea, ADD COLUMN certificate_until timestamptz,
    ADD COLUMN certificate_warned boolean;
CREATE INDEX webhook_hook_certificate ON webhook_hook (certificate_until)
    WHERE certificate_until IS NOT NULL AND certificate_warned IS NULL;

-- step 12: order

ALTER TABLE webhook_hook ADD COLUMN ordering text; -- 'key'; null: none

-- sequence: the place of a delivery in the order of its webhook and key; null: the delivery has no order.
ALTER TABLE webhook_delivery ADD COLUMN sequence bigint;

-- Deliveries with an order have a row in webhook_waiting from the beginning. Only the first one of a key may be sent.
CREATE FUNCTION webhook_never() RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN timestamptz '9999-01-01 00:00:00+00';
ALTER TABLE webhook_waiting ADD COLUMN key text;
CREATE INDEX webhook_waiting_key ON webhook_waiting (webhook, key, id) WHERE key IS NOT NULL;
CREATE TABLE webhook_sequence (
    webhook bigint NOT NULL,
    key     text NOT NULL,
    last    bigint NOT NULL,
    PRIMARY KEY (webhook, key)
);

-- Gives the next delivery of a webhook and key its id and its place. The row of the key is locked until the
-- transaction ends, so the ids of a key are in the order of commits.
CREATE FUNCTION webhook_order(hook bigint, hook_key text, OUT id bigint, OUT sequence bigint)
    LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO webhook_sequence AS s (webhook, key, last) VALUES (hook, hook_key, 1)
        ON CONFLICT ON CONSTRAINT webhook_sequence_pkey DO UPDATE SET last = s.last + 1 RETURNING s.last INTO sequence;
    id := nextval('webhook_delivery_id');
    INSERT INTO webhook_waiting (id, webhook, key, next_at) VALUES (id, hook, hook_key, webhook_never());
END
$$;

-- step 13: no order for webhooks and events without one

ALTER FUNCTION webhook_order(bigint, text) STRICT;

-- step 14: names for people

ALTER TABLE webhook_hook ADD COLUMN name text, ADD COLUMN description text;

-- step 15: webhooks whose events are polled

-- kind: 'poll', and `url` is ''; null: events are sent to `url`. dropped_to: the last event of a polled webhook that was
-- dropped with the partition of its day.
ALTER TABLE webhook_hook ADD COLUMN kind text, ADD COLUMN dropped_to bigint;

-- committed: the last event that the consumer has processed; 0: it begins with the oldest one.
CREATE TABLE webhook_consumer (
    webhook      bigint NOT NULL REFERENCES webhook_hook ON DELETE CASCADE,
    name         text NOT NULL,
    committed    bigint NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (webhook, name)
);

-- Drops the partitions of a day as before, and records the last event that polled webhooks lose.
ALTER FUNCTION webhook_partition_drop(date) RENAME TO webhook_partition_drop_day;
CREATE FUNCTION webhook_partition_drop(day date) RETURNS boolean
    LANGUAGE plpgsql AS $$
DECLARE
    hooks bigint[];
    ends  bigint[];
BEGIN
    SELECT array_agg(h.id), array_agg(d.id) INTO hooks, ends FROM webhook_hook h CROSS JOIN LATERAL (
        SELECT max(d.id) AS id FROM webhook_delivery d WHERE d.webhook = h.id
        AND d.id >= webhook_day_floor(day) AND d.id < webhook_day_floor(day + 1)) d
        WHERE h.kind = 'poll' AND d.id IS NOT NULL;
    IF NOT webhook_partition_drop_day(day) THEN
        RETURN false;
    END IF;
    UPDATE webhook_hook h SET dropped_to = e.id FROM unnest(hooks, ends) AS e(hook, id) WHERE h.id = e.hook;
    RETURN true;
END
$$;

-- step 16: destinations

-- destination: the module that publishes the events of a polled webhook, as a consumer of this name; null: none.
ALTER TABLE webhook_hook ADD COLUMN destination text;
CREATE INDEX webhook_hook_destination ON webhook_hook (destination) WHERE destination IS NOT NULL;

-- step 17: leases and ids across a promotion

-- The ids and cursors that a host has in memory are valid on the timeline on which it got its lease.
ALTER TABLE webhook_host ADD COLUMN timeline bigint NOT NULL DEFAULT busbar_timeline();

-- One row: the timeline of the last heartbeat. On a new timeline the ids continue a million higher, because the old
-- primary may have given the next ids to transactions that were lost.
CREATE TABLE webhook_timeline (timeline bigint NOT NULL);
INSERT INTO webhook_timeline VALUES (busbar_timeline());

-- The heartbeat as in step 2. A host whose lease is from another timeline has lost it.
CREATE OR REPLACE FUNCTION webhook_tend(host bigint, host_counters jsonb, leaves boolean, OUT me bigint,
    OUT paused boolean, OUT fair integer, OUT buried integer, OUT frontier bigint, OUT low_xact bigint,
    OUT next_xact bigint, OUT owned text)
    LANGUAGE plpgsql AS $$
DECLARE
    today bigint := webhook_day_floor((now() AT TIME ZONE 'UTC')::date);
    here  bigint := busbar_timeline();
    hosts integer;
    place integer;
BEGIN
    UPDATE webhook_timeline SET timeline = here WHERE timeline <> here;
    IF FOUND THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('busbar.webhook.day', 0));
        PERFORM setval('webhook_delivery_id', nextval('webhook_delivery_id') + 1048576);
    END IF;
    IF host = 0 THEN
        INSERT INTO webhook_host (counters) VALUES (host_counters) RETURNING id INTO me;
    ELSE
        UPDATE webhook_host SET heartbeat_at = now(), counters = host_counters, leaving = leaves
            WHERE id = host AND timeline = here RETURNING id INTO me;
        IF me IS NULL THEN
            RETURN;
        END IF;
    END IF;
    WITH dead AS (DELETE FROM webhook_host WHERE id IN (SELECT id FROM webhook_host
        WHERE heartbeat_at < now() - interval '8 s' OR timeline <> here FOR UPDATE SKIP LOCKED) RETURNING id)
        SELECT count(*) INTO buried FROM dead;
    SELECT count(*), count(*) FILTER (WHERE id < me) INTO hosts, place FROM webhook_host WHERE NOT leaving;
    fair := CASE WHEN leaves THEN 0 ELSE 64 / hosts + (place < 64 % hosts)::integer END;
    UPDATE webhook_shard SET owner = me WHERE shard IN (SELECT shard FROM webhook_shard WHERE owner IS NULL
        ORDER BY shard LIMIT greatest(0, fair - (SELECT count(*) FROM webhook_shard WHERE owner = me))
        FOR UPDATE SKIP LOCKED);
    SELECT last_value INTO frontier FROM webhook_delivery_id;
    IF frontier < today THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('busbar.webhook.day', 0));
        SELECT last_value INTO frontier FROM webhook_delivery_id;
        IF frontier < today THEN
            frontier := setval('webhook_delivery_id', today);
        END IF;
    END IF;
    SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint INTO low_xact, next_xact
        FROM pg_current_snapshot() AS s;
    SELECT string_agg(shard || ':' || cursor, ' ') INTO owned FROM webhook_shard WHERE owner = me;
    paused := busbar_pause_reason() IS NOT NULL;
    IF buried > 0 THEN
        PERFORM pg_notify('webhook', 'shards');
    END IF;
END
$$;

-- step 18: shards across a promotion

-- previous: the id before the last promotion. The shards of a host get its new id (ON UPDATE CASCADE).
ALTER TABLE webhook_host ADD COLUMN previous bigint;
ALTER TABLE webhook_shard DROP CONSTRAINT webhook_shard_owner_fkey,
    ADD FOREIGN KEY (owner) REFERENCES webhook_host ON UPDATE CASCADE ON DELETE SET NULL;

-- The heartbeat as before. On a new timeline all hosts get new ids, which end their leases, and have eight seconds to
-- read them. They keep their shards, so that each can record its outcomes before the deliveries are read again. Ids of
-- hosts continue a million higher, too, because the old primary may have given the next ids to hosts whose rows were
-- lost.
ALTER FUNCTION webhook_tend(bigint, jsonb, boolean) RENAME TO webhook_tend_here;
CREATE FUNCTION webhook_tend(host bigint, host_counters jsonb, leaves boolean, OUT me bigint, OUT paused boolean,
    OUT fair integer, OUT buried integer, OUT frontier bigint, OUT low_xact bigint, OUT next_xact bigint,
    OUT owned text)
    LANGUAGE plpgsql AS $$
BEGIN
    -- hosts do this one after another, so only the first one finds the old timeline
    PERFORM pg_advisory_xact_lock(hashtextextended('busbar.webhook.day', 0)) FROM webhook_timeline
        WHERE timeline <> busbar_timeline();
    PERFORM setval('webhook_host_id_seq', nextval('webhook_host_id_seq') + 1048576) FROM webhook_timeline
        WHERE timeline <> busbar_timeline();
    UPDATE webhook_host SET id = DEFAULT, previous = id, timeline = busbar_timeline(), heartbeat_at = now()
        WHERE timeline <> busbar_timeline();
    SELECT t.* INTO me, paused, fair, buried, frontier, low_xact, next_xact, owned FROM webhook_tend_here(
        coalesce((SELECT h.id FROM webhook_host h WHERE h.previous = host), host), host_counters, leaves) AS t;
END
$$;

-- step 19: e-mails of events

-- Most e-mails of events belong to accounts without webhooks. With the true number of e-mails the planner expects each
-- event to match the webhooks of some large owner, and either reads all webhooks or makes a plan for each execution.
ALTER TABLE webhook_hook ALTER COLUMN email SET (n_distinct = -1);
DO $$
BEGIN
    IF EXISTS (SELECT FROM webhook_hook) THEN -- the planner would expect that an empty table stays empty
        ANALYZE webhook_hook (email);
    END IF;
END
$$;

-- step 20: delivered deliveries that are kept for a shorter time

-- Returns whether a delivery of a day or of an earlier day must still be sent. VOLATILE: each query sees the latest
-- commits, so a caller can ask again after it has locked the tables.
CREATE FUNCTION webhook_day_waits(day date) RETURNS boolean
    LANGUAGE plpgsql AS $$
DECLARE
    upto bigint := webhook_day_floor(day + 1);
BEGIN
    RETURN EXISTS (SELECT FROM webhook_expansion WHERE body_id < upto)
        OR EXISTS (SELECT FROM webhook_waiting WHERE id >= webhook_day_floor(day) AND id < upto)
        OR EXISTS (SELECT FROM webhook_shard WHERE cursor < upto - 1)
        OR EXISTS (SELECT FROM webhook_backlog b CROSS JOIN LATERAL (SELECT FROM webhook_delivery d
            WHERE d.webhook = b.webhook AND d.id > b.cursor AND d.id < upto
            AND (SELECT o.id FROM webhook_outcome o WHERE o.id = d.id) IS NULL LIMIT 1) d);
END
$$;

-- Drops the partitions of a day, unless something in it still waits. The first check needs no lock. A transaction
-- that sends a delivery of the day again may commit after it, so the function locks the tables, which every such
-- transaction uses, and checks again. A delivery may be a day younger than its body.
CREATE OR REPLACE FUNCTION webhook_partition_drop_day(day date) RETURNS boolean
    LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
    suffix text := to_char(day, '_YYYYMMDD');
    old    date;
BEGIN
    IF webhook_day_waits(day) THEN
        RETURN false;
    END IF;
    LOCK TABLE ONLY webhook_delivery, ONLY webhook_outcome IN ACCESS EXCLUSIVE MODE;
    EXECUTE format('LOCK TABLE %I, %I IN ACCESS EXCLUSIVE MODE', 'webhook_delivery' || suffix, 'webhook_outcome' || suffix);
    IF webhook_day_waits(day) THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE %I, %I', 'webhook_delivery' || suffix, 'webhook_outcome' || suffix);
    FOR old IN SELECT body FROM webhook_partition_days('webhook_body') AS body
        WHERE body + 1 < (SELECT min(delivery) FROM webhook_partition_days('webhook_delivery') AS delivery)
    LOOP
        EXECUTE format('DROP TABLE %I', 'webhook_body' || to_char(old, '_YYYYMMDD'));
    END LOOP;
    RETURN true;
END
$$;

-- Returns whether webhook_partition_thin() has removed the delivered deliveries of a day. The comment of the partition
-- records this, so a delivery that is resent and delivered afterwards is kept as long as the rest of its day.
CREATE FUNCTION webhook_day_is_thin(day date) RETURNS boolean
    LANGUAGE sql STABLE AS $$
    SELECT obj_description(to_regclass('webhook_delivery' || to_char(day, '_YYYYMMDD')), 'pg_class')
        IS NOT DISTINCT FROM 'without delivered deliveries'
$$;

-- Returns the days to drop after `days`, and those to thin after `delivered_days` (0: none), oldest first.
CREATE FUNCTION webhook_days_old(days integer, delivered_days integer) RETURNS SETOF date
    LANGUAGE sql STABLE AS $$
    SELECT day FROM webhook_partition_days('webhook_delivery') AS day
    WHERE day < (now() AT TIME ZONE 'UTC')::date - days OR delivered_days > 0
        AND day < (now() AT TIME ZONE 'UTC')::date - delivered_days AND NOT webhook_day_is_thin(day)
    ORDER BY day
$$;

-- Removes the bodies of a day to which no delivery refers any more, if both days whose deliveries may refer to them are
-- thin. If more than 64 MiB of bodies are still needed, all stay.
CREATE FUNCTION webhook_body_thin(day date) RETURNS void
    LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    name text := 'webhook_body' || to_char(day, '_YYYYMMDD');
    low  bigint := webhook_day_floor(day);
    upto bigint := webhook_day_floor(day + 1);
    used bigint[];
    kept webhook_body[];
BEGIN
    IF to_regclass(name) IS NULL OR EXISTS (SELECT FROM webhook_partition_days('webhook_delivery') AS d
        WHERE d IN (day, day + 1) AND NOT webhook_day_is_thin(d)) THEN
        RETURN;
    END IF;
    used := ARRAY(SELECT DISTINCT d.body_id FROM webhook_delivery d
        WHERE d.id >= low AND d.id < webhook_day_floor(day + 2) AND d.body_id IS NOT NULL);
    IF (SELECT sum(octet_length(b.body)) FROM webhook_body b
        WHERE b.id = ANY (used) AND b.id >= low AND b.id < upto) > 64 << 20 THEN
        RETURN;
    END IF;
    LOCK TABLE ONLY webhook_body IN ROW EXCLUSIVE MODE;
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', name);
    kept := ARRAY(SELECT b FROM webhook_body b WHERE b.id = ANY (used) AND b.id >= low AND b.id < upto);
    EXECUTE format('TRUNCATE %I', name);
    INSERT INTO webhook_body SELECT b.* FROM unnest(kept) AS b;
END
$$;

-- Thins the partitions of a day: keeps only the deliveries that were not delivered, and the events of polled webhooks.
-- The function copies these rows, truncates the partitions, and inserts the rows again, so it leaves nothing to vacuum.
-- Its locks block only statements that use the day, among them those with a plan for all days. To limit this wait to
-- about a second, it changes nothing if more than 50,000 rows or 64 MiB are to be kept. It checks the same as
-- webhook_partition_drop_day(), and also that no running replay needs the day. lock_timeout is shorter than
-- deadlock_timeout, so that a deadlock ends this function and no other transaction.
CREATE FUNCTION webhook_partition_thin(day date) RETURNS boolean
    LANGUAGE plpgsql SET lock_timeout = '500ms' SET enable_seqscan = off AS $$
DECLARE
    suffix     text := to_char(day, '_YYYYMMDD');
    low        bigint := webhook_day_floor(day);
    high       bigint := webhook_day_floor(day + 1);
    kept       bigint[];
    deliveries webhook_delivery[];
    outcomes   webhook_outcome[];
BEGIN
    FOR look IN 1..2 LOOP
        kept := ARRAY(SELECT k.id FROM (
            SELECT o.id FROM webhook_outcome o WHERE o.id >= low AND o.id < high AND NOT o.delivered
            UNION ALL SELECT d.id FROM webhook_hook h JOIN webhook_delivery d ON d.webhook = h.id
            WHERE h.kind = 'poll' AND d.id >= low AND d.id < high) k LIMIT 50001);
        IF cardinality(kept) > 50000 OR webhook_day_waits(day) OR EXISTS (SELECT FROM webhook_replay r
            WHERE r.state = 'running' AND r.cursor < high AND r.upto >= low) THEN
            RETURN false;
        ELSIF (SELECT sum(coalesce(octet_length(d.body), 0) + coalesce(octet_length(o.log::text), 0))
            FROM webhook_delivery d LEFT JOIN webhook_outcome o ON o.id = d.id AND o.id >= low AND o.id < high
            WHERE d.id = ANY (kept) AND d.id >= low AND d.id < high) > 64 << 20 THEN
            RETURN false;
        END IF;
        IF look = 1 THEN
            LOCK TABLE ONLY webhook_delivery, ONLY webhook_outcome IN ROW EXCLUSIVE MODE;
            EXECUTE format('LOCK TABLE %I, %I IN ACCESS EXCLUSIVE MODE', 'webhook_delivery' || suffix,
                           'webhook_outcome' || suffix);
        END IF;
    END LOOP;
    deliveries := ARRAY(SELECT d FROM webhook_delivery d WHERE d.id = ANY (kept) AND d.id >= low AND d.id < high);
    outcomes := ARRAY(SELECT o FROM webhook_outcome o WHERE o.id = ANY (kept) AND o.id >= low AND o.id < high);
    EXECUTE format('TRUNCATE %I, %I', 'webhook_delivery' || suffix, 'webhook_outcome' || suffix);
    INSERT INTO webhook_delivery SELECT d.* FROM unnest(deliveries) AS d;
    INSERT INTO webhook_outcome SELECT o.* FROM unnest(outcomes) AS o;
    EXECUTE format('COMMENT ON TABLE %I IS ''without delivered deliveries''', 'webhook_delivery' || suffix);
    PERFORM webhook_body_thin(day - 1), webhook_body_thin(day);
    RETURN true;
END
$$;

-- Drops the partitions of a day that is older than `days`, or thins them.
CREATE FUNCTION webhook_partition_retire(day date, days integer) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    IF day < (now() AT TIME ZONE 'UTC')::date - days THEN
        RETURN webhook_partition_drop(day);
    END IF;
    RETURN webhook_partition_thin(day);
END
$$;

-- step 21: vacuum

-- Rows of these tables are only added, except by webhook_partition_thin(), so vacuum freezes them at once: a page is
-- then read once by vacuum, and not again when its rows are old. A partition of a busy day has many million rows. With
-- the default, a fifth of them would wait for the next vacuum.
CREATE FUNCTION webhook_partition_tune(part regclass) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s SET (autovacuum_freeze_min_age = 0, autovacuum_vacuum_insert_scale_factor = 0.05)',
                   part);
END
$$;

CREATE OR REPLACE FUNCTION webhook_partition_make(day date) RETURNS boolean
    LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    made   boolean;
BEGIN
    FOREACH parent IN ARRAY ARRAY['webhook_body', 'webhook_outcome', 'webhook_delivery'] LOOP
        made := webhook_partition_make_of(parent, day);
        IF made THEN
            PERFORM webhook_partition_tune((parent || to_char(day, '_YYYYMMDD'))::regclass);
        END IF;
    END LOOP;
    RETURN made;
END
$$;

DO $$
BEGIN
    PERFORM webhook_partition_tune(part.relid)
        FROM unnest(ARRAY['webhook_body', 'webhook_outcome', 'webhook_delivery']::regclass[]) AS parent,
        pg_partition_tree(parent) AS part WHERE part.isleaf;
END
$$;

-- Queues: rows are inserted and soon deleted, so the number of dead rows has nothing to do with the size of the table.
-- When a receiver is down, webhook_waiting has millions of rows; by default, as many as a fifth of them would be dead
-- before vacuum removes them, and the scans for due deliveries would read their index entries. Truncating the empty end
-- of a table needs an exclusive lock, which cancels queries on replicas, and the space is used again soon.
ALTER TABLE webhook_waiting SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
    vacuum_truncate = off);
ALTER TABLE webhook_expansion SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    vacuum_truncate = off);

-- The latest place of each key is updated for each delivery that has an order; there may be millions of keys.
ALTER TABLE webhook_sequence SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- step 22: filters of payloads with an escaped backslash before u0000

-- Returns null only if a text has a NUL. Without pairs of backslashes, each of which stands for one backslash, any
-- '\u0000' that is left is a NUL.
CREATE OR REPLACE FUNCTION webhook_payload(body text) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN position('\u0000' IN replace(body, '\\', '')) = 0 THEN body::jsonb END;
