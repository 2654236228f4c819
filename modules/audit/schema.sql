-- step 1: requests with their outcomes, append-only, in partitions of a month

-- An id contains its day: days since 1970 (UTC) times 2^32, plus a number. So ranges of ids are ranges of days, partitions
-- need no second key column, and JavaScript represents an id exactly.
CREATE SEQUENCE audit_number AS bigint MINVALUE 0 MAXVALUE 4294967295 CYCLE CACHE 1;

CREATE FUNCTION audit_day_floor(day date) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (day - DATE '1970-01-01')::bigint << 32;

-- A row is written before the request is handled. account: null without a token; email is then not verified.
CREATE TABLE audit_request (
    id           bigint PRIMARY KEY,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    account      bigint,
    email        text,
    organization bigint,         -- for which the account acted
    address      text NOT NULL,  -- of the client
    method       text NOT NULL,
    route        text NOT NULL,  -- with :names
    path         text NOT NULL,  -- with decoded segments, up to 2,048 bytes
    request      text NOT NULL,  -- X-Request-Id
    fields       jsonb NOT NULL  -- of the body
) PARTITION BY RANGE (id);

-- The status of the response. Without a row, the outcome of the request is unknown.
CREATE TABLE audit_outcome (
    id     bigint PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    status smallint NOT NULL
) PARTITION BY RANGE (id);

CREATE FUNCTION audit_refuse_change() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

-- Partitions inherit the triggers for rows. Triggers for statements have to be created on each.
CREATE TRIGGER audit_keep BEFORE UPDATE OR DELETE ON audit_request FOR EACH ROW EXECUTE FUNCTION audit_refuse_change();
CREATE TRIGGER audit_keep BEFORE UPDATE OR DELETE ON audit_outcome FOR EACH ROW EXECUTE FUNCTION audit_refuse_change();
CREATE TRIGGER audit_whole BEFORE TRUNCATE ON audit_request EXECUTE FUNCTION audit_refuse_change();
CREATE TRIGGER audit_whole BEFORE TRUNCATE ON audit_outcome EXECUTE FUNCTION audit_refuse_change();

-- Creates the partitions of the month in which the day is, if they do not exist.
CREATE FUNCTION audit_partition_make(day date) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    first date := date_trunc('month', day);
    after date := first + interval '1 month';
    parent text;
    name text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['audit_request', 'audit_outcome'] LOOP
        name := parent || to_char(first, '_YYYYMM');
        IF to_regclass(name) IS NULL THEN
            PERFORM pg_advisory_xact_lock(hashtextextended('audit_partition_make', 0));
            IF to_regclass(name) IS NULL THEN
                EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%s) TO (%s)', name, parent,
                               audit_day_floor(first), audit_day_floor(after));
                EXECUTE format('CREATE TRIGGER audit_whole BEFORE TRUNCATE ON %I '
                               'EXECUTE FUNCTION audit_refuse_change()', name);
            END IF;
        END IF;
    END LOOP;
END
$$;

-- Creates the partitions of this month and the next two, and drops the partitions of months that ended more than `days`
-- days ago.
CREATE FUNCTION audit_partitions(days integer) RETURNS void
    LANGUAGE plpgsql SET lock_timeout = '2s' AS $$
DECLARE
    today date := now() AT TIME ZONE 'UTC';
    name text;
BEGIN
    PERFORM audit_partition_make((today + n * interval '1 month')::date) FROM generate_series(0, 2) n;
    FOR name IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent IN ('audit_request'::regclass, 'audit_outcome'::regclass)
        AND to_date(right(c.relname, 6), 'YYYYMM') + interval '1 month' <= today - days ORDER BY c.relname
    LOOP
        EXECUTE format('DROP TABLE %I', name);
    END LOOP;
END
$$;

DO $$
BEGIN
    PERFORM audit_partitions(400);
END
$$;

-- Writes a request and returns its id. The job audit.partitions creates partitions in advance; if it could not run for
-- months, they are created here.
CREATE FUNCTION audit_write(account bigint, email text, organization bigint, address text, method text, route text,
                            path text, request text, fields jsonb) RETURNS bigint
    LANGUAGE plpgsql AS $$
DECLARE
    day date := now() AT TIME ZONE 'UTC';
    number bigint := audit_day_floor(day) + nextval('audit_number');
BEGIN
    IF to_regclass('audit_outcome' || to_char(day, '_YYYYMM')) IS NULL THEN
        PERFORM audit_partition_make(day);
    END IF;
    INSERT INTO audit_request (id, account, email, organization, address, method, route, path, request, fields)
        VALUES (number, account, email, organization, address, method, route, path, request, fields);
    RETURN number;
END
$$;

-- Returns records with an id below `before`, newest first. `filter` has members of the query of GET
-- /api/admin/audit-log. at: milliseconds since 1970. The constant limit makes the planner read records by id instead of
-- sorting them; OFFSET 0 makes it look up the outcome of each.
CREATE FUNCTION audit_search(before bigint, filter jsonb, most bigint)
    RETURNS TABLE (id bigint, at bigint, account bigint, email text, organization bigint, address text, action text,
                   path text, request text, status smallint, fields jsonb)
    LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    since timestamptz := filter ->> 'since';
    until timestamptz := filter ->> 'until';
    caller text := lower(filter ->> 'account');
    part text := lower(filter ->> 'action');
    target text := lower(filter ->> 'target');
    outcome text := filter ->> 'status';
    first bigint := coalesce(audit_day_floor((since AT TIME ZONE 'UTC')::date - 1), 0);
    after bigint := least(before, audit_day_floor((until AT TIME ZONE 'UTC')::date + 2));
BEGIN
    RETURN QUERY SELECT p.* FROM (
        SELECT r.id, floor(extract(epoch FROM r.at) * 1000)::bigint, r.account, r.email, r.organization, r.address,
            r.method || ' ' || r.route, r.path, r.request, o.status, r.fields
        FROM audit_request r
        LEFT JOIN LATERAL (SELECT q.status FROM audit_outcome q WHERE q.id = r.id OFFSET 0) o ON true
        WHERE r.id < after AND r.id >= first
        AND (since IS NULL OR r.at >= since)
        AND (until IS NULL OR r.at < until)
        AND (caller IS NULL OR caller IN (r.email, r.account::text))
        AND (part IS NULL OR position(part IN lower(r.method || ' ' || r.route)) > 0)
        AND (target IS NULL OR position(target IN lower(r.path || r.fields::text)) > 0)
        AND (outcome IS NULL OR outcome = CASE WHEN o.status < 400 THEN 'succeeded' WHEN o.status < 500 THEN 'refused'
            WHEN o.status >= 500 THEN 'failed' ELSE 'unknown' END)
        ORDER BY r.id DESC LIMIT 501) p LIMIT most;
END
$$;

-- step 2: the search for an organization

CREATE OR REPLACE FUNCTION audit_search(before bigint, filter jsonb, most bigint)
    RETURNS TABLE (id bigint, at bigint, account bigint, email text, organization bigint, address text, action text,
                   path text, request text, status smallint, fields jsonb)
    LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    since timestamptz := filter ->> 'since';
    until timestamptz := filter ->> 'until';
    caller text := lower(filter ->> 'account');
    part text := lower(filter ->> 'action');
    target text := lower(filter ->> 'target');
    outcome text := filter ->> 'status';
    wanted bigint := filter ->> 'organizationId';
    first bigint := coalesce(audit_day_floor((since AT TIME ZONE 'UTC')::date - 1), 0);
    after bigint := least(before, audit_day_floor((until AT TIME ZONE 'UTC')::date + 2));
BEGIN
    RETURN QUERY SELECT p.* FROM (
        SELECT r.id, floor(extract(epoch FROM r.at) * 1000)::bigint, r.account, r.email, r.organization, r.address,
            r.method || ' ' || r.route, r.path, r.request, o.status, r.fields
        FROM audit_request r
        LEFT JOIN LATERAL (SELECT q.status FROM audit_outcome q WHERE q.id = r.id OFFSET 0) o ON true
        WHERE r.id < after AND r.id >= first
        AND (since IS NULL OR r.at >= since)
        AND (until IS NULL OR r.at < until)
        AND (wanted IS NULL OR r.organization = wanted)
        AND (caller IS NULL OR caller IN (r.email, r.account::text))
        AND (part IS NULL OR position(part IN lower(r.method || ' ' || r.route)) > 0)
        AND (target IS NULL OR position(target IN lower(r.path || r.fields::text)) > 0)
        AND (outcome IS NULL OR outcome = CASE WHEN o.status < 400 THEN 'succeeded' WHEN o.status < 500 THEN 'refused'
            WHEN o.status >= 500 THEN 'failed' ELSE 'unknown' END)
        ORDER BY r.id DESC LIMIT 501) p LIMIT most;
END
$$;
