-- Loads a month of hourly readings: psql -v month=2026-01-01 -v devices=1000. The rows are in the order of time, as they
-- arrive. The index is made afterwards, which takes a tenth of the time.
\set ON_ERROR_STOP on
SET TimeZone = 'UTC';
SET synchronous_commit = off;
SET maintenance_work_mem = '512MB';
SELECT to_char(:'month'::date, '"reading_"YYYYMM') AS part, after,
       (extract(epoch FROM after - :'month'::timestamptz) / 3600)::int AS hours
  FROM (SELECT :'month'::timestamptz + interval '1 month' AS after) m \gset
BEGIN;
CREATE TABLE :"part" (LIKE reading);
INSERT INTO :"part"
SELECT n % :devices + 1, 'D', at - interval '1 hour', at, 100 + n % 37, at
  FROM generate_series(0, :hours::bigint * :devices - 1) n,
       LATERAL (SELECT :'month'::timestamptz + n / :devices * interval '1 hour' AS at) t;
ALTER TABLE :"part" ADD PRIMARY KEY (device, type, end_at);
ALTER TABLE reading ATTACH PARTITION :"part" FOR VALUES FROM (:'month') TO (:'after');
-- The newest month is loaded first.
INSERT INTO reading_device (device, type, latest_start, latest_end, latest_wh, latest_at, known_end)
SELECT d, v.type::"char", v.at - v.length, v.at, 100, v.at, v.at
  FROM generate_series(1, :devices) d,
       (VALUES ('D', :'after'::timestamptz - interval '1 hour', interval '1 hour'),
               ('H', '0001-01-01Z', interval '0')) v (type, at, length)
    ON CONFLICT DO NOTHING;
COMMIT;
