-- step 1: jobs, the parts of their files, problems and warnings of rows, usage

-- Rows are processed in the order of their numbers. Rows up to `cursor` are done; the transaction that
-- moves the cursor also counts their outcomes. A host that stores rows of a job has locked the job's
-- row, so two hosts never process a job at the same time, and nothing has to be taken over when a host
-- dies.
CREATE TABLE bulk_job (
    id           uuid PRIMARY KEY,
    account      bigint NOT NULL,
    email        text NOT NULL,
    role         integer NOT NULL,
    organisation bigint NOT NULL,
    type         text NOT NULL,
    file         text NOT NULL,        -- its name at the client
    status       text NOT NULL,        -- arriving, created, confirmed, finished, cancelled, removed
    separator    text NOT NULL,
    header       text NOT NULL,        -- JSON array: the names of the columns, as sent
    rows         integer NOT NULL DEFAULT 0,
    doubtful     integer NOT NULL DEFAULT 0, -- rows that failed the check at the upload
    cursor       bigint NOT NULL DEFAULT 0,
    single       bigint NOT NULL DEFAULT 0,  -- rows up to this number are stored one by one
    succeeded    integer NOT NULL DEFAULT 0,
    failed       integer NOT NULL DEFAULT 0,
    created_at   timestamptz NOT NULL,
    confirmed_at timestamptz,
    ended_at     timestamptz,
    served_at    timestamptz, -- when its last batch was stored
    retry_at     timestamptz, -- a batch could not be stored: the next attempt is not earlier
    bytes        bigint NOT NULL DEFAULT 0,  -- of its parts, problems and warnings, and 4 KiB
    warned       integer NOT NULL DEFAULT 0, -- rows with warnings
    reason       text         -- why the service cancelled it
);

CREATE INDEX bulk_job_account ON bulk_job (account, created_at DESC, id DESC);
CREATE INDEX bulk_job_waiting ON bulk_job (organisation, confirmed_at, id)
    WHERE status = 'confirmed';
CREATE INDEX bulk_job_since ON bulk_job (coalesce(ended_at, confirmed_at, created_at)); -- the sweep

-- Parts of the file: whole rows, as they were sent.
CREATE TABLE bulk_part (
    job       uuid NOT NULL,
    last_row  bigint NOT NULL,
    first_row bigint NOT NULL,
    rows      integer NOT NULL, -- without blank rows
    failed    integer NOT NULL, -- its rows in bulk_finding
    bytes     text NOT NULL,
    PRIMARY KEY (job, last_row)
);

-- Rows with problems: at first those that the check found, then those that storing found.
CREATE TABLE bulk_finding (
    job      uuid NOT NULL,
    number   bigint NOT NULL,
    name     text,          -- the cell that names the row: externalId
    problems text NOT NULL, -- JSON array of {field, problem}
    PRIMARY KEY (job, number)
);

-- Rows that can be stored, but that their sender should check.
CREATE TABLE bulk_warning (
    job      uuid NOT NULL,
    number   bigint NOT NULL,
    warnings text NOT NULL, -- JSON array of {field, problem}
    PRIMARY KEY (job, number)
);

-- Changed in the transaction that changes a job. Each transaction locks the organization's row, so
-- parallel uploads are counted one after the other.
CREATE TABLE bulk_usage (
    organisation bigint PRIMARY KEY,
    bytes bigint NOT NULL
);

CREATE FUNCTION bulk_usage_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO bulk_usage AS u (organisation, bytes)
        VALUES (coalesce(NEW.organisation, OLD.organisation),
                coalesce(NEW.bytes, 0) - coalesce(OLD.bytes, 0))
        ON CONFLICT (organisation) DO UPDATE SET bytes = u.bytes + excluded.bytes;
    RETURN NULL;
END
$$;

CREATE TRIGGER bulk_job_added AFTER INSERT OR DELETE ON bulk_job
    FOR EACH ROW EXECUTE FUNCTION bulk_usage_count();
CREATE TRIGGER bulk_job_grown AFTER UPDATE OF bytes ON bulk_job
    FOR EACH ROW WHEN (OLD.bytes <> NEW.bytes) EXECUTE FUNCTION bulk_usage_count();

-- step 2: the parts, problems and warnings of a job are deleted with it

DELETE FROM bulk_job WHERE status = 'removed';
DELETE FROM bulk_part p WHERE NOT EXISTS (SELECT FROM bulk_job j WHERE j.id = p.job);
DELETE FROM bulk_finding f WHERE NOT EXISTS (SELECT FROM bulk_job j WHERE j.id = f.job);
DELETE FROM bulk_warning w WHERE NOT EXISTS (SELECT FROM bulk_job j WHERE j.id = w.job);
ALTER TABLE bulk_part ADD FOREIGN KEY (job) REFERENCES bulk_job ON DELETE CASCADE;
ALTER TABLE bulk_finding ADD FOREIGN KEY (job) REFERENCES bulk_job ON DELETE CASCADE;
ALTER TABLE bulk_warning ADD FOREIGN KEY (job) REFERENCES bulk_job ON DELETE CASCADE;
