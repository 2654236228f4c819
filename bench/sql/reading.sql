-- pgbench -M prepared: what POST /api/meter-reads/new/:externalId sends in its unit for one reading
-- (modules/reading/store.c), in a transaction of its own. Each client has 100 devices, whose minutes
-- follow each other.
\set d :client_id * 100 + random(1, 100)
\set t :t + 1
\set s 1451606400000 + :t * 60000
BEGIN;
INSERT INTO reading_device AS d (device, type, latest_start, latest_end, latest_wh, latest_at, known_end, fresh_from, fresh_to) VALUES (:d::bigint, 'D'::"char", reading_time(:s::bigint), reading_time((:s::bigint + 60000)), 10::bigint, reading_time((extract(epoch FROM now()) * 1000)::bigint), '-infinity', reading_time((:s::bigint + 60000)), reading_time((:s::bigint + 60000))) ON CONFLICT (device, type) DO UPDATE SET known_end = d.latest_end, latest_start = CASE WHEN excluded.latest_end > d.latest_end THEN excluded.latest_start ELSE d.latest_start END, latest_wh = CASE WHEN excluded.latest_end > d.latest_end THEN excluded.latest_wh ELSE d.latest_wh END, latest_at = CASE WHEN excluded.latest_end > d.latest_end THEN excluded.latest_at ELSE d.latest_at END, latest_end = greatest(d.latest_end, excluded.latest_end), fresh_from = least(d.fresh_from, excluded.fresh_from), fresh_to = greatest(d.fresh_to, excluded.fresh_to);
WITH stored AS (INSERT INTO reading (device, type, start_at, end_at, wh, created_at) SELECT :d::bigint, 'D'::"char", reading_time(r.s), reading_time(r.e), r.w, reading_time((extract(epoch FROM now()) * 1000)::bigint) FROM unnest(ARRAY[:s::bigint], ARRAY[:s::bigint + 60000], ARRAY[10]::bigint[]) AS r (s, e, w)) SELECT busbar_require(CASE WHEN d.known_end <= reading_time((ARRAY[:s::bigint])[1]) THEN true ELSE NOT EXISTS (SELECT FROM reading_overlaps(:d::bigint, 'D'::"char", ARRAY[:s::bigint], ARRAY[:s::bigint + 60000])) END, 409, 'Conflict: the period overlaps a stored reading') FROM reading_device d WHERE d.device = :d::bigint AND d.type = 'D'::"char";
COMMIT;
