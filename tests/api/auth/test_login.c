/*
 * Login: which facts a response reveals, invalid input, and the cost for other clients.
 */
#include <dirent.h>
#include <limits.h>
#include <sys/resource.h>

#include "exchange.h"
#include "talk.h"
#include "wire.h"

#define TRIES 10    /* logins of each kind */
#define LOGINS 200  /* at once: they are sent while the host is stopped */
#define CROWD 64    /* within the share of an address and of an account */
#define OTHER_MS 50 /* deadline of other requests; the crowd takes longer */

/* A hash takes some milliseconds; a shorter time could not be measured within a request. */
#define COSTLY "  argon2_memory: 1024\n  argon2_rounds: 1\n"

static struct host *host;
static struct person *admin, *person;

static void set_up(void)
{
    host = host_start(&(struct host_spec){
        .name = "login", .auth = COSTLY, .http = "  deadline: 60000\n"}); /* for busy machines */
    admin = admin_of(host);
    person = person_make(host, admin, "known", NULL);
}

static struct answer *login(const char *username, const char *password, long status)
{
    return ask(NULL, status, status == 401 ? "Unauthorized" : NULL,
               "POST /api/auth/login {'username':'%s','password':'%s'}", username, password);
}

/* Returns the CPU time of the thread that hashes passwords, in nanoseconds. */
static unsigned long long hash_ns(void)
{
    const char *path = text("/proc/%d/task", (int)host->pid);
    DIR *list = opendir(path);
    const struct dirent *entry;
    unsigned long long ns = 0;

    ck_assert_ptr_nonnull(list);
    while ((entry = readdir(list)) != NULL) {
        if (entry->d_name[0] != '.' &&
            !strcmp(file_text(text("%s/%s/comm", path, entry->d_name)), "auth/hash\n"))
            ns += strtoull(file_text(text("%s/%s/schedstat", path, entry->d_name)), NULL, 10);
    }
    closedir(list);
    return ns;
}

/*
 * Returns the least CPU time of the hashing thread for a refused login, in nanoseconds: memory and
 * caches that others use only add to it.
 */
static unsigned long long refused_ns(const char *username)
{
    unsigned long long least = ULLONG_MAX;

    for (int i = 0; i < TRIES; i++) {
        unsigned long long before = hash_ns();

        login(username, "a guess or two", 401);
        before = hash_ns() - before;
        least = before < least ? before : least;
    }
    return least;
}

/*
 * The hash takes the time, so the same hash must be computed in all cases. Without a hash the time
 * is almost zero, and with a cheaper one less than half.
 */
TEST(unknown_accounts_and_wrong_passwords_take_the_same_hashing_time)
{
    unsigned long long wrong = refused_ns("known@example.com");
    unsigned long long unknown = refused_ns("nobody@example.com"), odd = refused_ns("nobody");

    ck_assert_uint_gt(wrong, 0);
    ck_assert_msg(unknown > wrong / 2 && unknown < wrong * 2, "unknown %llu ns, wrong %llu ns",
                  unknown, wrong);
    ck_assert_msg(odd > wrong / 2 && odd < wrong * 2, "no e-mail %llu ns, wrong %llu ns", odd,
                  wrong);
}

TEST(a_login_renews_a_hash_of_another_cost)
{
    struct host *cheap = host_start(&(struct host_spec){
        .name = "login-cheap", .database = "login", .auth = "  argon2_memory: 64\n"});
    struct person *renewed = person_make(host, admin, "renewed", NULL);
    const char *form = "POST /api/auth/login {'username':'%s','password':'%s'}";
    PGconn *db = database_connect(the_postgres, "login");

    ask_on(cheap, NULL, 401, NULL, form, renewed->email, "a guess");
    ask_on(cheap, NULL, 200, NULL, form, renewed->email, renewed->password);
    sql_soon(db, "SELECT count(*) FROM auth_account WHERE email = 'renewed@example.com' AND"
                 " password LIKE '$argon2id$v=19$m=64,t=2,p=1$%'");
    EACH_TEXT (guess, "a guess", "password of known")
        ask_on(cheap, NULL, 401, NULL, form, renewed->email, guess);
    ask_on(cheap, NULL, 200, NULL, form, renewed->email, renewed->password);
    ask(renewed, 200, NULL, "GET /api/auth/me");
    PQfinish(db);
}

/* A login that has checked the previous hash waits for the transaction that replaces the hash. */
TEST(a_login_succeeds_while_another_one_renews_the_hash)
{
    struct person *raced = person_make(host, admin, "raced", NULL);
    struct call call = call_by(NULL, "POST /api/auth/login {'username':'%s','password':'%s'}",
                               raced->email, raced->password);
    PGconn *db = database_connect(the_postgres, "login");

    sql_run(db, "BEGIN");
    sql_run(db, "UPDATE auth_account SET password = replace(password, 'm=1024', 'm=64')"
                " WHERE email = 'raced@example.com'");
    struct pending_call *late = call_begin(host, &call);

    sql_soon(db, "SELECT count(*) FROM pg_locks WHERE NOT granted");
    sql_run(db, "COMMIT");
    ck_status(call_end(late), 200);
    PQfinish(db);
}

TEST(the_account_status_is_shown_only_after_the_correct_password)
{
    static const char *const states[][2] = {{"Pending", "Your account is pending approval"},
                                            {"Suspended", "Your account has been suspended"}};
    struct person *other = person_register(host, "waiting", "ApiUser");

    for (size_t i = 0; i < COUNT(states); i++) {
        ck_status(person_change(host, admin, other, "status", states[i][0]), 200);
        EACH_TEXT (path, "login", "getAccess") {
            const char *form = "POST /api/auth/%s {'username':'%s','password':'%s'}";

            ask(NULL, 403, states[i][1], form, path, other->email, other->password);
            ask(NULL, 401, "Unauthorized", form, path, other->email, "a guess");
        }
    }
    ck_status(person_change(host, admin, other, "status", "Deleted"), 200);
    login(other->email, other->password, 401);
}

/* Sends a POST from another address than the client of the tests. */
static struct wire *send_post(const struct host *to, const char *path, const char *body)
{
    struct wire *wire = wire_open_from(to, "127.0.0.9", 0);

    ck_assert(wire_say(wire,
                       "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                       path, strlen(body), body));
    return wire;
}

static struct wire *send_login(const struct host *to, const char *email)
{
    return send_post(to, "/api/auth/login",
                     text("{\"username\":\"%s\",\"password\":\"password of known\"}", email));
}

static const struct wire_answer *receive(struct wire *wire)
{
    const struct wire_answer *answer = wire_read(wire, 60000);

    wire_close(wire, false);
    ck_assert_ptr_nonnull(answer);
    return answer;
}

/*
 * Correct passwords are never throttled, but if the hashing pool has no room for more logins of one
 * address, they are refused at once; another address has its own share and turn.
 */
TEST(excess_parallel_logins_of_one_address_are_refused_and_delay_no_other)
{
    struct wire *wires[LOGINS];
    int good = 0, busy = 0;

    ck_assert_int_eq(kill(host->pid, SIGSTOP), 0);
    for (int i = 0; i < LOGINS; i++)
        wires[i] = send_login(host, "known@example.com");
    ck_assert_int_eq(kill(host->pid, SIGCONT), 0);
    for (int i = 0; i < 4; i++)
        login(person->email, person->password, 200);
    ask(NULL, 200, NULL, "GET /api/health");
    for (int i = 0; i < LOGINS; i++) {
        const struct wire_answer *answer = receive(wires[i]);

        good += answer->status == 200;
        busy += answer->status == 429;
        ck_assert(answer->status == 200 || wire_header(answer, "Retry-After"));
    }
    ck_assert_int_eq(good + busy, LOGINS);
    ck_assert_int_ge(good, 8);
    ck_assert_msg(busy > 0, "200 logins at once were all hashed: the queue is not bounded");
    login(person->email, person->password, 200);
}

/* Logins of one account, or of 64; all from one address. */
static void crowd_gets_in(const struct host *to, bool many)
{
    struct wire *wires[CROWD];
    int64_t began;

    ck_assert_int_eq(kill(to->pid, SIGSTOP), 0);
    for (int i = 0; i < CROWD; i++)
        wires[i] = send_login(to, many ? text("crowd%d@example.com", i) : "known@example.com");
    began = now_ms();
    ck_assert_int_eq(kill(to->pid, SIGCONT), 0);
    for (int i = 0; i < CROWD; i++)
        ck_assert_int_eq(receive(wires[i])->status, 200);
    ck_assert_int_gt(now_ms() - began, OTHER_MS);
}

/* Logins have a longer deadline than other requests, whose deadline is short here. */
TEST(sixty_four_correct_parallel_logins_succeed_with_slow_hashes)
{
    struct host *slow = host_start(&(struct host_spec){.name = "login-slow",
                                                       .database = "login",
                                                       .auth = COSTLY,
                                                       .http = text("  deadline: %d\n", OTHER_MS)});
    PGconn *db = database_connect(the_postgres, "login");

    sql_run(db,
            text("INSERT INTO auth_account (email, first_name, last_name, role, status, password,"
                 " organisation) SELECT 'crowd' || n || '@example.com', '', '', role, status,"
                 " password, organisation FROM auth_account, generate_series(0, %d) n"
                 " WHERE email = 'known@example.com'",
                 CROWD - 1));
    PQfinish(db);
    crowd_gets_in(slow, true);
    crowd_gets_in(slow, false);
}

static struct wire *send_registration(int number)
{
    return send_post(
        host, "/api/user/register",
        text("{\"firstName\":\"A\",\"lastName\":\"B\",\"email\":\"newcomer%d@example.com\","
             "\"password\":\"long enough\",\"orgName\":\"Crowd %d\"}",
             number, number));
}

/* Registrations use another pool, and no more of them wait than one address may have. */
TEST(parallel_registrations_do_not_block_logins)
{
    struct wire *wires[64];
    int made = 0, refused = 0;

    ck_assert_int_eq(kill(host->pid, SIGSTOP), 0);
    for (size_t i = 0; i < COUNT(wires); i++)
        wires[i] = send_registration((int)i);
    ck_assert_int_eq(kill(host->pid, SIGCONT), 0);
    for (int i = 0; i < 4; i++)
        login(person->email, person->password, 200);
    for (size_t i = 0; i < COUNT(wires); i++) {
        const int status = receive(wires[i])->status;

        made += status == 201;
        refused += status == 429;
    }
    ck_assert_int_eq(made + refused, 64);
    ck_assert_int_ge(made, 16);
    ck_assert_int_ge(refused, 1);
}

static struct answer *register_with(const char *email, const char *password, long status)
{
    return ask(NULL, status, NULL,
               "POST /api/user/register {'firstName':'A','lastName':'B','email':'%s',"
               "'password':'%s','orgName':'Org of %zu letters'}",
               email, password, strlen(password));
}

/* Registers and approves an account, which can log in then. */
static void approve_with(const char *email, const char *password)
{
    struct person made = {.id = answer_int(register_with(email, password, 201), "id")};

    ck_status(person_change(host, admin, &made, "status", "Active"), 200);
    login(email, password, 200);
}

TEST(passwords_are_compared_whole_and_invalid_ones_refused)
{
    approve_with("long@example.com", text_repeated("x", 256));
    login("long@example.com", text_repeated("x", 255), 401);
    login("long@example.com", text_repeated("x", 72), 401);
    login("long@example.com", text("%sy", text_repeated("x", 255)), 401);
    login("long@example.com", text_repeated("x", 257), 401);
    login("long@example.com", text_repeated("x", 30000), 401);
    login("long@example.com", text_repeated("x", 1 << 20), 413);
    register_with("longer@example.com", text_repeated("x", 257), 400);
    register_with("huge@example.com", text_repeated("x", 1 << 20), 413);
    register_with("seven@example.com", "1234567", 400);
    approve_with("ring@example.com", text_repeated("\xc3\xa5ngstr\xc3\xb6m ", 10));
    login("ring@example.com", text_repeated("a\xcc\x8angstro\xcc\x88m ", 10), 401);
    login("known@example.com", "password of known\\u0000x", 400);
}

TEST(an_email_in_any_case_or_with_blanks_is_one_account)
{
    EACH_TEXT (spelling, "KNOWN@EXAMPLE.COM", "Known@example.com", " known@example.com",
               "known@example.com\\t") {
        login(spelling, person->password, 200);
        register_with(spelling, "long enough", 409);
    }
    PGconn *db = database_connect(the_postgres, "login");

    sql_is(db, 1, "SELECT count(*) FROM auth_account WHERE email ILIKE '%%known@example.com%%'");
    sql_is(db, 0, "SELECT count(*) FROM auth_organisation WHERE name LIKE 'Org of 11 %%'");
    PQfinish(db);
    ask(NULL, 200, NULL, "POST /api/auth/login {'email':'%s','password':'%s'}", person->email,
        person->password);
}

TEST(credentials_that_are_not_strings_are_400)
{
    EACH_TEXT (body, " {'email':{'$gt':''},'password':'12345678'}",
               " {'email':['known@example.com'],'password':'12345678'}",
               " {'email':null,'password':'12345678'}",
               " {'username':'known@example.com','password':{'$ne':'x'}}",
               " {'username':'known@example.com','password':null}",
               " {'username':'known@example.com','password':true}",
               " {'username':'known@example.com','password':12345678}",
               " {'username':'known@example.com'}", " {'password':'12345678'}",
               " {'username':'known@example.com','username':'a@b.c','password':'12345678'}", " []",
               " \"known@example.com\"", " null", " {", " ")
        ask(NULL, 400, NULL, "POST /api/auth/login%s", body);
}

TEST(unknown_credentials_of_any_form_are_401)
{
    static const char *const pairs[][2] = {
        {"known", "12345678"},
        {"known@example.com", ""},
        {"known@example.com", "a guess"},
        {"", ""},
        {"", "12345678"},
        {"@", "12345678"},
        {"known@@example.com", "password of known"},
        {"known\xc2\xad@example.com", "password of known"},
        {"\xe2\x80\xaeknown@example.com", "password of known"},
        {"' OR 1=1 --", "12345678"},
    };
    struct answer *usual = login("nobody@example.com", "12345678", 401);

    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct answer *answer = login(pairs[i][0], pairs[i][1], 401);

        ck_assert_uint_eq(answer->length, usual->length);
        ck_assert_str_eq(answer_header(answer, "WWW-Authenticate"),
                         answer_header(usual, "WWW-Authenticate"));
    }
    login(text_repeated("known@example.com", 1500), "12345678", 401);
}

TEST(a_login_response_has_the_token_and_no_store)
{
    struct answer *answer = login(person->email, person->password, 200);

    ck_assert_str_eq(answer_header(answer, "Cache-Control"), "no-store");
    ck_assert_uint_eq(json_object_size(answer->json), 5);
    ck_assert_str_eq(answer_text(answer, "access_token"), answer_text(answer, "accessToken"));
    ck_assert_str_eq(answer_text(answer, "token_type"), "Bearer");
    ck_assert_int_eq(answer_int(answer, "expires_in"), 7 * 86400);
    answer_text(answer, "expiresAt");
    ck_assert_ptr_null(answer_header(answer, "Set-Cookie"));
    const char *log = file_text(host->log);

    ck_assert_ptr_null(strstr(log, person->password));
    ck_assert_ptr_null(strstr(log, answer_text(answer, "accessToken")));
    ck_assert_ptr_null(strstr(log, "$argon2"));
}

/* Returns how many threads of this name (NULL: any name) have this niceness. */
static int threads_of(pid_t pid, const char *name, int nice)
{
    const char *path = text("/proc/%d/task", (int)pid);
    DIR *list = opendir(path);
    const struct dirent *entry;
    int count = 0;

    ck_assert_ptr_nonnull(list);
    while ((entry = readdir(list)) != NULL) {
        id_t thread = (id_t)strtol(entry->d_name, NULL, 10);

        if (!thread || getpriority(PRIO_PROCESS, thread) != nice)
            continue;
        count += !name || !strcmp(file_text(text("%s/%s/comm", path, entry->d_name)), name);
    }
    closedir(list);
    return count;
}

enum { NICER = 5, NICEST = 19 };

/* Returns the niceness of the host, which is started with NICER more than the tests have. */
static int host_nice(void)
{
    int nice = getpriority(PRIO_PROCESS, 0) + NICER;

    return nice < NICEST ? nice : NICEST;
}

/* The threads that hash have 5 and 15 more than the host's other threads. */
static bool is_nice(pid_t pid)
{
    int own = host_nice(), most = own + 15 < NICEST ? own + 15 : NICEST;

    return threads_of(pid, "auth/hash\n", own + 5 < NICEST ? own + 5 : NICEST) == 1 &&
           threads_of(pid, "auth/register\n", most) == 1 && threads_of(pid, NULL, own) > 1;
}

TEST(hashing_threads_have_a_higher_nice_value)
{
    static const char *const wrapper[] = {"nice", "-n", "5", NULL};
    struct host *nice = host_start(&(struct host_spec){.name = "login-nice", .wrapper = wrapper});

    WAIT_UNTIL(is_nice(nice->pid), 5000);
    ck_assert_int_eq(threads_of(nice->pid, NULL, host_nice() - NICER), 0);
}

SUITE(login, .timeout_s = 120, .before_all = set_up)
