-- step 1: conditions in statements, stored answers, folded texts, the pause of a restored database

-- Raises an error unless `ok` is true. A unit calls it if a statement may find nothing to do: the error rolls back the
-- whole unit. SQLSTATE BBnnn contains the HTTP status; the client gets the message.
CREATE FUNCTION busbar_require(ok boolean, status integer, message text) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF ok IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'BB' || status, MESSAGE = message;
    END IF;
END
$$;

CREATE TABLE busbar_idempotency (
    account      bigint NOT NULL,
    route        text NOT NULL,
    key          text NOT NULL,
    request_hash text NOT NULL,
    status       integer NOT NULL,
    reply        bytea NOT NULL, -- sealed
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account, route, key)
);
CREATE INDEX busbar_idempotency_created_at ON busbar_idempotency (created_at);

-- Full case folding of Unicode 15, then NFC. A test compares it with the host's folding of e-mails (core/lib/text.c).
-- It must not call functions outside of pg_catalog, because a restore has no search path.
CREATE FUNCTION busbar_fold(given text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    IF octet_length(given) = char_length(given) THEN
        RETURN lower(given COLLATE "C");
    END IF;
    RETURN normalize((SELECT string_agg(coalesce(
        (SELECT string_agg(chr(code::int), '' ORDER BY place)
         FROM unnest(string_to_array(wide.codes, ' ')) WITH ORDINALITY AS c (code, place)),
        chr(own.code + coalesce(ranges.distance, 0))), '' ORDER BY own.place)
    FROM (SELECT ascii(one) AS code, place
          FROM unnest(string_to_array(given, NULL)) WITH ORDINALITY AS o (one, place)) own
    LEFT JOIN (VALUES -- first, last, step, distance
        (65, 90, 1, 32), (181, 181, 1, 775), (192, 214, 1, 32), (216, 222, 1, 32),
        (256, 302, 2, 1), (306, 310, 2, 1), (313, 327, 2, 1), (330, 374, 2, 1),
        (376, 376, 1, -121), (377, 381, 2, 1), (383, 383, 1, -268), (385, 385, 1, 210),
        (386, 388, 2, 1), (390, 390, 1, 206), (391, 391, 1, 1), (393, 394, 1, 205),
        (395, 395, 1, 1), (398, 398, 1, 79), (399, 399, 1, 202), (400, 400, 1, 203),
        (401, 401, 1, 1), (403, 403, 1, 205), (404, 404, 1, 207), (406, 406, 1, 211),
        (407, 407, 1, 209), (408, 408, 1, 1), (412, 412, 1, 211), (413, 413, 1, 213),
        (415, 415, 1, 214), (416, 420, 2, 1), (422, 422, 1, 218), (423, 423, 1, 1),
        (425, 425, 1, 218), (428, 428, 1, 1), (430, 430, 1, 218), (431, 431, 1, 1),
        (433, 434, 1, 217), (435, 437, 2, 1), (439, 439, 1, 219), (440, 440, 1, 1),
        (444, 444, 1, 1), (452, 452, 1, 2), (453, 453, 1, 1), (455, 455, 1, 2),
        (456, 456, 1, 1), (458, 458, 1, 2), (459, 475, 2, 1), (478, 494, 2, 1),
        (497, 497, 1, 2), (498, 500, 2, 1), (502, 502, 1, -97), (503, 503, 1, -56),
        (504, 542, 2, 1), (544, 544, 1, -130), (546, 562, 2, 1), (570, 570, 1, 10795),
        (571, 571, 1, 1), (573, 573, 1, -163), (574, 574, 1, 10792), (577, 577, 1, 1),
        (579, 579, 1, -195), (580, 580, 1, 69), (581, 581, 1, 71), (582, 590, 2, 1),
        (837, 837, 1, 116), (880, 882, 2, 1), (886, 886, 1, 1), (895, 895, 1, 116),
        (902, 902, 1, 38), (904, 906, 1, 37), (908, 908, 1, 64), (910, 911, 1, 63),
        (913, 929, 1, 32), (931, 939, 1, 32), (962, 962, 1, 1), (975, 975, 1, 8),
        (976, 976, 1, -30), (977, 977, 1, -25), (981, 981, 1, -15), (982, 982, 1, -22),
        (984, 1006, 2, 1), (1008, 1008, 1, -54), (1009, 1009, 1, -48), (1012, 1012, 1, -60),
        (1013, 1013, 1, -64), (1015, 1015, 1, 1), (1017, 1017, 1, -7), (1018, 1018, 1, 1),
        (1021, 1023, 1, -130), (1024, 1039, 1, 80), (1040, 1071, 1, 32), (1120, 1152, 2, 1),
        (1162, 1214, 2, 1), (1216, 1216, 1, 15), (1217, 1229, 2, 1), (1232, 1326, 2, 1),
        (1329, 1366, 1, 48), (4256, 4293, 1, 7264), (4295, 4295, 1, 7264),
        (4301, 4301, 1, 7264), (5112, 5117, 1, -8), (7296, 7296, 1, -6222),
        (7297, 7297, 1, -6221), (7298, 7298, 1, -6212), (7299, 7300, 1, -6210),
        (7301, 7301, 1, -6211), (7302, 7302, 1, -6204), (7303, 7303, 1, -6180),
        (7304, 7304, 1, 35267), (7312, 7354, 1, -3008), (7357, 7359, 1, -3008),
        (7680, 7828, 2, 1), (7835, 7835, 1, -58), (7840, 7934, 2, 1), (7944, 7951, 1, -8),
        (7960, 7965, 1, -8), (7976, 7983, 1, -8), (7992, 7999, 1, -8), (8008, 8013, 1, -8),
        (8025, 8031, 2, -8), (8040, 8047, 1, -8), (8120, 8121, 1, -8), (8122, 8123, 1, -74),
        (8126, 8126, 1, -7173), (8136, 8139, 1, -86), (8152, 8153, 1, -8),
        (8154, 8155, 1, -100), (8168, 8169, 1, -8), (8170, 8171, 1, -112), (8172, 8172, 1, -7),
        (8184, 8185, 1, -128), (8186, 8187, 1, -126), (8486, 8486, 1, -7517),
        (8490, 8490, 1, -8383), (8491, 8491, 1, -8262), (8498, 8498, 1, 28),
        (8544, 8559, 1, 16), (8579, 8579, 1, 1), (9398, 9423, 1, 26), (11264, 11311, 1, 48),
        (11360, 11360, 1, 1), (11362, 11362, 1, -10743), (11363, 11363, 1, -3814),
        (11364, 11364, 1, -10727), (11367, 11371, 2, 1), (11373, 11373, 1, -10780),
        (11374, 11374, 1, -10749), (11375, 11375, 1, -10783), (11376, 11376, 1, -10782),
        (11378, 11378, 1, 1), (11381, 11381, 1, 1), (11390, 11391, 1, -10815),
        (11392, 11490, 2, 1), (11499, 11501, 2, 1), (11506, 11506, 1, 1), (42560, 42604, 2, 1),
        (42624, 42650, 2, 1), (42786, 42798, 2, 1), (42802, 42862, 2, 1), (42873, 42875, 2, 1),
        (42877, 42877, 1, -35332), (42878, 42886, 2, 1), (42891, 42891, 1, 1),
        (42893, 42893, 1, -42280), (42896, 42898, 2, 1), (42902, 42920, 2, 1),
        (42922, 42922, 1, -42308), (42923, 42923, 1, -42319), (42924, 42924, 1, -42315),
        (42925, 42925, 1, -42305), (42926, 42926, 1, -42308), (42928, 42928, 1, -42258),
        (42929, 42929, 1, -42282), (42930, 42930, 1, -42261), (42931, 42931, 1, 928),
        (42932, 42946, 2, 1), (42948, 42948, 1, -48), (42949, 42949, 1, -42307),
        (42950, 42950, 1, -35384), (42951, 42953, 2, 1), (42960, 42960, 1, 1),
        (42966, 42968, 2, 1), (42997, 42997, 1, 1), (43888, 43967, 1, -38864),
        (65313, 65338, 1, 32), (66560, 66599, 1, 40), (66736, 66771, 1, 40),
        (66928, 66938, 1, 39), (66940, 66954, 1, 39), (66956, 66962, 1, 39),
        (66964, 66965, 1, 39), (68736, 68786, 1, 64), (71840, 71871, 1, 32),
        (93760, 93791, 1, 32), (125184, 125217, 1, 34)
    ) ranges (first, last, step, distance)
        ON own.code BETWEEN ranges.first AND ranges.last
        AND (own.code - ranges.first) % ranges.step = 0
    LEFT JOIN (VALUES -- characters that become several
        (223, '115 115'), (304, '105 775'), (329, '700 110'), (496, '106 780'),
        (912, '953 776 769'), (944, '965 776 769'), (1415, '1381 1410'), (7830, '104 817'),
        (7831, '116 776'), (7832, '119 778'), (7833, '121 778'), (7834, '97 702'),
        (7838, '115 115'), (8016, '965 787'), (8018, '965 787 768'), (8020, '965 787 769'),
        (8022, '965 787 834'), (8064, '7936 953'), (8065, '7937 953'), (8066, '7938 953'),
        (8067, '7939 953'), (8068, '7940 953'), (8069, '7941 953'), (8070, '7942 953'),
        (8071, '7943 953'), (8072, '7936 953'), (8073, '7937 953'), (8074, '7938 953'),
        (8075, '7939 953'), (8076, '7940 953'), (8077, '7941 953'), (8078, '7942 953'),
        (8079, '7943 953'), (8080, '7968 953'), (8081, '7969 953'), (8082, '7970 953'),
        (8083, '7971 953'), (8084, '7972 953'), (8085, '7973 953'), (8086, '7974 953'),
        (8087, '7975 953'), (8088, '7968 953'), (8089, '7969 953'), (8090, '7970 953'),
        (8091, '7971 953'), (8092, '7972 953'), (8093, '7973 953'), (8094, '7974 953'),
        (8095, '7975 953'), (8096, '8032 953'), (8097, '8033 953'), (8098, '8034 953'),
        (8099, '8035 953'), (8100, '8036 953'), (8101, '8037 953'), (8102, '8038 953'),
        (8103, '8039 953'), (8104, '8032 953'), (8105, '8033 953'), (8106, '8034 953'),
        (8107, '8035 953'), (8108, '8036 953'), (8109, '8037 953'), (8110, '8038 953'),
        (8111, '8039 953'), (8114, '8048 953'), (8115, '945 953'), (8116, '940 953'),
        (8118, '945 834'), (8119, '945 834 953'), (8124, '945 953'), (8130, '8052 953'),
        (8131, '951 953'), (8132, '942 953'), (8134, '951 834'), (8135, '951 834 953'),
        (8140, '951 953'), (8146, '953 776 768'), (8147, '953 776 769'), (8150, '953 834'),
        (8151, '953 776 834'), (8162, '965 776 768'), (8163, '965 776 769'), (8164, '961 787'),
        (8166, '965 834'), (8167, '965 776 834'), (8178, '8060 953'), (8179, '969 953'),
        (8180, '974 953'), (8182, '969 834'), (8183, '969 834 953'), (8188, '969 953'),
        (64256, '102 102'), (64257, '102 105'), (64258, '102 108'), (64259, '102 102 105'),
        (64260, '102 102 108'), (64261, '115 116'), (64262, '115 116'), (64275, '1396 1398'),
        (64276, '1396 1381'), (64277, '1396 1387'), (64278, '1406 1398'), (64279, '1396 1389')
    ) wide (code, codes) ON wide.code = own.code), NFC);
END
$$;

-- One row. `place` is the identifier of the cluster and of the database for which background work was last allowed. A
-- failover changes neither. A database that was restored from a dump or cloned has another place, and is paused until
-- `busbar resume` records the new place.
CREATE TABLE busbar_pause (
    id        boolean PRIMARY KEY DEFAULT true CHECK (id),
    place     text NOT NULL,
    paused_at timestamptz -- by `busbar pause`; NULL: it is not paused
);

CREATE FUNCTION busbar_place() RETURNS text
    LANGUAGE sql STABLE
    RETURN (SELECT s.system_identifier || ' ' || d.oid FROM pg_control_system() s, pg_database d
            WHERE d.datname = current_database());

INSERT INTO busbar_pause (place) SELECT busbar_place();

-- Returns why deliveries, jobs and calls to other servers are paused; NULL: they are not.
CREATE FUNCTION busbar_pause_reason() RETURNS text
    LANGUAGE sql STABLE
    RETURN (SELECT CASE
        WHEN paused_at IS NOT NULL THEN 'an operator ran `busbar pause` at '
            || to_char(paused_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
        WHEN place <> busbar_place() THEN 'the database was restored or cloned: its cluster, or the'
            || ' database in it, is another one than before; `busbar resume` allows it to act'
        END FROM busbar_pause);

-- step 2: the pause of a database that was restored over itself

-- The table's oid is part of the place: a restore into the same database of the same cluster creates the table again.
CREATE OR REPLACE FUNCTION busbar_place() RETURNS text
    LANGUAGE sql STABLE
    RETURN (SELECT s.system_identifier || ' ' || d.oid || ' ' || p.tableoid
            FROM pg_control_system() s, pg_database d, busbar_pause p WHERE d.datname = current_database());

UPDATE busbar_pause SET place = busbar_place()
WHERE place = (SELECT s.system_identifier || ' ' || d.oid FROM pg_control_system() s, pg_database d
               WHERE d.datname = current_database());

CREATE OR REPLACE FUNCTION busbar_pause_reason() RETURNS text
    LANGUAGE sql STABLE
    RETURN (SELECT CASE
        WHEN paused_at IS NOT NULL THEN 'an operator ran `busbar pause` at '
            || to_char(paused_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
        WHEN place <> busbar_place() THEN 'the database was restored or cloned since it was last allowed to act;'
            || ' `busbar resume` allows it'
        END FROM busbar_pause);

-- step 3: the timeline

-- Returns a number that identifies the timeline of the database: it is made of the cluster, its timeline and the
-- database. After a promotion, or a restore from a dump, transactions and sequences may use numbers again that lost
-- transactions had. The timeline comes from the current write position, because the control file names a new one only
-- when the checkpoint after a promotion ends, which can take minutes. The function is in PL/pgSQL, which keeps the plan
-- of the query: in SQL, each page of a stream would plan the query again.
CREATE FUNCTION busbar_timeline() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT hashtextextended(concat_ws(' ', s.system_identifier,
            left(pg_walfile_name(pg_current_wal_lsn()), 8), d.oid), 0) & 281474976710655 | 1
            FROM pg_control_system() s, pg_database d WHERE d.datname = current_database());
END
$$;

-- step 4: stored answers in partitions of a day

-- Answers are dropped with the partition of their day, instead of being deleted one by one. Answers that are stored
-- already become the first partition, which ends after the latest of them. created_at has to be part of the key, so the
-- key no longer prevents a second answer; busbar_idempotency_store() does.
CREATE FUNCTION busbar_idempotency_day(day date) RETURNS text
    LANGUAGE sql STABLE
    RETURN 'busbar_idempotency' || to_char(day, '_YYYYMMDD');

ALTER TABLE busbar_idempotency RENAME TO busbar_idempotency_first;
ALTER TABLE busbar_idempotency_first DROP CONSTRAINT busbar_idempotency_pkey;
CREATE TABLE busbar_idempotency (
    account      bigint NOT NULL,
    route        text NOT NULL,
    key          text NOT NULL,
    request_hash text NOT NULL,
    status       integer NOT NULL,
    reply        bytea NOT NULL, -- sealed
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account, route, key, created_at)
) PARTITION BY RANGE (created_at);

DO $$
DECLARE
    day date := max(created_at) AT TIME ZONE 'UTC' FROM busbar_idempotency_first;
BEGIN
    IF day IS NULL THEN
        DROP TABLE busbar_idempotency_first;
    ELSE
        day := greatest(day, (now() AT TIME ZONE 'UTC')::date);
        DROP INDEX busbar_idempotency_created_at;
        EXECUTE format('ALTER TABLE busbar_idempotency_first RENAME TO %I', busbar_idempotency_day(day));
        EXECUTE format('ALTER TABLE busbar_idempotency ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%L)',
                       busbar_idempotency_day(day), (day + 1)::timestamp AT TIME ZONE 'UTC');
    END IF;
END
$$;
CREATE TABLE busbar_idempotency_rest PARTITION OF busbar_idempotency DEFAULT;

-- Creates the partitions of today and the next three days, and drops those whose answers are all older than `hours`. If
-- this fails for three days, the default partition takes the answers; a day of which it has answers gets no partition.
-- Waiting for a lock blocks other requests, so the function gives up soon; it is called each hour. Answers never change
-- and are soon dropped, so vacuuming the inserted rows would be useless.
CREATE FUNCTION busbar_idempotency_partitions(hours integer) RETURNS void
    LANGUAGE plpgsql SET lock_timeout = '500ms' AS $$
DECLARE
    today date := now() AT TIME ZONE 'UTC';
    low   timestamptz;
    high  timestamptz;
    name  text;
BEGIN
    DELETE FROM busbar_idempotency_rest WHERE created_at <= now() - make_interval(hours => hours);
    FOR ahead IN 0..3 LOOP
        name := busbar_idempotency_day(today + ahead);
        low := (today + ahead)::timestamp AT TIME ZONE 'UTC';
        high := (today + ahead + 1)::timestamp AT TIME ZONE 'UTC';
        IF to_regclass(name) IS NULL
            AND NOT EXISTS (SELECT FROM busbar_idempotency_rest WHERE created_at >= low AND created_at < high) THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF busbar_idempotency FOR VALUES FROM (%L) TO (%L)'
                           ' WITH (autovacuum_vacuum_insert_threshold = -1)', name, low, high);
        END IF;
    END LOOP;
    FOR name IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'busbar_idempotency'::regclass AND c.relname ~ '_[0-9]{8}$'
        AND (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC'
            <= now() - make_interval(hours => hours)
    LOOP
        EXECUTE format('DROP TABLE %I', name);
    END LOOP;
END
$$;

DO $$
BEGIN
    PERFORM busbar_idempotency_partitions(24 * 31);
END
$$;

-- Stores the answer to a request, or raises an error if the key has one that is not older than `hours`. The lock, which
-- is held until the commit, makes requests with the same key wait; the queries after it see what was committed before.
CREATE FUNCTION busbar_idempotency_store(account bigint, route text, key text, request_hash text, status integer,
                                         reply bytea, hours integer) RETURNS void
    LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(route || ' ' || key, account));
    PERFORM busbar_require(NOT EXISTS (SELECT FROM busbar_idempotency i WHERE i.account = account AND i.route = route
        AND i.key = key AND i.created_at > now() - make_interval(hours => hours)), 409, 'idempotency key taken');
    INSERT INTO busbar_idempotency (account, route, key, request_hash, status, reply)
        VALUES (account, route, key, request_hash, status, reply);
END
$$;

-- step 5: reads from replicas; the locks of jobs

-- The marks of timelines. A row is stored on its timeline, so a server that has the row has replayed WAL of this
-- timeline. Its number does not prove this: two promoted standbys may give their timelines the same number.
CREATE TABLE busbar_mark (
    timeline bigint PRIMARY KEY, -- busbar_timeline()
    number   bigint NOT NULL,    -- increases with each timeline
    mark     uuid NOT NULL DEFAULT gen_random_uuid()
);

-- Returns the mark of the timeline, and the position up to which the WAL is flushed. Each commit that was acknowledged
-- or seen is before this position. NULL: the server is a standby, or its timeline has no mark yet.
CREATE FUNCTION busbar_position() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT mark || ' ' || pg_current_wal_flush_lsn() FROM busbar_mark WHERE timeline = busbar_timeline());
END
$$;

-- Waits until the server has replayed up to a position of busbar_position(). Returns 0 if it has, 1 if it has not in
-- this time, 2 if it is not a standby, 3 if it has not followed the timeline.
CREATE FUNCTION busbar_replayed(wanted text, within_ms bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := now() + within_ms * interval '1 ms'; -- now(): the requests of a batch share the wait
BEGIN
    WHILE pg_is_in_recovery() AND coalesce(pg_last_wal_replay_lsn() < split_part(wanted, ' ', 2)::pg_lsn, true) LOOP
        IF clock_timestamp() > until THEN
            RETURN 1;
        END IF;
        PERFORM pg_sleep(0.001);
    END LOOP;
    RETURN CASE WHEN NOT pg_is_in_recovery() THEN 2
        WHEN split_part(wanted, ' ', 1)::uuid = (SELECT mark FROM busbar_mark ORDER BY number DESC LIMIT 1) THEN 0
        ELSE 3 END;
END
$$;

-- Takes the lock of a job if it is free; otherwise returns the session that holds it: address, pid, state. Does not take
-- the lock if work is paused: since the last check, the host may have connected to another server, whose database is
-- paused.
CREATE FUNCTION busbar_job_lock(job text) RETURNS TABLE (got boolean, holder text) LANGUAGE plpgsql AS $$
DECLARE
    key bigint := hashtextextended(job, 0);
BEGIN
    got := busbar_pause_reason() IS NULL;
    IF got THEN
        got := pg_try_advisory_lock(key);
        IF NOT got THEN
            SELECT concat(coalesce(host(a.client_addr), 'local'), ' pid ', p.pid, ' ', a.state,
                          to_char(a.state_change AT TIME ZONE 'UTC', ' "since" YYYY-MM-DD"T"HH24:MI:SS"Z"'))
            INTO holder FROM pg_locks p LEFT JOIN pg_stat_activity a USING (pid)
            WHERE p.locktype = 'advisory' AND p.granted AND p.objsubid = 1
            AND p.classid::bigint << 32 | p.objid::bigint = key
            AND p.database = (SELECT oid FROM pg_database WHERE datname = current_database()) LIMIT 1;
        END IF;
    END IF;
    RETURN NEXT;
END
$$;
