/*
 * How sessions end on two hosts with one database: at once on the host of the request, within a
 * second on every other host, whatever happens to Redis and the notifications.
 */
#include "pair.h"
#include "talk.h"

#define SUSPENDED "Your account has been suspended"
#define RACERS 50

static struct answer *login_of(const struct person *person)
{
    return http(host, "POST", "/api/auth/login", NULL,
                json_pack("{ss ss}", "username", person->email, "password", person->password));
}

/* ---- a race with logout ---- */

struct racer {
    pthread_t thread;
    const struct host *host;
    const char *token;
    atomic_int good; /* read during the race */
    int late_good, revoked, other;
};

static atomic_bool logged_out;

/*
 * Sends requests until three that began after the logout's response have finished. Whether a
 * request began after it is read before sending, so late_good counts no request that was already
 * running.
 */
static void *race(void *arg)
{
    struct racer *racer = arg;
    CURL *connection = client_open();
    int64_t end = now_ms() + 20000 * PATIENCE;

    for (int late = 0; late < 3 && now_ms() < end;) {
        bool after = atomic_load(&logged_out);
        struct answer *answer = http_send(racer->host, &(struct call){.method = "GET",
                                                                      .path = "/api/auth/me",
                                                                      .token = racer->token,
                                                                      .connection = connection});

        late += after;
        racer->good += answer->status == 200;
        racer->late_good += after && answer->status != 401;
        racer->revoked += answer->status == 401 && !strcmp(answer_text(answer, "message"), REVOKED);
        racer->other += answer->status != 200 && answer->status != 401;
    }
    curl_easy_cleanup(connection);
    return NULL;
}

static bool all_raced(const struct racer *racers)
{
    int started = 0;

    for (int i = 0; i < RACERS; i++)
        started += racers[i].good > 0;
    return started == RACERS;
}

TEST(no_parallel_request_that_starts_after_a_logout_is_accepted)
{
    struct person *person = person_make(host, admin, "racer", NULL);
    static struct racer racers[RACERS];

    for (int i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.host = host, .token = person->token};
        ck_assert_int_eq(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    bool raced = false;

    WAIT_FOR(raced = all_raced(racers), 10000);
    ask(person, 200, NULL, "POST /api/auth/logout");
    atomic_store(&logged_out, true);
    for (int i = 0; i < RACERS; i++)
        pthread_join(racers[i].thread, NULL);
    ck_assert(raced);
    for (int i = 0; i < RACERS; i++) {
        ck_assert_msg(racers[i].late_good == 0, "%d requests succeeded after the logout",
                      racers[i].late_good);
        ck_assert_int_ge(racers[i].revoked, 3);
        ck_assert_int_eq(racers[i].other, 0);
    }
    me_soon(other, person->token, 401, REVOKED);
}

TEST(a_logout_ends_only_its_own_session_on_both_hosts)
{
    struct person *person = person_make(host, admin, "quitter", NULL);
    const char *first = person->token, *second = person_login(host, person);

    ck_assert_str_ne(first, second);
    me_soon(other, first, 200, "");
    ck_assert_str_eq(ask(bearer(first), 200, NULL, "POST /api/auth/logout")->body,
                     "{\"message\":\"Logout successful\"}");
    ask(bearer(first), 401, REVOKED, "GET /api/auth/me");
    ask(bearer(first), 401, REVOKED, "POST /api/auth/logout");
    me_soon(other, first, 401, REVOKED);
    ask_on(other, bearer(first), 401, REVOKED, "POST /api/auth/logout");
    ask_on(other, bearer(second), 200, NULL, "GET /api/auth/me");
}

TEST(a_changed_role_applies_on_the_other_host_within_a_second)
{
    struct person *person = person_make(host, admin, "climber", NULL);
    const char *users = "/api/admin/users";

    answers_soon(other, users, person->token, 403, "Forbidden");
    ck_status(person_change(host, admin, person, "role", "Admin"), 200);
    ask(person, 200, NULL, "GET %s", users);
    answers_soon(other, users, person->token, 200, "");
    ck_status(person_change(host, admin, person, "role", "User"), 200);
    ask(person, 403, "Forbidden", "GET %s", users);
    answers_soon(other, users, person->token, 403, "Forbidden");
}

TEST(a_deleted_account_is_refused_on_both_hosts)
{
    struct person *person = person_make(host, admin, "deleted", NULL);

    me_soon(other, person->token, 200, "");
    ck_status(person_change(host, admin, person, "status", "Deleted"), 200);
    ask(person, 401, "Unauthorized", "GET /api/auth/me");
    me_soon(other, person->token, 401, "Unauthorized");
    ck_error(login_of(person), 401, "Unauthorized");
}

/* Ends the connections on which the hosts receive changes; returns false unless both are
 * connected. */
static bool ears_cut(void)
{
    return sql_number(db, "WITH listeners AS MATERIALIZED (SELECT pid FROM pg_stat_activity WHERE "
                          "datname = 'sessions' AND query ~ '^SELECT (1($|;)|.extract.epoch FROM "
                          "clock_timestamp)') "
                          "SELECT count(pg_terminate_backend(pid)) FROM listeners "
                          "WHERE (SELECT count(*) FROM listeners) > 1") > 1;
}

/* Both hosts lose these connections just before the change. */
TEST(a_changed_status_applies_within_a_second_without_notifications)
{
    struct person *person = person_make(host, admin, "unheard", NULL);

    for (int round = 0; round < 3; round++) {
        me_soon(other, person->token, 200, "");
        WAIT_UNTIL(ears_cut(), 30000);
        ck_status(person_change(host, admin, person, "status", "Suspended"), 200);
        ask(person, 403, SUSPENDED, "GET /api/auth/me");
        me_soon(other, person->token, 403, SUSPENDED);
        ck_error(login_of(person), 403, SUSPENDED);
        ck_status(person_change(host, admin, person, "status", "Active"), 200);
    }
}

/* ---- passwords ---- */

TEST(a_new_password_requires_the_old_one_and_keeps_client_tokens)
{
    struct person *user = person_make(host, admin, "keeper", "ApiUser");
    struct answer *client = ask(user, 201, NULL, "POST /api/auth/clients");
    struct answer *access =
        ask(NULL, 200, NULL, "POST /api/auth/getAccess {'client_id':'%s','client_secret':'%s'}",
            answer_text(client, "client_id"), answer_text(client, "client_secret"));
    const char *program = answer_text(access, "access_token");
    const char *first = user->token, *mine = person_login(host, user);
    const char *path = "/api/user/password";

    ask(bearer(mine), 401, "Unauthorized",
        "PUT %s {'current':'not the password','new':'a new password'}", path);
    ask(bearer(mine), 400, NULL, "PUT %s {'current':'%s','new':'short'}", path, user->password);
    ask(bearer(program), 403, "Forbidden", "PUT %s {'current':'%s','new':'a new password'}", path,
        user->password);
    me_soon(other, first, 200, "");
    ask(bearer(mine), 200, NULL, "PUT %s {'current':'%s','new':'a new password'}", path,
        user->password);
    ask(bearer(first), 401, REVOKED, "GET /api/auth/me");
    me_soon(other, first, 401, REVOKED);
    ask_on(other, bearer(mine), 200, NULL, "GET /api/auth/me");
    ask_on(other, bearer(program), 200, NULL, "GET /api/auth/me");
    ck_error(login_of(user), 401, "Unauthorized");
    user->password = text("a new password");
    ck_status(login_of(user), 200);
}

struct entrant {
    pthread_t thread;
    const struct person *person;
    atomic_bool *stop;
    const char *tokens[10000]; /* all tokens it received */
    atomic_size_t count;
};

/* The password is changed after it was checked and before the session is made. */
TEST(a_login_in_progress_during_a_password_change_gets_no_session)
{
    struct person *person = person_make(host, admin, "overtaken", NULL);
    PGconn *watch = database_connect(the_postgres, "sessions");
    const struct call login =
        call_by(NULL, "POST /api/auth/login {'username':'%s','password':'%s'}", person->email,
                person->password);

    sql_run(db, "BEGIN");
    sql_run(db, "LOCK TABLE auth_session IN SHARE ROW EXCLUSIVE MODE");
    struct pending_call *pending = call_begin(host, &login);

    sql_soon(watch, SQL_LOCK_WAITS " AND query LIKE '%auth_session%'");
    sql_run(db,
            "UPDATE auth_account SET password = (SELECT password FROM auth_account WHERE email ="
            " '" ADMIN_EMAIL "') WHERE email = 'overtaken@example.com'");
    sql_run(db, "COMMIT");
    ck_error(call_end(pending), 401, "Unauthorized");
}

static void *enter_often(void *arg)
{
    struct entrant *entrant = arg;

    while (!atomic_load(entrant->stop) && entrant->count < 10000) {
        const struct answer *answer = login_of(entrant->person);

        if (answer->status == 200)
            entrant->tokens[entrant->count++] = answer_text(answer, "accessToken");
    }
    return NULL;
}

static bool have_all_entered(struct entrant *entrants, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!entrants[i].count)
            return false;
    return true;
}

/* All sessions made with the old password have ended when the change is answered. */
TEST(a_password_change_ends_all_sessions_of_parallel_logins)
{
    static struct entrant entrants[8];
    static atomic_bool stop;
    struct person *person = person_make(host, admin, "hammered", NULL);
    const char *mine = person->token;

    for (int round = 0; round < 5; round++) {
        atomic_store(&stop, false);
        for (size_t i = 0; i < 8; i++) {
            entrants[i] = (struct entrant){.person = person, .stop = &stop};
            ck_assert_int_eq(pthread_create(&entrants[i].thread, NULL, enter_often, &entrants[i]),
                             0);
        }
        const char *next = text("password number %d", round);

        WAIT_UNTIL(have_all_entered(entrants, 8), 30000);
        ask(bearer(mine), 200, NULL, "PUT /api/user/password {'current':'%s','new':'%s'}",
            person->password, next);
        atomic_store(&stop, true);
        for (size_t i = 0; i < 8; i++)
            pthread_join(entrants[i].thread, NULL);
        for (size_t i = 0; i < 8; i++)
            for (size_t j = 0; j < entrants[i].count; j++)
                ask(bearer(entrants[i].tokens[j]), 401, REVOKED, "GET /api/auth/me");
        person->password = text("%s", next);
    }
    ask(bearer(mine), 200, NULL, "GET /api/auth/me");
}

TEST(a_revoked_token_stays_revoked_if_redis_is_flushed_or_restarted)
{
    pid_t pid;
    const char *redis = redis_make("redis-sessions", &pid);
    struct person *early = person_make(host, admin, "restart", NULL);

    ask(early, 200, NULL, "POST /api/auth/logout");
    host = host_start(
        &(struct host_spec){.name = "sessions-redis", .database = "sessions", .redis = redis});
    struct person *person = person_make(host, admin, "redis", NULL);
    const char *gone = person->token, *good = person_login(host, person);

    ask(early, 401, REVOKED, "GET /api/auth/me");
    ask(bearer(gone), 200, NULL, "POST /api/auth/logout");
    redis_command(redis, "flushall");
    ask(bearer(gone), 401, REVOKED, "GET /api/auth/me");
    ask(bearer(good), 200, NULL, "GET /api/auth/me");
    process_stop(pid, SIGKILL, 5000);
    ask(bearer(gone), 401, REVOKED, "GET /api/auth/me");
    ask(bearer(good), 200, NULL, "GET /api/auth/me");
    ask(bearer(good), 200, NULL, "POST /api/auth/logout");
    ck_assert_str_eq(redis_make("redis-sessions", &pid), redis);
    ask(bearer(gone), 401, REVOKED, "GET /api/auth/me");
    ask(bearer(good), 401, REVOKED, "GET /api/auth/me");
    ask(bearer(person_login(host, person)), 200, NULL, "GET /api/auth/me");
}

PAIR_SUITE(sessions, 60)
