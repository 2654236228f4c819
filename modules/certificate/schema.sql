-- step 1: groups and their cycles, certificates and the log

CREATE SEQUENCE certificate_group_id AS bigint;
CREATE TABLE certificate_group (
    id           bigint PRIMARY KEY,
    organisation bigint NOT NULL,
    name         text NOT NULL,
    frequency    text NOT NULL CHECK (frequency IN ('hourly', 'daily', 'weekly', 'monthly')),
    start_at     timestamptz NOT NULL,
    end_at       timestamptz CHECK (end_at > start_at),
    carry_wh     bigint NOT NULL DEFAULT 0, -- accounted for, and not issued yet
    created_at   timestamptz NOT NULL
);
CREATE INDEX certificate_group_organisation ON certificate_group (organisation, id);

-- A device is in one group at most.
CREATE TABLE certificate_member (
    device   bigint CONSTRAINT certificate_member_once PRIMARY KEY,
    group_id bigint NOT NULL REFERENCES certificate_group
);
CREATE INDEX certificate_member_group ON certificate_member (group_id, device);

-- Devices whose readings are to be looked through, and where the ends of these lie: what is fresh,
-- and all of a device that has joined a group.
CREATE TABLE certificate_look (
    device   bigint PRIMARY KEY,
    first_at timestamptz NOT NULL,
    last_at  timestamptz NOT NULL
);

-- The cycle of a group in which a reading that ends at a time lies, by its number from 0: start
-- exclusive, end inclusive.
CREATE FUNCTION certificate_cycle(frequency text, start_at timestamptz, at timestamptz)
    RETURNS integer LANGUAGE plpgsql IMMUTABLE SET timezone = 'UTC' AS $$
DECLARE
    number integer;
BEGIN
    IF frequency <> 'monthly' THEN
        RETURN ceil(extract(epoch FROM at - start_at)
                    / extract(epoch FROM ('1 ' || CASE frequency WHEN 'hourly' THEN 'hour'
                                          WHEN 'daily' THEN 'day' ELSE 'week' END)::interval)) - 1;
    END IF;
    number := (extract(year FROM at) - extract(year FROM start_at)) * 12
              + extract(month FROM at) - extract(month FROM start_at);
    IF start_at + make_interval(months => number) >= at THEN
        RETURN number - 1;
    END IF;
    RETURN number;
END
$$;

-- When a cycle begins; months are counted from the start, so that the 31st comes back.
CREATE FUNCTION certificate_cycle_at(frequency text, start_at timestamptz, number integer)
    RETURNS timestamptz LANGUAGE sql IMMUTABLE SET timezone = 'UTC' AS $$
    SELECT start_at + number * (CASE frequency WHEN 'hourly' THEN interval '1 hour'
                                WHEN 'daily' THEN interval '1 day'
                                WHEN 'weekly' THEN interval '7 days'
                                ELSE interval '1 month' END)
$$;

-- Cycles with readings that are not accounted for. They are looked at once they have ended.
CREATE TABLE certificate_due (
    group_id    bigint NOT NULL REFERENCES certificate_group,
    cycle_start timestamptz NOT NULL,
    cycle_end   timestamptz NOT NULL,
    PRIMARY KEY (group_id, cycle_start)
);
CREATE INDEX certificate_due_end ON certificate_due (cycle_end);

-- What is accounted for of a device in a cycle, issued or carried. A reading that comes late shows
-- as the difference to what is stored. `late_wh` is what the last account of the device added, and
-- `certificate` the one that it was meant for.
CREATE TABLE certificate_account (
    group_id    bigint NOT NULL,
    cycle_start timestamptz NOT NULL,
    device      bigint NOT NULL,
    wh          bigint NOT NULL,
    late_wh     bigint NOT NULL,
    certificate bigint NOT NULL,
    PRIMARY KEY (group_id, cycle_start, device)
);

CREATE SEQUENCE certificate_id AS bigint;
CREATE TABLE certificate (
    id           bigint PRIMARY KEY,
    uid          uuid NOT NULL,
    organisation bigint NOT NULL,
    group_id     bigint REFERENCES certificate_group, -- null: of a History reading
    start_at     timestamptz NOT NULL,
    end_at       timestamptz NOT NULL,
    issued_wh    bigint NOT NULL,
    settled      boolean NOT NULL DEFAULT false, -- the job has moved its entries on
    created_at   timestamptz NOT NULL
) WITH (fillfactor = 85);
CREATE INDEX certificate_unsettled ON certificate (id) WHERE NOT settled;

-- The certificate log. No index has the status, so that a change of it stays on its page.
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

-- How many entries of an organisation begin on a day (UTC); organisation 0: of all. Counts of pages
-- are sums of these.
CREATE TABLE certificate_day (
    organisation bigint NOT NULL,
    day          date NOT NULL,
    entries      bigint NOT NULL,
    PRIMARY KEY (organisation, day)
) WITH (fillfactor = 70);

-- step 2: History readings are issued in chunks

-- Devices whose History readings are to be issued, and where the ends of these lie. A chunk moves
-- the first one on.
CREATE TABLE certificate_history (
    device   bigint PRIMARY KEY,
    first_at timestamptz NOT NULL,
    last_at  timestamptz NOT NULL
);

-- step 3: cycles of three months and of a year

ALTER TABLE certificate_group DROP CONSTRAINT certificate_group_frequency_check;
ALTER TABLE certificate_group ADD CONSTRAINT certificate_group_frequency_check CHECK
    (frequency IN ('hourly', 'daily', 'weekly', 'monthly', 'quarterly', 'yearly'));

-- How many months a cycle has; null: it has an even length.
CREATE FUNCTION certificate_months(frequency text) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE frequency WHEN 'monthly' THEN 1 WHEN 'quarterly' THEN 3 WHEN 'yearly' THEN 12 END
$$;

CREATE OR REPLACE FUNCTION certificate_cycle(frequency text, start_at timestamptz, at timestamptz)
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

CREATE OR REPLACE FUNCTION certificate_cycle_at(frequency text, start_at timestamptz,
                                                number integer)
    RETURNS timestamptz LANGUAGE sql IMMUTABLE SET timezone = 'UTC' AS $$
    SELECT start_at + number * (CASE frequency WHEN 'hourly' THEN interval '1 hour'
                                WHEN 'daily' THEN interval '1 day'
                                WHEN 'weekly' THEN interval '7 days'
                                ELSE make_interval(months => certificate_months(frequency)) END)
$$;

-- step 4: devices are deleted

-- Forgets a device, unless something of it was certified or accounted for: whether it did. The locks
-- keep those out who account for it and who issue.
CREATE FUNCTION certificate_forget(device bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM certificate_group g JOIN certificate_member m ON m.group_id = g.id
        WHERE m.device = certificate_forget.device FOR UPDATE OF g;
    DELETE FROM certificate_look l WHERE l.device = certificate_forget.device;
    DELETE FROM certificate_history h WHERE h.device = certificate_forget.device;
    IF EXISTS (SELECT FROM certificate_entry e WHERE e.device = certificate_forget.device)
        OR EXISTS (SELECT FROM certificate_account a JOIN certificate_member m
            ON m.group_id = a.group_id AND m.device = a.device
            WHERE m.device = certificate_forget.device) THEN
        RETURN false;
    END IF;
    DELETE FROM certificate_member m WHERE m.device = certificate_forget.device;
    RETURN true;
END
$$;
