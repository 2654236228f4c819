-- Makes five finished jobs like the given one (psql -v job=UUID), with its rows; one row in fifty has failed.
\set ON_ERROR_STOP on
CREATE TEMP TABLE twin AS SELECT gen_random_uuid() AS id FROM generate_series(1, 5);

INSERT INTO bulk_job (id, account, email, role, organisation, type, file, status, separator, header,
                      rows, cursor, succeeded, failed, created_at, confirmed_at, ended_at)
SELECT t.id, account, email, role, organisation, type, file, 'finished', separator, header, rows, rows,
       rows - rows / 50, rows / 50, now(), now(), now()
  FROM bulk_job j, twin t WHERE j.id = :'job'::uuid;

INSERT INTO bulk_part (job, last_row, first_row, rows, failed, bytes)
SELECT t.id, last_row, first_row, rows, last_row / 50 - (first_row - 1) / 50, bytes
  FROM twin t, bulk_part p WHERE p.job = :'job'::uuid ORDER BY t.id, last_row;

INSERT INTO bulk_finding (job, number, name, problems)
SELECT t.id, n * 50, 'PLANT-' || n * 50,
       '[{"field":"externalId","problem":"A device with this externalId already exists"}]'
  FROM twin t, bulk_job j, LATERAL generate_series(1, j.rows / 50) n WHERE j.id = :'job'::uuid;

VACUUM (ANALYZE) bulk_job;
VACUUM (ANALYZE) bulk_part;
VACUUM (ANALYZE) bulk_finding;
CHECKPOINT;
