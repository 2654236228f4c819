-- Creates the accounts of the seed's e-mails. u1@bench.test was made by `busbar user add`; the others share its
-- password, so that each can log in through the API and get a separate session.
\set ON_ERROR_STOP on
INSERT INTO auth_account (email, first_name, last_name, password, role, status, approved)
SELECT 'u' || n || '@bench.test', 'Bench', n::text, a.password, 'User', 'Active', now()
  FROM generate_series(2, 10000) n, auth_account a
 WHERE a.email = 'u1@bench.test';
VACUUM (ANALYZE) auth_account;
