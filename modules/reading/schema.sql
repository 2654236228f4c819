-- step 1: readings by device and time, refused and voided readings

-- A reading is found by its end: the readings of a device and type never overlap, so their order by end is also
-- their order by start. Readings are never changed, and no other table refers to them.
CREATE TABLE reading (
    device     bigint NOT NULL,
    type       "char" NOT NULL, -- H: History, D: Delta
    start_at   timestamptz NOT NULL,
    end_at     timestamptz NOT NULL,
    wh         bigint NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (device, type, end_at)
) PARTITION BY RANGE (end_at);

-- Readings that are older than the partitions of years.
CREATE TABLE reading_old PARTITION OF reading
    FOR VALUES FROM (MINVALUE) TO ('2000-01-01T00:00:00Z');

-- Creates the partition of a year, unless it exists.
CREATE FUNCTION reading_partition_make(year integer) RETURNS boolean
    LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
    name text := 'reading_' || year;
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I PARTITION OF reading FOR VALUES FROM (%L) TO (%L)', name,
                   make_timestamptz(year, 1, 1, 0, 0, 0, 'UTC'),
                   make_timestamptz(year + 1, 1, 1, 0, 0, 0, 'UTC'));
    RETURN true;
END
$$;

DO $$
BEGIN
    PERFORM reading_partition_make(year)
    FROM generate_series(2000, extract(year FROM now() AT TIME ZONE 'UTC')::int + 2) AS year;
END
$$;

-- A row for each device and type, of devices that have readings. A request that stores readings changes
-- the rows of both types first, which locks the device: no two requests store readings of one device at
-- the same time. The row of a type without readings ends in the year 1.
CREATE TABLE reading_device (
    device       bigint NOT NULL,
    type         "char" NOT NULL,
    latest_start timestamptz NOT NULL, -- the latest reading
    latest_end   timestamptz NOT NULL,
    latest_wh    bigint NOT NULL,
    latest_at    timestamptz NOT NULL, -- its created_at
    known_end    timestamptz NOT NULL, -- latest_end before the last request
    fresh_from   timestamptz,          -- range of the ends of readings not taken for issuing yet
    fresh_to     timestamptz,
    PRIMARY KEY (device, type)
) WITH (fillfactor = 70);
CREATE INDEX reading_device_fresh ON reading_device (type, device) WHERE fresh_from IS NOT NULL;

-- ms since 1970
CREATE FUNCTION reading_time(ms bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT to_timestamp(ms::double precision / 1000)';

-- The service "readings" for statements of other modules (services.h).

-- The Delta readings of devices that end in a period (start exclusive, end inclusive).
CREATE FUNCTION reading_deltas(devices bigint[], after timestamptz, until timestamptz)
    RETURNS TABLE (device bigint, end_at timestamptz, wh bigint) LANGUAGE sql STABLE AS $$
    SELECT r.device, r.end_at, r.wh FROM reading r
    WHERE r.device = ANY ($1) AND r.type = 'D' AND r.end_at > $2 AND r.end_at <= $3
$$;

-- The History readings of a device that end in a period (both inclusive).
CREATE FUNCTION reading_histories(device bigint, first timestamptz, last timestamptz)
    RETURNS TABLE (start_at timestamptz, end_at timestamptz, wh bigint) LANGUAGE sql STABLE AS $$
    SELECT r.start_at, r.end_at, r.wh FROM reading r
    WHERE r.device = $1 AND r.type = 'H' AND r.end_at >= $2 AND r.end_at <= $3
$$;

-- The ends of the first `most` Delta readings of a device in a period (start exclusive, end inclusive), in
-- their order. With sorting disabled the only plan is a scan of the key, which stops after the last of
-- them, however many readings the device has.
CREATE FUNCTION reading_delta_ends(device bigint, after timestamptz, until timestamptz,
                                   most integer)
    RETURNS TABLE (end_at timestamptz) LANGUAGE plpgsql STABLE SET enable_sort = off AS $$
BEGIN
    RETURN QUERY
        SELECT r.end_at FROM reading r
        WHERE r.device = reading_delta_ends.device AND r.type = 'D'
            AND r.end_at > reading_delta_ends.after AND r.end_at <= reading_delta_ends.until
        ORDER BY r.end_at LIMIT most;
END
$$;

-- Takes the new readings of up to `most` devices: returns the range of their ends. If the transaction
-- fails, they are new again. Rows are found by an array of ids, because a join would be planned with
-- statistics that may be older than the rows, and would then compare each row with each.
CREATE FUNCTION reading_take_fresh(type "char", most integer)
    RETURNS TABLE (device bigint, first timestamptz, last timestamptz) LANGUAGE sql VOLATILE AS $$
    WITH fresh AS (SELECT f.device, f.fresh_from, f.fresh_to FROM reading_device f
          WHERE f.type = $1 AND f.fresh_from IS NOT NULL ORDER BY f.device LIMIT $2 FOR UPDATE),
    taken AS (UPDATE reading_device d SET fresh_from = NULL, fresh_to = NULL
          WHERE d.device = ANY (ARRAY(SELECT f.device FROM fresh f)) AND d.type = $1)
    SELECT f.device, f.fresh_from, f.fresh_to FROM fresh f
$$;

-- The periods that overlap stored readings, by their number from 1, each with the first such reading.
-- STABLE: the function sees the rows from before the calling statement, not the rows that this one writes.
CREATE FUNCTION reading_overlapping(device bigint, starts bigint[], ends bigint[])
    RETURNS TABLE (number bigint, type "char", start_at timestamptz, end_at timestamptz, wh bigint)
    LANGUAGE plpgsql STABLE ROWS 10 AS $$
BEGIN
    RETURN QUERY
        SELECT p.number, o.type, o.start_at, o.end_at, o.wh
        FROM unnest(starts, ends) WITH ORDINALITY AS p (start_ms, end_ms, number)
        CROSS JOIN LATERAL (
            SELECT b.type, b.start_at, b.end_at, b.wh FROM (
                (SELECT r.type, r.start_at, r.end_at, r.wh FROM reading r
                 WHERE r.device = reading_overlapping.device AND r.type = 'D'
                     AND r.end_at > reading_time(p.start_ms)
                 ORDER BY r.end_at LIMIT 1)
                UNION ALL
                (SELECT r.type, r.start_at, r.end_at, r.wh FROM reading r
                 WHERE r.device = reading_overlapping.device AND r.type = 'H'
                     AND r.end_at > reading_time(p.start_ms)
                 ORDER BY r.end_at LIMIT 1)) b
            WHERE b.start_at < reading_time(p.end_ms)
            ORDER BY b.end_at LIMIT 1) o;
END
$$;

-- For Delta readings without a start: returns the latest stored end, of either type, before each of these ends, in
-- their order; null: there is none.
CREATE FUNCTION reading_previous(device bigint, ends bigint[])
    RETURNS TABLE (previous timestamptz) LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
        SELECT (SELECT nullif(max(b.end_at), '0001-01-01Z')
                FROM (VALUES ('D'::"char"), ('H'::"char")) t (type)
                LEFT JOIN reading_device d
                    ON d.device = reading_previous.device AND d.type = t.type
                CROSS JOIN LATERAL (
                    SELECT CASE WHEN d.latest_end < reading_time(e.ms) THEN d.latest_end ELSE (
                        SELECT r.end_at FROM reading r
                        WHERE r.device = reading_previous.device AND r.type = t.type
                            AND r.end_at < reading_time(e.ms)
                        ORDER BY r.end_at DESC LIMIT 1) END AS end_at) b)
        FROM unnest(ends) WITH ORDINALITY AS e (ms, number)
        ORDER BY e.number;
END
$$;

-- The start of a device's first reading of either type; null: it has none.
CREATE FUNCTION reading_first_start(device bigint) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT min(f.start_at) FROM (VALUES ('D'::"char"), ('H'::"char")) t (type)
    CROSS JOIN LATERAL (
        SELECT r.start_at FROM reading r WHERE r.device = $1 AND r.type = t.type
        ORDER BY r.end_at LIMIT 1) f
$$;

CREATE TABLE reading_refused (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organisation bigint NOT NULL, -- of the device when the reading was refused; 0: none
    device       bigint NOT NULL,
    type         "char",          -- as in reading; this and the next three columns are null if not known
    start_at     timestamptz,
    end_at       timestamptz,
    wh           bigint,
    problem      text NOT NULL,
    refused_at   timestamptz NOT NULL
);
CREATE INDEX reading_refused_organisation ON reading_refused (organisation, id);
CREATE INDEX reading_refused_device ON reading_refused (device, id);
CREATE INDEX reading_refused_at ON reading_refused (refused_at);

-- Readings that were voided, by whom, and why. They are not part of any sum, and other readings may cover
-- their periods.
CREATE TABLE reading_void (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    device     bigint NOT NULL,
    type       "char" NOT NULL,
    start_at   timestamptz NOT NULL,
    end_at     timestamptz NOT NULL,
    wh         bigint NOT NULL,
    created_at timestamptz NOT NULL,
    voided_at  timestamptz NOT NULL,
    account    bigint NOT NULL,
    email      text NOT NULL, -- of the account when it voided the reading
    reason     text NOT NULL
);
CREATE INDEX reading_void_device ON reading_void (device, id);

-- Voids the reading that ends at a time. The lock of the device's rows blocks storing.
CREATE FUNCTION reading_make_void(device bigint, type "char", at timestamptz, account bigint,
                                  email text, reason text)
    RETURNS reading LANGUAGE plpgsql AS $$
DECLARE
    voided reading;
BEGIN
    PERFORM FROM reading_device d WHERE d.device = reading_make_void.device ORDER BY d.type FOR UPDATE;
    DELETE FROM reading r WHERE r.device = reading_make_void.device
        AND r.type = reading_make_void.type AND r.end_at = reading_make_void.at
        RETURNING * INTO voided;
    PERFORM busbar_require(voided.device IS NOT NULL, 404, 'Reading not found');
    INSERT INTO reading_void (device, type, start_at, end_at, wh, created_at, voided_at, account,
                              email, reason)
        VALUES (voided.device, voided.type, voided.start_at, voided.end_at, voided.wh,
                voided.created_at, clock_timestamp(), account, email, reason);
    UPDATE reading_device d SET latest_start = coalesce(l.start_at, '0001-01-01Z'),
            latest_end = coalesce(l.end_at, '0001-01-01Z'), latest_wh = coalesce(l.wh, 0),
            latest_at = coalesce(l.created_at, d.latest_at)
        FROM (VALUES (1)) one LEFT JOIN LATERAL (
            SELECT r.start_at, r.end_at, r.wh, r.created_at FROM reading r
            WHERE r.device = voided.device AND r.type = voided.type
            ORDER BY r.end_at DESC LIMIT 1) l ON true
        WHERE d.device = voided.device AND d.type = voided.type AND d.latest_end = voided.end_at;
    DELETE FROM reading_device d WHERE d.device = voided.device
        AND NOT EXISTS (SELECT FROM reading_device o WHERE o.device = voided.device
                        AND o.latest_end > '0001-01-01Z');
    RETURN voided;
END
$$;

-- Deletes the readings of a device. A request that stores readings changes both rows of reading_device first: so either
-- its readings are stored first and deleted here, or the request finds no device.
CREATE FUNCTION reading_forget(device bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO reading_device AS d (device, type, latest_start, latest_end, latest_wh, latest_at,
                                     known_end)
        SELECT reading_forget.device, t.type, now(), now(), 0, now(), now()
        FROM (VALUES ('D'::"char"), ('H')) t (type)
        ON CONFLICT ON CONSTRAINT reading_device_pkey DO UPDATE SET known_end = d.known_end;
    DELETE FROM reading r WHERE r.device = reading_forget.device;
    DELETE FROM reading_void r WHERE r.device = reading_forget.device;
    DELETE FROM reading_refused r WHERE r.device = reading_forget.device;
    DELETE FROM reading_device r WHERE r.device = reading_forget.device;
END
$$;

-- Until the commit, nobody else can store, void or take readings of the device. Lock other rows only after
-- this call.
CREATE FUNCTION reading_hold(device bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO reading_device AS d (device, type, latest_start, latest_end, latest_wh, latest_at,
                                     known_end)
        SELECT $1, t.type, '0001-01-01Z', '0001-01-01Z', 0, now(), '0001-01-01Z'
        FROM (VALUES ('D'::"char"), ('H')) t (type)
        ON CONFLICT (device, type) DO UPDATE SET known_end = d.known_end
$$;

-- The service "readings": the Delta readings of devices that end in a period (start exclusive, end
-- inclusive), with their starts.
CREATE FUNCTION reading_delta_periods(devices bigint[], after timestamptz, until timestamptz)
    RETURNS TABLE (device bigint, start_at timestamptz, end_at timestamptz, wh bigint)
    LANGUAGE sql STABLE AS $$
    SELECT r.device, r.start_at, r.end_at, r.wh FROM reading r
    WHERE r.device = ANY ($1) AND r.type = 'D' AND r.end_at > $2 AND r.end_at <= $3
$$;

-- The service "readings": the readings of both types of a device that overlap a period.
CREATE FUNCTION reading_between(device bigint, first timestamptz, last timestamptz)
    RETURNS TABLE (type "char", start_at timestamptz, end_at timestamptz, wh bigint)
    LANGUAGE sql STABLE AS $$
    SELECT o.* FROM (VALUES ('D'::"char"), ('H'::"char")) t (type) CROSS JOIN LATERAL (
        SELECT r.type, r.start_at, r.end_at, r.wh FROM reading r WHERE r.device = $1
            AND r.type = t.type AND r.end_at > $2 AND r.end_at <= $3
        UNION ALL SELECT n.* FROM (SELECT r.type, r.start_at, r.end_at, r.wh FROM reading r
            WHERE r.device = $1 AND r.type = t.type AND r.end_at > $3 ORDER BY r.end_at LIMIT 1) n
            WHERE n.start_at < $3) o
$$;

-- The service "readings": the newest refused and voided readings of a device that overlap a period, and
-- why. A refused reading without a start counts if its end is in the period.
CREATE FUNCTION reading_discarded(device bigint, first timestamptz, last timestamptz, most integer)
    RETURNS TABLE (what text, type "char", start_at timestamptz, end_at timestamptz, wh bigint,
                   at timestamptz, reason text) LANGUAGE sql STABLE AS $$
    SELECT 'voided', v.type, v.start_at, v.end_at, v.wh, v.voided_at, v.reason FROM reading_void v
        WHERE v.device = $1 AND v.start_at < $3 AND v.end_at > $2
    UNION ALL SELECT 'refused', f.type, f.start_at, f.end_at, f.wh, f.refused_at, f.problem
        FROM reading_refused f WHERE f.device = $1 AND coalesce(f.start_at, $2) < $3 AND f.end_at > $2
            AND (f.start_at IS NOT NULL OR f.end_at <= $3)
    ORDER BY 6 DESC LIMIT $4
$$;

-- step 2: new readings after all stored ones need no search for overlaps

DROP FUNCTION reading_deltas(bigint[], timestamptz, timestamptz); -- reading_delta_periods() returns more

-- The periods that overlap stored readings, by their number from 1, each with the first such reading.
-- Periods after all stored readings, the usual case, are not searched. STABLE: it sees the rows from before
-- the calling statement, and not the rows of that statement.
CREATE OR REPLACE FUNCTION reading_overlapping(device bigint, starts bigint[], ends bigint[])
    RETURNS TABLE (number bigint, type "char", start_at timestamptz, end_at timestamptz, wh bigint)
    LANGUAGE plpgsql STABLE ROWS 10 AS $$
DECLARE
    latest timestamptz := max(d.latest_end) FROM reading_device d
        WHERE d.device = reading_overlapping.device;
BEGIN
    RETURN QUERY
        SELECT p.number, o.type, o.start_at, o.end_at, o.wh
        FROM unnest(starts, ends) WITH ORDINALITY AS p (start_ms, end_ms, number)
        CROSS JOIN LATERAL (
            SELECT b.type, b.start_at, b.end_at, b.wh FROM (
                (SELECT r.type, r.start_at, r.end_at, r.wh FROM reading r
                 WHERE r.device = reading_overlapping.device AND r.type = 'D'
                     AND r.end_at > reading_time(p.start_ms)
                 ORDER BY r.end_at LIMIT 1)
                UNION ALL
                (SELECT r.type, r.start_at, r.end_at, r.wh FROM reading r
                 WHERE r.device = reading_overlapping.device AND r.type = 'H'
                     AND r.end_at > reading_time(p.start_ms)
                 ORDER BY r.end_at LIMIT 1)) b
            WHERE b.start_at < reading_time(p.end_ms)
            ORDER BY b.end_at LIMIT 1) o
        WHERE reading_time(p.start_ms) < latest;
END
$$;

-- step 3: partitions of months

DROP FUNCTION reading_partition_make(integer);

-- Creates the partitions of this month and the next twelve, and of all months since the latest partition, in case no
-- host ran meanwhile. Months of a year that has a partition need none. Rows are only added, so vacuum freezes them
-- at once: a page is then read once by vacuum, and not again when its rows are old. 100,000 devices add 72 million rows
-- in a month. With the default, a fifth of them would wait for the next vacuum.
CREATE FUNCTION reading_partitions() RETURNS void
    LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
    month timestamp;
    this  timestamp := date_trunc('month', now() AT TIME ZONE 'UTC');
    first timestamp;
BEGIN
    SELECT least(max(CASE length(n) WHEN 4 THEN make_date(n::int + 1, 1, 1)
                     ELSE to_date(n, 'YYYYMM') + interval '1 month' END), this) INTO first
    FROM (SELECT substring(c.relname FROM '^reading_([0-9]{4}|[0-9]{6})$') AS n
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'reading'::regclass) p;
    FOR month IN SELECT generate_series(first, this + interval '12 months', '1 month') LOOP
        IF to_regclass(to_char(month, '"reading_"YYYY')) IS NULL
            AND to_regclass(to_char(month, '"reading_"YYYYMM')) IS NULL THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF reading FOR VALUES FROM (%L) TO (%L)'
                           ' WITH (autovacuum_freeze_min_age = 0, autovacuum_vacuum_insert_scale_factor = 0.05)',
                           to_char(month, '"reading_"YYYYMM'), month AT TIME ZONE 'UTC',
                           (month + interval '1 month') AT TIME ZONE 'UTC');
        END IF;
    END LOOP;
END
$$;

-- Planning a query without bounds costs time for each partition, and locks it. So the partitions of years from 2000 on
-- that ended more than ten years ago become part of reading_old, up to the first partition with readings. Later years
-- that have begun, or that have readings, keep their partitions. Readings cannot be in the future.
DO $$
DECLARE
    this integer := extract(year FROM now() AT TIME ZONE 'UTC');
    old  integer := 2000;
    used boolean;
BEGIN
    LOCK TABLE reading IN ACCESS EXCLUSIVE MODE;
    FOR year IN 2000..this + 2 LOOP
        CONTINUE WHEN to_regclass('reading_' || year) IS NULL;
        EXECUTE format('SELECT EXISTS (SELECT FROM %I)', 'reading_' || year) INTO used;
        IF NOT used AND year > this THEN
            EXECUTE format('DROP TABLE %I', 'reading_' || year);
        ELSIF NOT used AND year = old AND year < this - 10 AND NOT EXISTS (SELECT FROM reading_old) THEN
            EXECUTE format('DROP TABLE %I', 'reading_' || year);
            old := year + 1;
        END IF;
    END LOOP;
    IF old > 2000 THEN
        DROP TABLE reading_old;
        EXECUTE format('CREATE TABLE reading_old PARTITION OF reading FOR VALUES FROM (MINVALUE) TO (%L)',
                       make_timestamptz(old, 1, 1, 0, 0, 0, 'UTC'));
    END IF;
    PERFORM reading_partitions();
END
$$;

-- With partitions of months, a query without bounds opens hundreds of them. So the next functions search a limited time.

-- The periods that overlap stored readings, as in step 2: only partitions between the first start and the latest stored
-- end are searched.
CREATE OR REPLACE FUNCTION reading_overlapping(device bigint, starts bigint[], ends bigint[])
    RETURNS TABLE (number bigint, type "char", start_at timestamptz, end_at timestamptz, wh bigint)
    LANGUAGE plpgsql STABLE ROWS 10 AS $$
DECLARE
    first  timestamptz := reading_time(min(s)) FROM unnest(starts) AS s;
    latest timestamptz := max(d.latest_end) FROM reading_device d
        WHERE d.device = reading_overlapping.device;
BEGIN
    IF latest > first THEN
        RETURN QUERY
            SELECT p.number, o.type, o.start_at, o.end_at, o.wh
            FROM unnest(starts, ends) WITH ORDINALITY AS p (start_ms, end_ms, number)
            CROSS JOIN LATERAL (
                SELECT b.type, b.start_at, b.end_at, b.wh FROM (
                    (SELECT r.type, r.start_at, r.end_at, r.wh FROM reading r
                     WHERE r.device = reading_overlapping.device AND r.type = 'D'
                         AND r.end_at > first AND r.end_at <= latest AND r.end_at > reading_time(p.start_ms)
                     ORDER BY r.end_at LIMIT 1)
                    UNION ALL
                    (SELECT r.type, r.start_at, r.end_at, r.wh FROM reading r
                     WHERE r.device = reading_overlapping.device AND r.type = 'H'
                         AND r.end_at > first AND r.end_at <= latest AND r.end_at > reading_time(p.start_ms)
                     ORDER BY r.end_at LIMIT 1)) b
                WHERE b.start_at < reading_time(p.end_ms)
                ORDER BY b.end_at LIMIT 1) o
            WHERE reading_time(p.start_ms) < latest;
    END IF;
END
$$;

-- The latest end of a reading of a device and type before a time; null: there is none. Searches further back only if
-- there is none in the months before.
CREATE FUNCTION reading_end_before(device bigint, type "char", until timestamptz) RETURNS timestamptz
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    back  interval;
    found timestamptz;
BEGIN
    FOREACH back IN ARRAY ARRAY['2 months', '2 years', '3000 years']::interval[] LOOP
        SELECT r.end_at INTO found FROM reading r
            WHERE r.device = reading_end_before.device AND r.type = reading_end_before.type
                AND r.end_at >= until - back AND r.end_at < until
            ORDER BY r.end_at DESC LIMIT 1;
        EXIT WHEN found IS NOT NULL;
    END LOOP;
    RETURN found;
END
$$;

-- The start of a device's first reading of either type; null: it has none. In PL/pgSQL, which keeps the plan.
CREATE OR REPLACE FUNCTION reading_first_start(device bigint) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT min(f.start_at) FROM (VALUES ('D'::"char"), ('H'::"char")) t (type)
        CROSS JOIN LATERAL (
            SELECT r.start_at FROM reading r WHERE r.device = reading_first_start.device AND r.type = t.type
            ORDER BY r.end_at LIMIT 1) f);
END
$$;

-- For Delta readings without a start, as in step 1: returns the latest stored end, of either type, before each of these
-- ends, in their order; null: there is none.
CREATE OR REPLACE FUNCTION reading_previous(device bigint, ends bigint[])
    RETURNS TABLE (previous timestamptz) LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
        SELECT (SELECT nullif(max(CASE WHEN d.latest_end < reading_time(e.ms) THEN d.latest_end
                    ELSE reading_end_before(d.device, d.type, reading_time(e.ms)) END), '0001-01-01Z')
                FROM reading_device d WHERE d.device = reading_previous.device)
        FROM unnest(ends) WITH ORDINALITY AS e (ms, number)
        ORDER BY e.number;
END
$$;

-- step 4: vacuum

-- The partitions of years and the older ones get the settings of the partitions of months (step 3).
DO $$
DECLARE
    part regclass;
BEGIN
    FOR part IN SELECT relid FROM pg_partition_tree('reading') WHERE isleaf LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_freeze_min_age = 0,'
                       ' autovacuum_vacuum_insert_scale_factor = 0.05)', part);
    END LOOP;
END
$$;

-- Each request with readings updates both rows of its device, and issuing updates one of them again. With the default,
-- a fifth of the rows would be dead before they are removed, and reading_device_fresh would grow with them.
ALTER TABLE reading_device SET (autovacuum_vacuum_scale_factor = 0.05);

-- step 5: problems of refused readings with their codes; an empty list for earlier ones
ALTER TABLE reading_refused ADD COLUMN errors jsonb NOT NULL DEFAULT '[]';
