/* The control socket, and the output of `busbar status`. */
#include <sys/stat.h>

#include "wave.h"

static struct wave *wave;

TEST(the_control_socket_is_private_and_replaced_after_a_crash)
{
    const char *path = harness_path("reload-sock.control");
    struct stat about;

    wave = wave_start("reload-sock", NULL);
    EACH_TEXT (part, "module wave 1.0.0, build ", "pool wave.nap: 1 of 4 threads", "1 workers run",
               "database read: 2 of 2 connections")
        wave_status_soon(wave, part);
    ck_assert_int_eq(stat(path, &about), 0);
    ck_assert_uint_eq(about.st_mode & 0777, 0600);
    host_kill(wave->host);
    ck_prints(wave->host, 1, "no host responds at", "status");
    ck_assert(host_run(wave->host));
    wave_status_soon(wave, "generation 1: live");
    host_says(wave->host, 0, "status");
    host_stop(wave->host);
    ck_assert_int_ne(stat(path, &about), 0);
}

TEST(a_second_host_does_not_take_over_the_control_socket)
{
    wave = wave_start("reload-two", NULL);
    struct host second = *wave->host;

    second.log = harness_path("host-reload-two-b.log");
    ck_assert(host_run(&second));
    host_stop(&second);
    ck_assert_uint_eq(host_logged(&second, "another host uses this path"), 1);
    ck_prints(wave->host, 0, text("process %d", wave->host->pid), "status");
}

SUITE(reload_status, .timeout_s = 90)
