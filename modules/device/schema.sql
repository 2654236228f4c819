-- step 1: devices, their documents, pairs of devices that are one plant, pages of devices

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
    -- members of the request that are not fields
    attributes jsonb NOT NULL
        CONSTRAINT device_attributes_size CHECK (octet_length(attributes::text) <= 65536),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    -- the length of the attributes as text, so that pages are limited without reading them
    attributes_bytes integer NOT NULL GENERATED ALWAYS AS (octet_length(attributes::text)) STORED,
    status text NOT NULL DEFAULT 'Active'
        CONSTRAINT device_status_known CHECK (status IN ('Active', 'Inactive'))
);

-- External ids are compared in NFKC and folded by busbar_fold(), because lower() depends on the database's locale.
CREATE UNIQUE INDEX device_external_key
    ON device (busbar_fold(normalize(external_id, NFKC)), organisation)
    WHERE external_id IS NOT NULL;
CREATE INDEX device_serial ON device (serial_number, organisation) WHERE serial_number IS NOT NULL;
CREATE INDEX device_site ON device (site_name, organisation) WHERE site_name IS NOT NULL;
CREATE INDEX device_organisation ON device (organisation, id);

-- Documents. The store has each content once, under its SHA-256, however many rows name it.
CREATE TABLE device_document (
    id uuid PRIMARY KEY,
    device bigint NOT NULL REFERENCES device,
    field text NOT NULL,
    name text NOT NULL,
    type text NOT NULL,
    size bigint NOT NULL,
    sha256 bytea NOT NULL,
    created_at timestamptz NOT NULL,
    place integer NOT NULL, -- in the request that contained it
    object text, -- the content's name in the store; null: the SHA-256 alone
    organisation bigint NOT NULL
);

CREATE INDEX device_document_device ON device_document (device);
CREATE INDEX device_document_content ON device_document (sha256);
CREATE INDEX device_document_object
    ON device_document ((coalesce(object, encode(sha256, 'hex'))));

-- Contents that are being stored. A row is committed before its content is stored, and deleted in the transaction
-- that adds the documents.
CREATE TABLE device_upload (
    object text PRIMARY KEY,
    begun_at timestamptz NOT NULL
);

-- The bytes of an organization's documents. Triggers count them in the transaction that adds or deletes documents.
-- The first transaction that changes a row locks it, so concurrent changes are counted one after the other.
CREATE TABLE device_usage (
    organisation bigint PRIMARY KEY,
    bytes bigint NOT NULL
);

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

-- Returns the status of a device; null: there is no such device.
CREATE FUNCTION device_status(device bigint) RETURNS text LANGUAGE sql STABLE
    AS 'SELECT status FROM device WHERE id = $1';

-- Pairs of devices that looked like one plant when the later one was registered or changed. Readers check whether
-- they still do.
CREATE TABLE device_duplicate (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    device   bigint NOT NULL, -- the one with the larger id
    other    bigint NOT NULL,
    found_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT device_duplicate_once UNIQUE (device, other)
);

-- Returns the distance between two places on Earth; null if one is unknown.
CREATE FUNCTION device_metres(latitude1 text, longitude1 text, latitude2 text, longitude2 text)
    RETURNS double precision LANGUAGE sql IMMUTABLE AS $$
    SELECT 12742000 * asin(least(1, sqrt(
        sind(($3::double precision - $1::double precision) / 2) ^ 2
        + cosd($1::double precision) * cosd($3::double precision)
          * sind(($4::double precision - $2::double precision) / 2) ^ 2)))
$$;

-- Returns devices of other organizations that look like the same plant: with the same serial number, or with the same
-- capacity within 50 m. Returns at most four of each kind, because some serial numbers (0, none) are very frequent.
-- Examines at most 100 devices with the same capacity and latitude, so it may miss a plant.
CREATE FUNCTION device_like(organisation bigint, serial_number text, capacity double precision,
                            latitude text, longitude text)
    RETURNS TABLE (id bigint) LANGUAGE sql STABLE AS $$
    (SELECT d.id FROM device d WHERE d.serial_number = $2 AND d.organisation < $1 LIMIT 2)
    UNION ALL
    (SELECT d.id FROM device d WHERE d.serial_number = $2 AND d.organisation > $1 LIMIT 2)
    UNION ALL
    (SELECT n.id FROM (SELECT d.id, d.organisation, d.latitude, d.longitude FROM device d
            WHERE d.latitude IS NOT NULL AND d.longitude IS NOT NULL AND d.capacity = $3
                AND d.latitude::double precision BETWEEN $4::double precision - 0.00045
                    AND $4::double precision + 0.00045
            LIMIT 100) n
        WHERE n.organisation <> $1 AND device_metres(n.latitude, n.longitude, $4, $5) <= 50 LIMIT 4)
$$;

-- Stores the pairs of some devices. Plans are kept, perhaps from a time with few devices, so they must use the
-- indexes.
CREATE FUNCTION device_find_duplicates(devices bigint[]) RETURNS void LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    INSERT INTO device_duplicate (device, other)
        SELECT DISTINCT greatest(d.id, o.id), least(d.id, o.id) FROM device d
        CROSS JOIN LATERAL device_like(d.organisation, d.serial_number, d.capacity, d.latitude,
                                       d.longitude) o
        WHERE d.id = ANY (devices) ORDER BY 1, 2
        ON CONFLICT DO NOTHING;
END
$$;

CREATE FUNCTION device_watch_duplicates() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    found bigint[] := ARRAY(SELECT n.id FROM changed n
        WHERE n.serial_number IS NOT NULL OR (n.capacity IS NOT NULL AND n.latitude IS NOT NULL));
BEGIN
    IF cardinality(found) > 0 THEN
        PERFORM device_find_duplicates(found);
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER device_registered AFTER INSERT ON device
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION device_watch_duplicates();
CREATE TRIGGER device_changed AFTER UPDATE ON device
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION device_watch_duplicates();

CREATE INDEX device_place ON device (capacity, (latitude::double precision))
    WHERE latitude IS NOT NULL AND longitude IS NOT NULL;

-- Indexes for pages in other orders. Unknown values come first. PostgreSQL sorts a few devices, but not many.
CREATE INDEX device_by_external_id ON device ((coalesce(lower(external_id), '')), id);
CREATE INDEX device_by_site_name ON device ((coalesce(site_name, '')), id);
CREATE INDEX device_by_capacity ON device ((coalesce(capacity, -1e18)), id);
CREATE INDEX device_by_commissioning
    ON device ((coalesce((commissioning_date - DATE '2000-01-01')::double precision, -1e18)), id);
CREATE INDEX device_updated ON device (updated_at, id);

-- Returns the devices after the previous page's last device, whose key and id are the parameters 6 and 7;
-- null: from the first device on. `k` is the key by which a device is ordered.
CREATE FUNCTION device_page(organisations bigint[], wanted jsonb, grouped boolean, ordered text,
                            down boolean, key text, behind bigint, most bigint)
    RETURNS TABLE (id bigint, k text) LANGUAGE plpgsql STABLE ROWS 100 AS $$
DECLARE
    place text := CASE ordered WHEN 'externalId' THEN $c$coalesce(lower(d.external_id), '')$c$
        WHEN 'siteName' THEN $c$coalesce(d.site_name, '')$c$
        WHEN 'capacity' THEN $c$coalesce(d.capacity, -1e18)$c$
        WHEN 'commissioningDate' THEN
            $c$coalesce((d.commissioning_date - DATE '2000-01-01')::double precision, -1e18)$c$
        WHEN 'updatedAt' THEN 'd.updated_at' END;
    shown text := CASE ordered WHEN 'updatedAt' THEN
        '(extract(epoch FROM d.updated_at) * 1000000)::bigint::text' ELSE place || '::text' END;
    seen text := CASE WHEN ordered IN ('externalId', 'siteName') THEN '$3'
        WHEN ordered = 'updatedAt' THEN $c$timestamptz 'epoch' + interval '1 microsecond'
            * greatest(-1e17, least(1e17, $3::double precision))$c$
        ELSE '$3::double precision' END;
    than text := CASE WHEN down THEN ' < ' ELSE ' > ' END;
    direction text := CASE WHEN down THEN ' DESC' ELSE '' END;
BEGIN
    RETURN QUERY EXECUTE 'SELECT d.id, ' || coalesce(shown, 'd.id::text') || ' FROM device d WHERE '
        || device_conditions(organisations, wanted, grouped)
        || CASE WHEN behind IS NULL THEN ''
                WHEN place IS NULL THEN ' AND d.id' || than || '$4'
                ELSE ' AND (' || place || ', d.id)' || than || '(' || seen || ', $4)' END
        || ' ORDER BY ' || coalesce(place || direction || ', ', '') || 'd.id' || direction
        || ' LIMIT $5' USING organisations, wanted, key, behind, most;
END
$$;

CREATE FUNCTION device_count(organisations bigint[], wanted jsonb, grouped boolean)
    RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    found bigint;
BEGIN
    EXECUTE 'SELECT count(*) FROM device d WHERE ' || device_conditions($1, $2, $3)
        INTO found USING organisations, wanted;
    RETURN found;
END
$$;

-- Indexes for filters. If many devices have a value, the planner reads devices by id instead.
CREATE INDEX device_by_country ON device (country_code);
CREATE INDEX device_by_fuel ON device (fuel_code);
CREATE INDEX device_by_type ON device (device_type_code);

-- Returns the active devices. The planner inlines this function into the calling statement.
CREATE FUNCTION device_active(devices bigint[]) RETURNS SETOF bigint LANGUAGE sql STABLE AS $$
    SELECT d.id FROM device d WHERE d.id = ANY (devices) AND d.status = 'Active'
$$;

-- Returns the devices of some organizations (null: all) with this external id or uuid, country in either of two
-- spellings, fuel and type. Parameters that are null do not filter.
CREATE FUNCTION device_chosen(organisations bigint[], key text, country text, other text, fuel text,
                              kind text)
    RETURNS SETOF bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY EXECUTE 'SELECT d.id FROM device d WHERE true'
        || CASE WHEN organisations IS NULL THEN '' ELSE ' AND d.organisation = ANY ($1)' END
        || CASE WHEN key IS NULL THEN ''
                WHEN key ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN
                    ' AND (busbar_fold(normalize(d.external_id, NFKC)) = busbar_fold(normalize($2, NFKC))
                        OR d.uuid = $2::uuid)'
                ELSE ' AND busbar_fold(normalize(d.external_id, NFKC)) = busbar_fold(normalize($2, NFKC))' END
        || CASE WHEN country IS NULL THEN '' ELSE ' AND d.country_code IN ($3, $4)' END
        || CASE WHEN fuel IS NULL THEN '' ELSE ' AND d.fuel_code = $5' END
        || CASE WHEN kind IS NULL THEN '' ELSE ' AND d.device_type_code = $6' END
        USING organisations, key, country, other, fuel, kind;
END
$$;

-- Returns the conditions on a device `d` for the filters that were sent, so that the statement is planned for these.
-- $1 is the organizations (null: all), $2 the filters by their names in the API, except `country` and `other`, which
-- are the two spellings of a country's code.
CREATE FUNCTION device_conditions(organisations bigint[], wanted jsonb, grouped boolean)
    RETURNS text LANGUAGE sql STABLE AS $$
    SELECT concat_ws(' AND ', 'true',
        CASE WHEN organisations IS NOT NULL THEN 'd.organisation = ANY ($1)' END,
        CASE WHEN wanted ? 'siteName' THEN $c$d.site_name = $2->>'siteName'$c$ END,
        CASE WHEN wanted ? 'serialNumber' THEN $c$d.serial_number = $2->>'serialNumber'$c$ END,
        CASE WHEN wanted ? 'country' THEN
            $c$d.country_code IN ($2->>'country', $2->>'other')$c$ END,
        CASE WHEN wanted ? 'fuelCode' THEN $c$d.fuel_code = $2->>'fuelCode'$c$ END,
        CASE WHEN wanted ? 'deviceTypeCode' THEN
            $c$d.device_type_code = $2->>'deviceTypeCode'$c$ END,
        CASE WHEN wanted ? 'externalId' THEN
            $c$busbar_fold(normalize(d.external_id, NFKC))
                = busbar_fold(normalize($2->>'externalId', NFKC))$c$ END,
        CASE WHEN wanted ? 'search' THEN
            $c$strpos(lower(concat_ws(chr(10), d.external_id, d.site_name, d.serial_number,
                d.address)), lower($2->>'search')) > 0$c$ END,
        CASE WHEN wanted ? 'capacityFrom' THEN
            $c$coalesce(d.capacity, -1e18) >= ($2->>'capacityFrom')::double precision$c$ END,
        CASE WHEN wanted ? 'capacityTo' THEN $c$coalesce(d.capacity, -1e18)
            BETWEEN -1e17 AND ($2->>'capacityTo')::double precision$c$ END,
        CASE WHEN wanted ? 'commissionedFrom' THEN
            $c$coalesce((d.commissioning_date - DATE '2000-01-01')::double precision, -1e18) >=
            ((($2->>'commissionedFrom')::timestamptz AT TIME ZONE 'UTC')::date - DATE '2000-01-01')
            $c$ END,
        CASE WHEN wanted ? 'commissionedTo' THEN
            $c$coalesce((d.commissioning_date - DATE '2000-01-01')::double precision, -1e18)
            BETWEEN -1e17 AND
            ((($2->>'commissionedTo')::timestamptz AT TIME ZONE 'UTC')::date - DATE '2000-01-01')
            $c$ END,
        CASE WHEN wanted ? 'status' THEN $c$d.status = $2->>'status'$c$ END,
        CASE WHEN wanted ? 'inGroup' AND grouped THEN
            CASE wanted->>'inGroup' WHEN 'true' THEN '' ELSE 'NOT ' END
            || 'EXISTS (SELECT FROM certificate_members() m (device) WHERE m.device = d.id)'
            WHEN wanted->>'inGroup' = 'true' THEN 'false' END)
$$;

-- step 2: devices in statements of other modules

-- Inlined into the statement, so that it costs a look-up by the primary key.
CREATE FUNCTION device_about(device bigint)
    RETURNS TABLE (organisation bigint, uuid uuid, external_id text, serial_number text, timezone text,
                   site_name text) LANGUAGE sql STABLE AS $$
    SELECT d.organisation, d.uuid, d.external_id, d.serial_number, d.timezone, d.site_name FROM device d
    WHERE d.id = $1
$$;

-- step 3: files of other modules

-- `holder` names the object of another module that has the file, such as "conversation 7". Its `organisation` is
-- -1 - ID, so that the quota of such files is separate.
ALTER TABLE device_document ALTER COLUMN device DROP NOT NULL, ADD COLUMN holder text,
    ADD CHECK ((device IS NULL) <> (holder IS NULL));
