-- step 1: mails that wait to be sent

CREATE TABLE mail_outbox (
    id        uuid PRIMARY KEY,
    kind      text NOT NULL,
    recipient text NOT NULL,
    message   bytea NOT NULL, -- encrypted with secrets.keys, because it may contain a token
    attempts  integer NOT NULL DEFAULT 0,
    created   timestamptz NOT NULL DEFAULT now(),
    due       timestamptz NOT NULL DEFAULT now(), -- of the next attempt
    expires   timestamptz NOT NULL
);
CREATE INDEX mail_outbox_due ON mail_outbox (due);

-- step 2: keys of mails that are sent at most once in a period

CREATE TABLE mail_key (
    key   text PRIMARY KEY,
    until timestamptz NOT NULL -- further mails with this key are dropped
);
CREATE INDEX mail_key_until ON mail_key (until);
