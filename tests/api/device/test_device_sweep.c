/* The sweep of the document store. */
#include <sys/stat.h>

#include "devices.h"
#include "files.h"

static const char database[] = "device_sweep";

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = database,
                                   .modules = "[auth, device]",
                                   .more = files_section(harness_path("documents-sweep"))});
    m = person_make(host, admin, "sweep.m", NULL);
}

TEST(the_sweep_removes_only_files_without_a_document)
{
    static const char *const sweep[] = {"device", "sweep", NULL};
    static const char orphan[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b8ff";
    char *directory = harness_path("documents-swept");
    struct host *own = host_start(&(struct host_spec){.name = "device-swept",
                                                      .database = database,
                                                      .modules = "[auth, device, metrics]",
                                                      .more = files_section(directory)});
    struct upload_body body = files_named("Swept");

    upload_file(&body, "SF_02C", "x", "kept", 4);
    struct answer *made = ck_status(upload_send(own, "POST", DEVICE, m, &body), 201);
    const char *shard = text("%s/e3", directory), *path = text("%s/%s", shard, orphan);

    mkdir(shard, 0700);
    file_write(path, "orphan");
    ck_assert_int_eq(host_command(own, NULL, sweep), 0);
    ck_assert_int_eq(access(path, F_OK), 0); /* too young */
    ck_assert_int_eq(system(text("find %s -type f -exec touch -d '1 hour ago' {} +", directory)),
                     0);
    ck_assert_int_eq(host_command(own, NULL, sweep), 0);
    ck_assert_int_eq(access(path, F_OK), -1);
    struct answer *file =
        http(own, "GET", text(DEVICE "/Swept/documents/%s", files_document(made, 0, "id")),
             m->token, NULL);

    ck_assert_str_eq(ck_status(file, 200)->body, "kept");
    host_stop(own);
}

STAGE_SUITE(device_sweep, set_up, 120)
