-- step 1: conditions inside statements, answers kept for Idempotency-Key

-- For units: a statement that finds nothing to do raises, and the whole unit is undone. SQLSTATE
-- BBnnn carries the HTTP status, the message goes to the client.
CREATE FUNCTION busbar_require(ok boolean, status integer, message text) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF ok IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'BB' || status, MESSAGE = message;
    END IF;
END
$$;

CREATE TABLE busbar_idempotency (
    account      bigint NOT NULL,
    route        text NOT NULL,
    key          text NOT NULL,
    request_hash text NOT NULL,
    status       integer NOT NULL,
    reply        bytea NOT NULL, -- sealed
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account, route, key)
);
CREATE INDEX busbar_idempotency_created_at ON busbar_idempotency (created_at);
