/*
 * Modules in C++20: RAII for rows, units and JSON, and exceptions instead of return values. The
 * tables are the same as in C:
 *
 *     int hello(busbar::request &rq)
 *     {
 *         return rq.reply(200, busbar::json::object().set("text", rq.setting_text("greeting")));
 *     }
 *     constexpr bb_route routes[] = {{.method = "GET", .path = "/api/hello", .roles = BB_ANY_ROLE,
 *                                     .handler = busbar::route<hello>}};
 *
 * No exception may reach the host, which is written in C: busbar::route<>, job<>, hook<>, check<>
 * and store<> wrap the functions of the module. If the module does not catch an exception, they log
 * it, and route<> sends 500.
 *
 * If memory runs out in a function of the host, it would end the request there, without
 * destructors. Therefore request::call() runs each function of the host within bb_guard(), and
 * throws busbar::failed instead. From then on the request calls no function of the host, and it
 * ends when the wrapper has left all functions of the module.
 *
 * A module must not park while an exception is handled, because the runtime records this state for
 * each thread, and the thread runs other requests meanwhile. Functions that park throw
 * std::logic_error then.
 */
#ifndef BUSBAR_BUSBAR_HPP
#define BUSBAR_BUSBAR_HPP

#include <busbar/busbar.h>
#include <busbar/helpers.h>

#include <concepts>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace busbar
{

/* Thrown if a function of the host fails; route<> then answers with bb_failed(). */
struct failed : std::exception {
    const char *what() const noexcept override
    {
        return "a function of the host failed";
    }
};

/* The module refuses a request: the response has this status and this message, or the problem of a
 * field. */
struct refused : std::runtime_error {
    int status;
    std::string field; /* "": none */

    refused(int with_status, const std::string &message)
        : std::runtime_error(message), status(with_status)
    {
    }

    static refused invalid(const std::string &field, const std::string &problem)
    {
        refused error(400, problem);

        error.field = field;
        return error;
    }
};

/* JSON that the module creates. If memory ran out, `owned` is NULL: the host sends 503. */
class json
{
    json_t *owned;

  public:
    explicit json(json_t *taken) : owned(taken)
    {
    }
    json(std::string_view text) : owned(json_stringn(text.data(), text.size()))
    {
    }
    json(const char *text) : owned(text ? json_string(text) : json_null())
    {
    }
    json(const std::string &text) : json(std::string_view(text))
    {
    }
    template <std::integral number> json(number value) : owned(json_integer(value))
    {
    }
    json(bool yes) : owned(json_boolean(yes))
    {
    }
    json(double number) : owned(json_real(number))
    {
    }
    json(json &&other) noexcept : owned(std::exchange(other.owned, nullptr))
    {
    }
    json &operator=(json &&other) noexcept
    {
        std::swap(owned, other.owned);
        return *this;
    }
    ~json()
    {
        json_decref(owned);
    }

    static json object()
    {
        return json(json_object());
    }
    static json list()
    {
        return json(json_array());
    }

    /* Adds a member to an object. */
    json &&set(const char *name, json value) &&
    {
        if (json_object_set_new(owned, name, value.release()))
            json_decref(release());
        return std::move(*this);
    }

    /* Adds an item to a list. */
    json &&push(json item) &&
    {
        if (json_array_append_new(owned, item.release()))
            json_decref(release());
        return std::move(*this);
    }

    /* Gives up the ownership of the value, for functions that take it. */
    json_t *release()
    {
        return std::exchange(owned, nullptr);
    }
};

/* A parameter of a statement. */
inline bb_value value(std::integral auto number)
{
    return bb_i(number);
}
inline bb_value value(bool yes)
{
    return bb_b(yes);
}
inline bb_value value(const char *text)
{
    return bb_t(text);
}
inline bb_value value(const std::string &text)
{
    return bb_t(text.c_str());
}
inline bb_value value(std::nullptr_t)
{
    return bb_null();
}
template <typename some> bb_value value(const std::optional<some> &maybe)
{
    return maybe ? value(*maybe) : bb_null();
}

class request;

/* The rows of a statement. They and their cells live as long as the request. */
class rows
{
    bb_request *raw;
    const bb_rows *list;

  public:
    rows(bb_request *of, const bb_rows *from) : raw(of), list(from)
    {
    }

    struct row {
        bb_request *raw;
        const bb_rows *list;
        size_t index;

        /* Returns a cell; nothing for SQL's null. */
        std::optional<std::string_view> text(size_t column) const
        {
            const char *cell = bb_cell(raw, list, index, column);

            return cell ? std::optional<std::string_view>(cell) : std::nullopt;
        }
        /* Returns a cell of an integer or boolean column; 0 for SQL's null. */
        int64_t number(size_t column) const
        {
            return bb_cell_int(raw, list, index, column);
        }
    };

    struct iterator {
        bb_request *raw;
        const bb_rows *list;
        size_t index;

        row operator*() const
        {
            return {raw, list, index};
        }
        iterator &operator++()
        {
            index++;
            return *this;
        }
        bool operator!=(const iterator &other) const
        {
            return index != other.index;
        }
    };

    iterator begin() const
    {
        return {raw, list, 0};
    }
    iterator end() const
    {
        return {raw, list, size()};
    }
    size_t size() const
    {
        return bb_count(raw, list);
    }
    /* Returns the number of rows that the statement has inserted, changed or deleted. */
    size_t affected() const
    {
        return bb_affected(raw, list);
    }
    row operator[](size_t index) const
    {
        if (index >= size())
            throw std::out_of_range("the statement has fewer rows");
        return {raw, list, index};
    }
};

/* The readers of an event, in addition to Admins. */
struct audience {
    int64_t organization = 0;
    std::initializer_list<const char *> emails = {};
};

/* The functions that units and transactions share. */
class tx
{
  protected:
    request *rq;
    bb_tx *raw;

  public:
    tx(request &of, bb_tx *from) : rq(&of), raw(from)
    {
    }
    tx(const tx &) = delete;
    tx &operator=(const tx &) = delete;

    /* Adds a statement to a unit, or runs it in a transaction. */
    template <typename... arguments> void add(const bb_sql &sql, const arguments &...values);
    /* Raises an event that the module declares. */
    void emit(const char *name, json payload, const audience &readers = {});
};

/* A list of statements that the host runs in one transaction. A unit that is not committed has no
 * effect. */
class unit : public tx
{
  public:
    using tx::tx;

    /* Runs and commits the statements, and responds. Parks. */
    int commit(int status, json body) &&;
};

/* A transaction with a separate connection, as store<> gets it. */
class transaction : public tx
{
  public:
    using tx::tx;

    /* Runs a statement. Parks. */
    template <typename... arguments> rows query(const bb_sql &sql, const arguments &...values);
};

/* A request: HTTP, a run of a job, or a committed hook. */
class request
{
    bb_request *const raw;
    bool ended = false; /* memory ran out */

  public:
    explicit request(bb_request *from) : raw(from)
    {
    }
    request(const request &) = delete;
    request &operator=(const request &) = delete;

    /* For functions of the host that this class does not have: rq.call([&](bb_request *raw) { … }).
     */
    template <typename function> auto call(function work)
    {
        using result = std::invoke_result_t<function, bb_request *>;
        static_assert(std::is_trivially_destructible_v<function> &&
                          std::is_trivially_destructible_v<result>,
                      "without memory, no destructor of this function and its result would run");
        struct frame {
            function work;
            result value;
        } run{work, {}};

        if (ended || bb_guard(
                         raw,
                         [](bb_request *inner, void *arg) {
                             auto *of = static_cast<frame *>(arg);

                             of->value = of->work(inner);
                         },
                         &run)) {
            ended = true;
            throw failed();
        }
        return run.value;
    }

    /* Like call(), for functions that park. */
    template <typename function> auto park(function work)
    {
        if (std::current_exception() || std::uncaught_exceptions())
            throw std::logic_error("a module parks while it handles an exception");
        return call(work);
    }

    const char *setting_text(const char *name) const
    {
        return bb_setting_text(raw->host, name);
    }
    int64_t setting_int(const char *name) const
    {
        return bb_setting_int(raw->host, name);
    }
    /* Returns the module's struct of bound settings. */
    template <typename settings> const settings &bound() const
    {
        return *static_cast<const settings *>(bb_settings(raw->host));
    }
    /* Returns the state that `open` has created. */
    template <typename state> state &state_of() const
    {
        return *static_cast<state *>(raw->state);
    }

    /* Returns the account that sent the request. Throws on public routes, in jobs and in hooks. */
    const bb_principal &principal() const
    {
        if (!raw->principal)
            throw std::logic_error("the request has no account");
        return *raw->principal;
    }
    const json_t *body() const
    {
        return bb_body(raw);
    }
    /* Returns a text of the body; NULL if it is absent. */
    const char *text(const char *name) const
    {
        return bb_text(raw, name);
    }
    const char *segment(const char *name)
    {
        return call([=](bb_request *rq) { return bb_segment(rq, name); });
    }
    /* Returns a parameter of the query; NULL if it is absent. */
    const char *arg(const char *name)
    {
        return call([=](bb_request *rq) { return bb_arg(rq, name); });
    }
    int64_t arg_int(const char *name, int64_t absent)
    {
        return call([=](bb_request *rq) { return bb_arg_int(rq, name, absent); });
    }

    /* Runs a statement. Parks. */
    template <typename... arguments> rows query(const bb_sql &sql, const arguments &...values)
    {
        const bb_value list[] = {value(values)..., bb_null()};
        const bb_rows *found =
            park([&](bb_request *rq) { return bb_query(rq, &sql, list, sizeof...(values)); });

        if (!found)
            throw failed();
        return {raw, found};
    }
    /* Returns the next id of a sequence. Parks. */
    int64_t next_id(const char *sequence)
    {
        int64_t id = park([=](bb_request *rq) { return bb_next_id(rq, sequence); });

        if (id < 0)
            throw failed();
        return id;
    }
    /* Creates a unit. Units with the same key run one after the other: use the id of the row that
     * the unit locks. */
    busbar::unit unit(int64_t key)
    {
        bb_tx *made = call([=](bb_request *rq) { return bb_unit(rq, static_cast<uint64_t>(key)); });

        if (!made)
            throw failed();
        return {*this, made};
    }

    /*
     * Runs work(busbar::transaction &) in a transaction with a separate connection. `work` returns
     * the status of its response. The transaction is committed if the status is below 400, and
     * rolled back otherwise or after an exception. Parks.
     */
    template <typename function> int transact(function work);

    /* Responds with JSON. Parks while a large response is written. */
    int reply(int status, json body)
    {
        json_t *taken = body.release();

        return park([=](bb_request *rq) { return bb_reply(rq, status, taken); });
    }
    /*
     * Responds with a page of a list: `item` converts a row to JSON. Select one row more than
     * `limit`: if it exists, the response has a Link to the next page, with the cell `key` of the
     * last row as its cursor.
     */
    template <typename function>
    int reply_rows(const rows &found, size_t limit, size_t key, function item)
    {
        size_t count = 0;
        json list = json::list();

        if (found.size() > limit && limit) {
            std::string cursor(found[limit - 1].text(key).value_or(""));
            const char *text = cursor.c_str();

            if (call([=](bb_request *rq) { return bb_reply_next(rq, text); }))
                throw failed();
        }
        for (rows::row row : found)
            if (count++ < limit)
                std::move(list).push(item(row));
        return reply(200, std::move(list));
    }

    void log(bb_level level, const char *text)
    {
        call([=](bb_request *rq) {
            bb_log_text(rq, level, text);
            return 0;
        });
    }
    /* In a job: makes it run again soon, because work is left. */
    void again()
    {
        bb_again(raw);
    }

    bool is_ended() const
    {
        return ended;
    }
};

template <typename... arguments> void tx::add(const bb_sql &sql, const arguments &...values)
{
    const bb_value list[] = {value(values)..., bb_null()};

    if (rq->park([&](bb_request *inner) {
            return bb_add(inner, raw, &sql, list, sizeof...(values));
        }) < 0)
        throw failed();
}

inline void tx::emit(const char *name, json payload, const audience &readers)
{
    enum { most = 16 };
    const char *emails[most + 1] = {};
    const bb_audience list = {sizeof list, readers.organization, emails};
    json_t *taken = payload.release();
    size_t count = 0;

    if (readers.emails.size() > most)
        throw std::length_error("an event has too many readers");
    for (const char *email : readers.emails)
        emails[count++] = email;
    if (rq->call([&](bb_request *inner) { return bb_emit(inner, raw, name, taken, &list); }))
        throw failed();
}

inline int unit::commit(int status, json body) &&
{
    json_t *taken = body.release();
    int answered =
        rq->park([&](bb_request *inner) { return bb_commit(inner, raw, status, taken); });

    if (!answered)
        throw failed();
    return answered;
}

template <typename... arguments>
rows transaction::query(const bb_sql &sql, const arguments &...values)
{
    const bb_value list[] = {value(values)..., bb_null()};
    bb_request *outer = nullptr;
    const bb_rows *found = rq->park([&](bb_request *inner) {
        outer = inner;
        return bb_tx_query(inner, raw, &sql, list, sizeof...(values));
    });

    if (!found)
        throw failed();
    return {outer, found};
}

template <typename function> int request::transact(function work)
{
    struct frame {
        request *rq;
        function *work;
        std::exception_ptr thrown;

        static int run(bb_request *inner, bb_tx *tx, void *arg)
        {
            frame *of = static_cast<frame *>(arg);
            int status = 500;

            try {
                transaction in(*of->rq, tx);

                status = (*of->work)(in);
            } catch (...) {
                of->thrown = std::current_exception();
            }
            if (of->rq->ended)
                bb_alloc(inner, SIZE_MAX); /* does not return */
            return of->thrown ? bb_fail_text(inner, 500, nullptr) : status;
        }
    } call_of = {this, &work, nullptr};
    frame *of = &call_of;
    int status = park([=](bb_request *inner) { return bb_transaction(inner, frame::run, of); });

    if (of->thrown)
        std::rethrow_exception(of->thrown);
    return status;
}

/* A row of an upload. */
class bulk_row
{
    request &rq;
    bb_bulk_row *row;

  public:
    bulk_row(request &of, bb_bulk_row *from) : rq(of), row(from)
    {
    }
    /* Returns the cell of a column of the type's table; NULL if it is empty. */
    const char *cell(size_t column) const
    {
        return row->cells[column];
    }
    bool is_refused() const
    {
        return row->problems;
    }
    /* Adds a problem with a column, or with "" for the whole row. */
    void problem(const char *field, const char *problem)
    {
        bb_bulk_row *of = row;

        rq.call([=](bb_request *inner) {
            bb_bulk_problem(inner, of, bb_format(inner, "%s", field),
                            bb_format(inner, "%s", problem));
            return 0;
        });
    }
};

/* The rows of an upload. */
class bulk_rows
{
    request &rq;
    std::span<bb_bulk_row *const> list;

  public:
    bulk_rows(request &of, bb_bulk_row *const *from, size_t count) : rq(of), list(from, count)
    {
    }
    size_t size() const
    {
        return list.size();
    }
    bulk_row operator[](size_t index) const
    {
        return {rq, list[index]};
    }
};

namespace detail
{

enum class outcome { done, host_failed, is_refused, threw };

/* The result of work(). It has no destructor, which the end of a request would skip. */
struct report {
    outcome how;
    int status;
    char field[64], text[512];
};

/*
 * Calls work(rq), a function of the module. When run() returns, all objects and exceptions of the
 * module are destroyed. If memory ran out in the host, the request ends instead.
 */
template <typename function> report run(bb_request *raw, function work)
{
    report did = {outcome::threw, 500, "", "an exception"};
    bool ended = false;

    {
        request rq(raw);

        try {
            did.status = work(rq);
            did.how = outcome::done;
        } catch (const failed &) {
            did.how = outcome::host_failed;
        } catch (const refused &error) {
            did.how = outcome::is_refused;
            did.status = error.status;
            std::snprintf(did.field, sizeof did.field, "%s", error.field.c_str());
            std::snprintf(did.text, sizeof did.text, "%s", error.what());
        } catch (const std::exception &error) {
            std::snprintf(did.text, sizeof did.text, "%s", error.what());
        } catch (...) {
        }
        ended = rq.is_ended();
    }
    if (ended)
        bb_alloc(raw, SIZE_MAX); /* does not return */
    return did;
}

/* For functions without a response: logs the reason of a failure, unless the host has logged it.
 * Returns 0 or -1. */
template <typename function> int run_quietly(bb_request *raw, function work)
{
    report did = run(raw, [&](request &rq) {
        work(rq);
        return 0;
    });

    if (did.how == outcome::threw || did.how == outcome::is_refused)
        bb_log(raw, BB_ERROR, "a function threw: %s", did.text);
    return did.how == outcome::done ? 0 : -1;
}

} // namespace detail

/* A handler for bb_route: int handler(busbar::request &). */
template <int (*handler)(request &)> int route(bb_request *raw)
{
    detail::report did = detail::run(raw, handler);

    switch (did.how) {
    case detail::outcome::done:
        return did.status;
    case detail::outcome::host_failed:
        return bb_failed(raw);
    case detail::outcome::is_refused:
        if (*did.field)
            return bb_invalid_text(raw, did.field, did.text);
        return bb_fail_text(raw, did.status, did.text);
    default:
        bb_log(raw, BB_ERROR, "a handler threw: %s", did.text);
        return bb_fail_text(raw, 500, nullptr);
    }
}

/* For bb_job: void work(busbar::request &). */
template <void (*work)(request &)> void job(bb_request *raw)
{
    detail::run_quietly(raw, work);
}

/* For bb_hook.committed: void heard(busbar::request &, const bb_event &). */
template <void (*heard)(request &, const bb_event &)>
void hook(bb_request *raw, const bb_event *event)
{
    detail::run_quietly(raw, [=](request &rq) { heard(rq, *event); });
}

/* For bb_bulk_rows.check: void check(busbar::request &, const bb_bulk_job &, busbar::bulk_rows). */
template <void (*work)(request &, const bb_bulk_job &, bulk_rows)>
int check(bb_request *raw, const bb_bulk_job *upload, bb_bulk_row *const *list, size_t count)
{
    return detail::run_quietly(raw,
                               [=](request &rq) { work(rq, *upload, bulk_rows(rq, list, count)); });
}

/* For bb_bulk_rows.store: like check(), with a busbar::transaction & after the request. */
template <void (*work)(request &, transaction &, const bb_bulk_job &, bulk_rows)>
int store(bb_request *raw, bb_tx *tx, const bb_bulk_job *upload, bb_bulk_row *const *list,
          size_t count)
{
    return detail::run_quietly(raw, [=](request &rq) {
        transaction in(rq, tx);

        work(rq, in, *upload, bulk_rows(rq, list, count));
    });
}

} // namespace busbar

#endif
