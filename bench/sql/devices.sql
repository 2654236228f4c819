-- Makes devices of one organization with 1,000 kW each, d1 to d1000, or psql -v devices=N of them. The devices are old
-- enough for ten years of readings by the minute.
\set ON_ERROR_STOP on
\if :{?devices}
\else
    \set devices 1000
\endif
INSERT INTO device (id, uuid, organisation, external_id, commissioning_date, capacity, attributes,
                    created_at, updated_at)
SELECT n, gen_random_uuid(), 1, 'd' || n, '2010-01-01', 1000, '{}', now(), now()
  FROM generate_series(1, :devices) n;
VACUUM (ANALYZE) device;
