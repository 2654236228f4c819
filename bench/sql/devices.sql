-- Makes 1,000 devices of 1,000 kW of one organization, d1 to d1000, or as many as psql -v devices=N: old enough for ten
-- years of minutes.
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
