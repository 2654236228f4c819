-- step 1: groups and their cycles, certificates and their log, readings that are voided

CREATE SEQUENCE certificate_group_id AS bigint;

CREATE TABLE certificate_group (
    id           bigint PRIMARY KEY,
    organisation bigint NOT NULL,
    name         text NOT NULL,
    frequency    text NOT NULL CHECK
        (frequency IN ('hourly', 'daily', 'weekly', 'monthly', 'quarterly', 'yearly')),
    start_at     timestamptz NOT NULL,
    end_at       timestamptz CHECK (end_at > start_at),
    carry_wh     bigint NOT NULL DEFAULT 0, -- accounted for, and not issued yet
    created_at   timestamptz NOT NULL
);
CREATE INDEX certificate_group_organisation ON certificate_group (organisation, id);

-- Locks are taken in one order: the device's readings, certificate_look and _history, certificate_due,
-- groups by their ids, members.

-- The devices of groups, and since when they are in them. A device is in one group at most.
CREATE TABLE certificate_member (
    device   bigint CONSTRAINT certificate_member_once PRIMARY KEY,
    group_id bigint NOT NULL REFERENCES certificate_group,
    since_at timestamptz NOT NULL DEFAULT '-infinity'
);
CREATE INDEX certificate_member_group ON certificate_member (group_id, device);

-- Devices whose readings must be examined, and the range of the ends of these readings: new readings,
-- and all readings of a device that has joined a group.
CREATE TABLE certificate_look (
    device   bigint PRIMARY KEY,
    first_at timestamptz NOT NULL,
    last_at  timestamptz NOT NULL
);

-- Cycles with readings that are not accounted for. They are issued once they have ended.
CREATE TABLE certificate_due (
    group_id    bigint NOT NULL REFERENCES certificate_group,
    cycle_start timestamptz NOT NULL,
    cycle_end   timestamptz NOT NULL,
    PRIMARY KEY (group_id, cycle_start)
);
CREATE INDEX certificate_due_end ON certificate_due (cycle_end);

-- The energy of a device in a cycle that is accounted for, issued or carried. Late readings are the
-- difference between the stored readings and this energy. `late_wh` is the energy that the last account
-- of the device added, and `certificate` is the certificate that this energy was for. `over_wh` is not
-- accounted for because it is above the ceiling of the device; if the device has no other energy in the
-- cycle, wh and certificate are 0.
CREATE TABLE certificate_account (
    group_id    bigint NOT NULL,
    cycle_start timestamptz NOT NULL,
    device      bigint NOT NULL,
    wh          bigint NOT NULL,
    late_wh     bigint NOT NULL,
    certificate bigint NOT NULL,
    over_wh     bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, cycle_start, device)
);
CREATE INDEX certificate_account_over ON certificate_account (device) WHERE over_wh > 0;

CREATE SEQUENCE certificate_id AS bigint;

CREATE TABLE certificate (
    id           bigint PRIMARY KEY,
    uid          uuid NOT NULL,
    organisation bigint NOT NULL,
    group_id     bigint REFERENCES certificate_group, -- null: of a History reading
    start_at     timestamptz NOT NULL,
    end_at       timestamptz NOT NULL,
    issued_wh    bigint NOT NULL,
    settled      boolean NOT NULL DEFAULT false, -- the job has updated its entries
    created_at   timestamptz NOT NULL
) WITH (fillfactor = 85);
CREATE INDEX certificate_unsettled ON certificate (id) WHERE NOT settled;

-- The certificate log. No index contains the status, so changing it does not touch the indexes.
CREATE SEQUENCE certificate_entry_id AS bigint;

CREATE TABLE certificate_entry (
    id           bigint PRIMARY KEY DEFAULT nextval('certificate_entry_id'),
    certificate  bigint NOT NULL,
    organisation bigint NOT NULL,
    group_id     bigint, -- null: of a History reading
    device       bigint NOT NULL,
    start_at     timestamptz NOT NULL,
    end_at       timestamptz NOT NULL,
    wh           bigint NOT NULL,
    status       text NOT NULL DEFAULT 'Requested'
) WITH (fillfactor = 85);
CREATE INDEX certificate_entry_certificate ON certificate_entry (certificate);
CREATE INDEX certificate_entry_organisation ON certificate_entry (organisation, start_at, id);
CREATE INDEX certificate_entry_device ON certificate_entry (device, start_at, id);
CREATE INDEX certificate_entry_start ON certificate_entry (start_at, id);

-- A History reading makes one entry, however often the job runs.
CREATE UNIQUE INDEX certificate_entry_history ON certificate_entry (device, start_at)
    WHERE group_id IS NULL;

-- The number of entries of an organisation that begin on a day (UTC); organisation 0 counts all entries.
-- Numbers of pages are computed from sums of these.
CREATE TABLE certificate_day (
    organisation bigint NOT NULL,
    day          date NOT NULL,
    entries      bigint NOT NULL,
    PRIMARY KEY (organisation, day)
) WITH (fillfactor = 70);

-- Devices whose History readings must be issued, and the range of the ends of these readings. Each chunk
-- moves the beginning of the range.
CREATE TABLE certificate_history (
    device   bigint PRIMARY KEY,
    first_at timestamptz NOT NULL,
    last_at  timestamptz NOT NULL
);

-- The number of months in a cycle; null: all cycles have the same length.
CREATE FUNCTION certificate_months(frequency text) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE frequency WHEN 'monthly' THEN 1 WHEN 'quarterly' THEN 3 WHEN 'yearly' THEN 12 END
$$;

-- The cycle of a group in which a reading that ends at a time lies, by its number from 0: start
-- exclusive, end inclusive.
CREATE FUNCTION certificate_cycle(frequency text, start_at timestamptz, at timestamptz)
    RETURNS integer LANGUAGE plpgsql IMMUTABLE SET timezone = 'UTC' AS $$
DECLARE
    months integer := certificate_months(frequency);
    number integer;
BEGIN
    IF months IS NULL THEN
        RETURN ceil(extract(epoch FROM at - start_at)
                    / extract(epoch FROM ('1 ' || CASE frequency WHEN 'hourly' THEN 'hour'
                                          WHEN 'daily' THEN 'day' ELSE 'week' END)::interval)) - 1;
    END IF;
    number := (extract(year FROM at) - extract(year FROM start_at)) * 12
              + extract(month FROM at) - extract(month FROM start_at);
    IF start_at + make_interval(months => number) >= at THEN
        number := number - 1;
    END IF;
    RETURN floor(number::numeric / months);
END
$$;

-- The beginning of a cycle; months are counted from the start, so that a group that starts on the 31st uses
-- the 31st again after a shorter month.
CREATE FUNCTION certificate_cycle_at(frequency text, start_at timestamptz, number integer)
    RETURNS timestamptz LANGUAGE sql IMMUTABLE SET timezone = 'UTC' AS $$
    SELECT start_at + number * (CASE frequency WHEN 'hourly' THEN interval '1 hour'
                                WHEN 'daily' THEN interval '1 day'
                                WHEN 'weekly' THEN interval '7 days'
                                ELSE make_interval(months => certificate_months(frequency)) END)
$$;

-- Devices that have left a group. Late readings of a cycle belong to the group in which the device was at
-- that time. Both times are ends of cycles, and the spans of a device never overlap.
CREATE TABLE certificate_former (
    device   bigint NOT NULL,
    group_id bigint NOT NULL REFERENCES certificate_group,
    since_at timestamptz NOT NULL,
    until_at timestamptz NOT NULL CHECK (until_at > since_at),
    PRIMARY KEY (device, until_at)
);
CREATE INDEX certificate_former_group ON certificate_former (group_id, device);

CREATE VIEW certificate_span AS
    SELECT device, group_id, since_at, 'infinity'::timestamptz AS until_at FROM certificate_member
    UNION ALL SELECT device, group_id, since_at, until_at FROM certificate_former;

-- The first start of a cycle that is not before a time.
CREATE FUNCTION certificate_boundary(frequency text, start_at timestamptz, at timestamptz)
    RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN at <= start_at THEN start_at ELSE certificate_cycle_at(frequency, start_at,
        certificate_cycle(frequency, start_at, at) + 1) END
$$;

-- Every change of a device's group calls this first. It blocks other such changes, the deletion of the
-- device, and the examination of its readings, which takes place afterwards.
CREATE FUNCTION certificate_hold(devices bigint[], since timestamptz) RETURNS void LANGUAGE sql AS $$
    INSERT INTO certificate_look AS l (device, first_at, last_at)
        SELECT DISTINCT d, $2, 'infinity'::timestamptz FROM unnest($1) d ORDER BY d
        ON CONFLICT (device) DO UPDATE SET first_at = least(l.first_at, excluded.first_at),
            last_at = 'infinity'
$$;

-- Organisations that may read the certificates of another organisation's group.
CREATE TABLE certificate_share (
    group_id     bigint NOT NULL REFERENCES certificate_group ON DELETE CASCADE,
    organisation bigint NOT NULL,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (group_id, organisation)
);

-- The devices in groups that have not ended. The form of the function lets the planner inline it into
-- the calling statement.
CREATE FUNCTION certificate_members() RETURNS SETOF bigint LANGUAGE sql STABLE AS $$
    SELECT m.device FROM certificate_member m JOIN certificate_group g ON g.id = m.group_id
    WHERE coalesce(g.end_at > now(), true)
$$;

CREATE INDEX certificate_entry_group ON certificate_entry (group_id, start_at, id)
    WHERE group_id > 0;

-- Adds devices to a group: for all of its cycles in which they were in no other group, or from the next cycle on. The
-- groups that the devices leave are locked, too. If two calls add the same device at the same time, one of them
-- violates the key of certificate_member. Statements after these locks see until when a device that left a group stays
-- in it.
CREATE FUNCTION certificate_join(group_id bigint, devices bigint[], past boolean) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    g certificate_group;
BEGIN
    PERFORM certificate_hold(devices, CASE WHEN past THEN '-infinity' ELSE clock_timestamp() END);
    PERFORM busbar_require(coalesce(device_status(d), '') = 'Active', 409,
        'Conflict: device ' || d || ' is Inactive, or was deleted') FROM unnest(devices) d;
    PERFORM FROM certificate_group c WHERE c.id = certificate_join.group_id
        OR c.id = ANY (ARRAY(SELECT m.group_id FROM certificate_member m WHERE m.device = ANY (devices)))
        ORDER BY c.id FOR UPDATE;
    SELECT * INTO g FROM certificate_group c WHERE c.id = certificate_join.group_id;
    PERFORM busbar_require(g.id IS NOT NULL, 404, 'Device group not found');
    WITH ended AS (DELETE FROM certificate_member m USING certificate_group e
        WHERE m.device = ANY (devices) AND e.id = m.group_id AND e.end_at <= clock_timestamp()
        RETURNING m.device, m.group_id, m.since_at, e.end_at)
    INSERT INTO certificate_former SELECT * FROM ended WHERE ended.since_at < ended.end_at;
    INSERT INTO certificate_member (device, group_id)
        SELECT d, g.id FROM unnest(devices) d ORDER BY d;
    UPDATE certificate_member m SET since_at = certificate_boundary(g.frequency, g.start_at,
            greatest(f.until_at, CASE WHEN NOT past THEN clock_timestamp() END))
        FROM unnest(devices) d CROSS JOIN LATERAL
            (SELECT max(c.until_at) AS until_at FROM certificate_former c WHERE c.device = d) f
        WHERE m.device = d AND (NOT past OR f.until_at IS NOT NULL);
    PERFORM busbar_require(g.end_at IS NULL OR max(m.since_at) < g.end_at, 409,
            'Conflict: the group ends before its next cycle'),
        busbar_require(count(*) <= 10000, 409, 'Conflict: a group has up to 10,000 devices')
        FROM certificate_member m WHERE m.group_id = g.id;
END
$$;

-- Removes a device from a group (null: from the group in which it is) at the end of the current cycle.
-- Returns whether the device was in the group.
CREATE FUNCTION certificate_leave(device bigint, group_id bigint) RETURNS boolean
    LANGUAGE plpgsql AS $$
DECLARE
    m record;
BEGIN
    PERFORM certificate_hold(ARRAY[device], clock_timestamp());
    PERFORM FROM certificate_group c WHERE c.id = (SELECT o.group_id FROM certificate_member o
        WHERE o.device = certificate_leave.device) FOR KEY SHARE;
    DELETE FROM certificate_member c USING certificate_group g
        WHERE c.device = certificate_leave.device AND g.id = c.group_id
            AND c.group_id = coalesce(certificate_leave.group_id, c.group_id)
        RETURNING c.device, c.group_id, c.since_at, g.start_at, least(certificate_boundary(
            g.frequency, g.start_at, clock_timestamp()), g.end_at) AS until_at INTO m;
    IF m.device IS NULL THEN
        RETURN false;
    END IF;
    IF greatest(m.since_at, m.start_at) < m.until_at THEN
        INSERT INTO certificate_former VALUES (m.device, m.group_id, m.since_at, m.until_at);
    END IF;
    RETURN true;
END
$$;

-- Most entries have succeeded. These indexes find the few other entries without reading those that succeeded.
CREATE INDEX certificate_entry_status ON certificate_entry (status, start_at, id)
    WHERE status <> 'Succeeded';
CREATE INDEX certificate_entry_organisation_status
    ON certificate_entry (organisation, status, start_at, id) WHERE status <> 'Succeeded';
CREATE INDEX certificate_entry_group_status ON certificate_entry (group_id, status, start_at, id)
    WHERE status <> 'Succeeded' AND group_id > 0;

-- The maximum length of a Delta reading of a group: its longest cycle and an hour for clock changes.
CREATE FUNCTION certificate_longest(frequency text) RETURNS interval LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE frequency WHEN 'hourly' THEN interval '1 hour' WHEN 'daily' THEN interval '1 day'
               WHEN 'weekly' THEN interval '7 days' WHEN 'monthly' THEN interval '31 days'
               WHEN 'quarterly' THEN interval '92 days' ELSE interval '366 days' END
           + interval '1 hour'
$$;

-- Whether a group certifies a Delta reading of a device that ends in one of its cycles: the reading began
-- neither before the group nor before the device was in it, and is not longer than a cycle.
CREATE FUNCTION certificate_counts(group_id bigint, device bigint, start_at timestamptz,
                                   end_at timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM certificate_span s JOIN certificate_group g ON g.id = s.group_id
        WHERE s.device = $2 AND s.group_id = $1 AND $4 > s.since_at AND $4 <= s.until_at
            AND $3 >= greatest(s.since_at, g.start_at)
            AND $4 - $3 <= certificate_longest(g.frequency))
$$;

-- Takes back the energy of a reading that was voided earlier in the same transaction. Returns whether a
-- certificate has used it. The entry of a History reading becomes Cancelled and leaves its unique key to
-- the corrected reading (group 0 does not exist). The cycle of a Delta reading becomes due and is accounted
-- for again; its row in certificate_due is written first, which waits for a run that is issuing the cycle.
-- Only readings that the group certifies count.
CREATE FUNCTION certificate_void(device bigint, type "char", start_at timestamptz,
                                 end_at timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    g record;
BEGIN
    IF type = 'H' THEN
        INSERT INTO certificate_history AS h (device, first_at, last_at)
            VALUES (certificate_void.device, certificate_void.end_at, certificate_void.end_at)
            ON CONFLICT ON CONSTRAINT certificate_history_pkey DO UPDATE
            SET first_at = least(h.first_at, excluded.first_at),
                last_at = greatest(h.last_at, excluded.last_at);
        UPDATE certificate_entry e SET status = 'Cancelled', group_id = 0
            WHERE e.device = certificate_void.device AND e.start_at = certificate_void.start_at
                AND e.group_id IS NULL;
        RETURN FOUND;
    END IF;
    SELECT c.id, n.start_at, least(certificate_cycle_at(c.frequency, c.start_at, n.cycle + 1),
                                   c.end_at) AS end_at INTO g
        FROM certificate_span s JOIN certificate_group c ON c.id = s.group_id
        CROSS JOIN LATERAL (SELECT certificate_cycle(c.frequency, c.start_at,
                                                     certificate_void.end_at) AS cycle) k
        CROSS JOIN LATERAL (SELECT k.cycle, certificate_cycle_at(c.frequency, c.start_at, k.cycle)
                            AS start_at) n
        WHERE s.device = certificate_void.device
            AND certificate_void.end_at > greatest(s.since_at, c.start_at)
            AND certificate_void.end_at <= least(s.until_at, c.end_at);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    BEGIN
        INSERT INTO certificate_due AS d VALUES (g.id, g.start_at, g.end_at)
            ON CONFLICT ON CONSTRAINT certificate_due_pkey
            DO UPDATE SET cycle_end = excluded.cycle_end;
    EXCEPTION WHEN foreign_key_violation THEN
        RETURN false; -- the group was deleted meanwhile, so it had no energy accounted for
    END;
    RETURN EXISTS (SELECT FROM certificate_account a WHERE a.group_id = g.id
        AND a.cycle_start = g.start_at AND a.device = certificate_void.device
        AND (a.wh > (SELECT coalesce(sum(r.wh), 0)
                FROM reading_delta_periods(ARRAY[a.device], g.start_at, g.end_at) r
                WHERE certificate_counts(g.id, a.device, r.start_at, r.end_at))
            -- it is unknown which readings were certified
            OR (a.wh > 0 AND a.over_wh > 0 AND certificate_counts(g.id, a.device,
                certificate_void.start_at, certificate_void.end_at))));
END
$$;

-- Makes the cycles due again in which the device has energy above its ceiling, because the ceiling may
-- have changed.
CREATE FUNCTION certificate_recheck(device bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO certificate_due AS d (group_id, cycle_start, cycle_end)
        SELECT a.group_id, a.cycle_start, least(certificate_cycle_at(g.frequency, g.start_at,
                certificate_cycle(g.frequency, g.start_at, a.cycle_start) + 2), g.end_at)
            FROM certificate_account a JOIN certificate_group g ON g.id = a.group_id
            WHERE a.device = $1 AND a.over_wh > 0 ORDER BY 1, 2
        ON CONFLICT (group_id, cycle_start) DO UPDATE SET cycle_end = excluded.cycle_end
$$;

-- Deletes the rows of a device, unless energy of it was certified or accounted for. Returns whether it deleted them.
-- The locks block accounting and issuing. All groups that the device was ever in are updated, so that a run that issues
-- with an older snapshot of them gets a conflict and starts again. Rows that only have energy above the ceiling are
-- deleted.
CREATE FUNCTION certificate_forget(device bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM certificate_hold(ARRAY[device], clock_timestamp());
    PERFORM FROM certificate_group g WHERE g.id = ANY (ARRAY(
        SELECT s.group_id FROM certificate_span s WHERE s.device = certificate_forget.device))
        ORDER BY g.id FOR NO KEY UPDATE;
    UPDATE certificate_group g SET name = g.name WHERE g.id = ANY (ARRAY(
        SELECT s.group_id FROM certificate_span s WHERE s.device = certificate_forget.device));
    DELETE FROM certificate_look l WHERE l.device = certificate_forget.device;
    DELETE FROM certificate_history h WHERE h.device = certificate_forget.device;
    IF EXISTS (SELECT FROM certificate_entry e WHERE e.device = certificate_forget.device)
        OR EXISTS (SELECT FROM certificate_account a JOIN certificate_span s
            ON s.group_id = a.group_id AND s.device = a.device
            WHERE s.device = certificate_forget.device AND a.certificate <> 0) THEN
        RETURN false;
    END IF;
    DELETE FROM certificate_account a WHERE a.device = certificate_forget.device
        AND a.over_wh > 0 AND a.certificate = 0;
    DELETE FROM certificate_member m WHERE m.device = certificate_forget.device;
    DELETE FROM certificate_former m WHERE m.device = certificate_forget.device;
    RETURN true;
END
$$;

-- Deletes a group, unless energy of it was accounted for. Returns whether it deleted the group.
CREATE FUNCTION certificate_group_forget(group_id bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM certificate_due d WHERE d.group_id = certificate_group_forget.group_id;
    PERFORM FROM certificate_group g WHERE g.id = certificate_group_forget.group_id FOR UPDATE;
    IF EXISTS (SELECT FROM certificate_account a
               WHERE a.group_id = certificate_group_forget.group_id AND a.certificate <> 0) THEN
        RETURN false;
    END IF;
    DELETE FROM certificate_account a WHERE a.group_id = certificate_group_forget.group_id;
    DELETE FROM certificate_due d WHERE d.group_id = certificate_group_forget.group_id;
    DELETE FROM certificate_member m WHERE m.group_id = certificate_group_forget.group_id;
    DELETE FROM certificate_former m WHERE m.group_id = certificate_group_forget.group_id;
    DELETE FROM certificate_group g WHERE g.id = certificate_group_forget.group_id;
    RETURN true;
END
$$;

-- The readings of a device that overlap a period, and the outcome of each. `entries` has the certified and
-- carried energy of the cycle, or of the History reading: a list of certificateTransactionUID, status and
-- readvalue_watthour.
CREATE FUNCTION certificate_judge(device bigint, first timestamptz, last timestamptz, threshold bigint)
    RETURNS TABLE (type "char", start_at timestamptz, end_at timestamptz, wh bigint, group_id bigint,
                   cycle_start timestamptz, cycle_end timestamptz, reason text, entries jsonb)
    LANGUAGE sql STABLE AS $$
    WITH spans AS MATERIALIZED (
        SELECT g.id, g.frequency, g.start_at, greatest(s.since_at, g.start_at) AS since_at,
               least(s.until_at, g.end_at) AS until_at, g.end_at AS stop_at
            FROM certificate_span s JOIN certificate_group g ON g.id = s.group_id WHERE s.device = $1),
    r AS MATERIALIZED (
        SELECT b.*, s.id, s.frequency, s.start_at AS begin_at, s.since_at, s.stop_at, CASE
                WHEN b.type = 'D' THEN certificate_cycle(s.frequency, s.start_at, b.end_at) END AS number
            FROM reading_between($1, $2, $3) b LEFT JOIN spans s
                ON b.type = 'D' AND b.end_at > s.since_at AND b.end_at <= s.until_at),
    c AS MATERIALIZED (
        SELECT n.*, d.group_id IS NOT NULL AS due, a.wh AS accounted, a.over_wh, e.entries FROM (
                SELECT k.id, k.number,
                       certificate_cycle_at(k.frequency, k.begin_at, k.number) AS cycle_start,
                       least(certificate_cycle_at(k.frequency, k.begin_at, k.number + 1), k.stop_at)
                           AS cycle_end
                    FROM (SELECT DISTINCT id, number, frequency, begin_at, stop_at FROM r
                          WHERE id IS NOT NULL) k) n
            LEFT JOIN certificate_due d ON d.group_id = n.id AND d.cycle_start = n.cycle_start
            LEFT JOIN certificate_account a ON a.group_id = n.id AND a.cycle_start = n.cycle_start
                AND a.device = $1
            LEFT JOIN LATERAL (SELECT jsonb_agg(jsonb_build_object('certificateTransactionUID', u.uid,
                    'status', e.status, 'readvalue_watthour', e.wh) ORDER BY e.id) AS entries
                FROM certificate_entry e JOIN certificate u ON u.id = e.certificate
                WHERE e.device = $1 AND e.start_at = n.cycle_start AND e.group_id = n.id) e ON true)
    SELECT r.type, r.start_at, r.end_at, r.wh, c.id, c.cycle_start, c.cycle_end, CASE
            WHEN r.type = 'H' AND r.wh < $4 THEN 'belowThreshold'
            WHEN r.type = 'H' AND h.entries IS NULL THEN 'notIssuedYet'
            WHEN r.type = 'H' THEN 'certified'
            WHEN c.id IS NULL AND EXISTS (SELECT FROM spans s WHERE s.since_at >= r.end_at)
                THEN 'beforeGroup'
            WHEN c.id IS NULL THEN 'inNoGroup'
            WHEN r.start_at < r.since_at THEN 'beforeGroup'
            WHEN r.end_at - r.start_at > certificate_longest(r.frequency) THEN 'longerThanCycle'
            WHEN c.cycle_end > now() THEN 'cycleNotEnded'
            WHEN r.wh = 0 THEN 'belowThreshold'
            WHEN c.due OR c.accounted IS NULL THEN 'notIssuedYet'
            WHEN c.over_wh > 0 THEN 'aboveCeiling'
            WHEN c.entries @> '[{"status": "Carried"}]' AND NOT EXISTS (
                SELECT FROM jsonb_array_elements(c.entries) x WHERE x ->> 'status' <> 'Carried')
                THEN 'carried'
            ELSE 'certified' END,
           coalesce(CASE WHEN r.type = 'H' THEN h.entries ELSE c.entries END, '[]')
        FROM r LEFT JOIN c ON c.id = r.id AND c.number = r.number
        LEFT JOIN LATERAL (SELECT jsonb_agg(jsonb_build_object('certificateTransactionUID', u.uid,
                'status', e.status, 'readvalue_watthour', e.wh)) AS entries
            FROM certificate_entry e JOIN certificate u ON u.id = e.certificate
            WHERE r.type = 'H' AND e.device = $1 AND e.start_at = r.start_at AND e.group_id IS NULL) h
            ON true
        ORDER BY r.end_at
$$;

-- Renames a group and sets its end, unless a cycle that has ended would change. Null changes nothing, and
-- infinity means no end. A cycle that becomes shorter is issued after its new end.
CREATE FUNCTION certificate_change(group_id bigint, new_name text, at timestamptz)
    RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    g certificate_group;
    running timestamptz;
BEGIN
    UPDATE certificate_due d SET cycle_end = least(d.cycle_end, at)
        WHERE at IS NOT NULL AND d.group_id = certificate_change.group_id AND d.cycle_start < at;
    UPDATE certificate_group c SET name = coalesce(new_name, c.name)
        WHERE c.id = certificate_change.group_id RETURNING * INTO g;
    PERFORM busbar_require(g.id IS NOT NULL, 404, 'Device group not found');
    IF at IS NULL OR at = coalesce(g.end_at, 'infinity') THEN
        RETURN;
    END IF;
    PERFORM busbar_require(g.end_at IS NULL OR g.end_at > clock_timestamp(), 409,
        'Conflict: the group has ended');
    running := CASE WHEN g.start_at >= clock_timestamp() THEN g.start_at
        ELSE certificate_cycle_at(g.frequency, g.start_at,
                certificate_cycle(g.frequency, g.start_at, clock_timestamp())) END;
    PERFORM busbar_require(at > running, 409,
        'Conflict: cycles that have ended stay as they are: end must be later than '
        || to_char(running AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'));
    UPDATE certificate_group c SET end_at = nullif(at, 'infinity') WHERE c.id = g.id;
    UPDATE certificate_due d SET cycle_end = least(certificate_cycle_at(g.frequency, g.start_at,
            certificate_cycle(g.frequency, g.start_at, d.cycle_start) + 2), at)
        WHERE d.group_id = g.id AND d.cycle_start < at AND d.cycle_end > running;
    DELETE FROM certificate_due d WHERE d.group_id = g.id AND d.cycle_start >= at;
END
$$;

-- step 2: devices are changed while their cycles are issued

-- Devices whose ceiling may have changed. A run that is issuing a cycle at that time may have read the
-- device before the change and commit its account after it, so the job examines the accounts later.
CREATE TABLE certificate_changed (
    device bigint PRIMARY KEY
);

-- As in step 1, after waiting for runs that are issuing cycles of the device. Rows are locked in the same
-- order as by these runs.
CREATE OR REPLACE FUNCTION certificate_recheck(device bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM certificate_changed c WHERE c.device = certificate_recheck.device;
    PERFORM FROM certificate_due d WHERE (d.group_id, d.cycle_start) IN (
            SELECT a.group_id, a.cycle_start FROM certificate_account a
            WHERE a.device = certificate_recheck.device AND a.over_wh > 0)
        ORDER BY d.group_id, d.cycle_start FOR UPDATE;
    PERFORM FROM certificate_group g WHERE g.id = ANY (ARRAY(
            SELECT s.group_id FROM certificate_span s WHERE s.device = certificate_recheck.device))
        ORDER BY g.id FOR NO KEY UPDATE;
    INSERT INTO certificate_due AS d (group_id, cycle_start, cycle_end)
        SELECT a.group_id, a.cycle_start, least(certificate_cycle_at(g.frequency, g.start_at,
                certificate_cycle(g.frequency, g.start_at, a.cycle_start) + 2), g.end_at)
            FROM certificate_account a JOIN certificate_group g ON g.id = a.group_id
            WHERE a.device = certificate_recheck.device AND a.over_wh > 0 ORDER BY 1, 2
        ON CONFLICT (group_id, cycle_start) DO UPDATE SET cycle_end = excluded.cycle_end;
END
$$;

-- step 3: certificates are finalized without a mark

ALTER TABLE certificate DROP COLUMN settled; -- and its index
ALTER TABLE certificate_group RENAME CONSTRAINT certificate_group_check TO certificate_group_end;

-- step 4: no certificate has used carried energy

-- As in step 1, but a reading is not used while all energy of its device and cycle is carried. The lock of the group
-- waits for a run that is issuing another cycle, because that run may take the carried energy.
CREATE OR REPLACE FUNCTION certificate_void(device bigint, type "char", start_at timestamptz,
                                            end_at timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    g record;
BEGIN
    IF type = 'H' THEN
        INSERT INTO certificate_history AS h (device, first_at, last_at)
            VALUES (certificate_void.device, certificate_void.end_at, certificate_void.end_at)
            ON CONFLICT ON CONSTRAINT certificate_history_pkey DO UPDATE
            SET first_at = least(h.first_at, excluded.first_at),
                last_at = greatest(h.last_at, excluded.last_at);
        UPDATE certificate_entry e SET status = 'Cancelled', group_id = 0
            WHERE e.device = certificate_void.device AND e.start_at = certificate_void.start_at
                AND e.group_id IS NULL;
        RETURN FOUND;
    END IF;
    SELECT c.id, n.start_at, least(certificate_cycle_at(c.frequency, c.start_at, n.cycle + 1),
                                   c.end_at) AS end_at INTO g
        FROM certificate_span s JOIN certificate_group c ON c.id = s.group_id
        CROSS JOIN LATERAL (SELECT certificate_cycle(c.frequency, c.start_at,
                                                     certificate_void.end_at) AS cycle) k
        CROSS JOIN LATERAL (SELECT k.cycle, certificate_cycle_at(c.frequency, c.start_at, k.cycle)
                            AS start_at) n
        WHERE s.device = certificate_void.device
            AND certificate_void.end_at > greatest(s.since_at, c.start_at)
            AND certificate_void.end_at <= least(s.until_at, c.end_at);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    BEGIN
        INSERT INTO certificate_due AS d VALUES (g.id, g.start_at, g.end_at)
            ON CONFLICT ON CONSTRAINT certificate_due_pkey
            DO UPDATE SET cycle_end = excluded.cycle_end;
    EXCEPTION WHEN foreign_key_violation THEN
        RETURN false; -- the group was deleted meanwhile, so it had no energy accounted for
    END;
    PERFORM FROM certificate_group c WHERE c.id = g.id FOR KEY SHARE;
    RETURN EXISTS (SELECT FROM certificate_entry e WHERE e.device = certificate_void.device
            AND e.start_at = g.start_at AND e.group_id = g.id AND e.status <> 'Carried')
        AND EXISTS (SELECT FROM certificate_account a WHERE a.group_id = g.id
            AND a.cycle_start = g.start_at AND a.device = certificate_void.device
            AND (a.wh > (SELECT coalesce(sum(r.wh), 0)
                    FROM reading_delta_periods(ARRAY[a.device], g.start_at, g.end_at) r
                    WHERE certificate_counts(g.id, a.device, r.start_at, r.end_at))
                -- it is unknown which readings were certified
                OR (a.wh > 0 AND a.over_wh > 0 AND certificate_counts(g.id, a.device,
                    certificate_void.start_at, certificate_void.end_at))));
END
$$;
