-- step 1: devices and their documents

CREATE SEQUENCE device_id AS bigint;

CREATE TABLE device (
    id bigint PRIMARY KEY,
    uuid uuid NOT NULL CONSTRAINT device_uuid UNIQUE,
    organisation bigint NOT NULL,
    external_id text,
    site_name text,
    country_code text,
    commissioning_date date,
    capacity double precision,
    address text,
    latitude text,
    longitude text,
    fuel_code text,
    device_type_code text,
    serial_number text,
    timezone text,
    yield_value double precision,
    -- what was sent and is no field
    attributes jsonb NOT NULL
        CONSTRAINT device_attributes_size CHECK (octet_length(attributes::text) <= 65536),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);

CREATE UNIQUE INDEX device_external ON device (lower(external_id), organisation)
    WHERE external_id IS NOT NULL;
CREATE INDEX device_serial ON device (serial_number, organisation) WHERE serial_number IS NOT NULL;
CREATE INDEX device_site ON device (site_name, organisation) WHERE site_name IS NOT NULL;
CREATE INDEX device_organisation ON device (organisation, id);

-- A document's content lies in the store under its SHA-256, once for however many rows.
CREATE TABLE device_document (
    id uuid PRIMARY KEY,
    device bigint NOT NULL REFERENCES device,
    field text NOT NULL,
    name text NOT NULL,
    type text NOT NULL,
    size bigint NOT NULL,
    sha256 bytea NOT NULL,
    created_at timestamptz NOT NULL,
    place integer NOT NULL -- in the request that brought it
);

CREATE INDEX device_document_device ON device_document (device);
CREATE INDEX device_document_content ON device_document (sha256);

-- step 2: names of contents of their own, and uploads under way

-- null: the SHA-256 alone
ALTER TABLE device_document ADD COLUMN object text;

CREATE INDEX device_document_object
    ON device_document ((coalesce(object, encode(sha256, 'hex'))));

-- A content that is being put, from before it is there until its documents are, in the same commit.
CREATE TABLE device_upload (
    object text PRIMARY KEY,
    begun_at timestamptz NOT NULL
);

-- step 3: how much the documents of an organisation are

-- In the transaction that adds or deletes documents, whichever statement does it. The row is locked
-- by the first that changes it, so parallel ones are counted one after the other.
CREATE TABLE device_usage (
    organisation bigint PRIMARY KEY,
    bytes bigint NOT NULL
);

ALTER TABLE device_document ADD COLUMN organisation bigint;
UPDATE device_document f SET organisation = d.organisation FROM device d WHERE d.id = f.device;
ALTER TABLE device_document ALTER COLUMN organisation SET NOT NULL;
INSERT INTO device_usage (organisation, bytes)
    SELECT organisation, sum(size) FROM device_document GROUP BY organisation;

CREATE FUNCTION device_usage_more() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO device_usage AS u (organisation, bytes)
        SELECT organisation, sum(size) FROM changed GROUP BY organisation ORDER BY organisation
        ON CONFLICT (organisation) DO UPDATE SET bytes = u.bytes + excluded.bytes;
    RETURN NULL;
END
$$;

CREATE FUNCTION device_usage_less() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE device_usage u SET bytes = u.bytes - s.bytes
        FROM (SELECT organisation, sum(size) AS bytes FROM changed GROUP BY organisation) s
        WHERE u.organisation = s.organisation;
    RETURN NULL;
END
$$;

CREATE TRIGGER device_document_added AFTER INSERT ON device_document
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION device_usage_more();
CREATE TRIGGER device_document_deleted AFTER DELETE ON device_document
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION device_usage_less();

-- step 4: how long the attributes are as text, so that a page is bounded without reading them
ALTER TABLE device ADD COLUMN attributes_bytes integer NOT NULL
    GENERATED ALWAYS AS (octet_length(attributes::text)) STORED;

-- step 5: devices that generate no more

ALTER TABLE device ADD COLUMN status text NOT NULL DEFAULT 'Active'
    CONSTRAINT device_status_known CHECK (status IN ('Active', 'Inactive'));

-- null: there is no such device
CREATE FUNCTION device_status(device bigint) RETURNS text LANGUAGE sql STABLE
    AS 'SELECT status FROM device WHERE id = $1';
