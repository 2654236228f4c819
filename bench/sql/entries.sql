-- Makes a million entries of the certificate log: 1,000 days of a group of 1,000 devices.
\set ON_ERROR_STOP on
TRUNCATE certificate, certificate_entry, certificate_day;
INSERT INTO certificate_group VALUES (1, 1, 'bench', 'daily', '2016-01-01T00:00Z', NULL, 0, now())
    ON CONFLICT DO NOTHING; -- day.sql removes it
INSERT INTO certificate
SELECT n, gen_random_uuid(), 1, 1, '2016-01-01T00:00Z'::timestamptz + n * interval '1 day',
       '2016-01-02T00:00Z'::timestamptz + n * interval '1 day', 1000000, now()
  FROM generate_series(1, 1000) n;
INSERT INTO certificate_entry (certificate, organisation, group_id, device, start_at, end_at, wh,
                               status)
SELECT c.id, 1, 1, d, c.start_at, c.end_at, 1000, 'Succeeded'
  FROM certificate c, generate_series(1, 1000) d ORDER BY c.id, d;
INSERT INTO certificate_day
SELECT o, (start_at AT TIME ZONE 'UTC')::date, count(*)
  FROM certificate_entry, unnest(ARRAY[0, 1]) o GROUP BY 1, 2;
VACUUM (ANALYZE) certificate, certificate_entry, certificate_day;
CHECKPOINT;
